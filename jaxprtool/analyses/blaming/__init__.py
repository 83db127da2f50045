"""Bad values: where NaN, infinities and the like begin while a program runs, and what they reach."""
