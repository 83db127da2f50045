"""Questions to programs: what matches a pattern, and what an expression of `assert` says of it."""
