"""What differs between two programs, equation by equation."""
