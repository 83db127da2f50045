"""Adapters to external packages: NumPy, JAX, XLA, the terminal."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA logs to standard error, which is ours
