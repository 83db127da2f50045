"""Questions to programs: what matches a pattern, and whether an expression of `assert` is true."""
