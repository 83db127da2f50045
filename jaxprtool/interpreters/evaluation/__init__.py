"""What surrounds an evaluation on NumPy: who observes it, its limits, the state of kernels and cells."""
