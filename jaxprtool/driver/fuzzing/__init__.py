"""Random programs, and the columns through which they are run."""
