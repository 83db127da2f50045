"""Writing StableHLO as text: types, attributes, constants and operations."""
