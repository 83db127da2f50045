"""Programs, constants and results as files."""
