"""Random programs, and the columns that they are run through."""
