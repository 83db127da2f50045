"""Values that are in memory at one time, and those that a reverse pass keeps."""
