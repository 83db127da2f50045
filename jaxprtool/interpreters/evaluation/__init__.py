"""The surroundings of an evaluation on NumPy: observers, limits, and the state of kernels and cells."""
