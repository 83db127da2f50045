"""What a program does several times: where it is, and the function or the scan that takes its place."""
