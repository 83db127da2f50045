"""The adapter to XLA: compilation of StableHLO text, and execution."""
