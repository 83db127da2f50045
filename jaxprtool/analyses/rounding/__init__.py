"""What rounding does to a program, beside a run in a wider precision."""
