"""The packages that are not of Python's own: NumPy, JAX, XLA, the terminal."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA logs to standard error, which is ours
