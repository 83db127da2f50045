"""Transformations of Python functions of pytrees: their parameters, gradients, Jacobians."""
