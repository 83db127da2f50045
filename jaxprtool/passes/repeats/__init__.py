"""Find what a program does several times, and make the function or the scan that replaces it."""
