"""Making a program small while something stays true of it."""
