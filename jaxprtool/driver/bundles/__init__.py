"""The archives of `repro`: what is in one, how it is replayed, and how it is freed of names and values."""
