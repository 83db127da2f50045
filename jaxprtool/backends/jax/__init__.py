"""The adapter to JAX: its jaxprs, objects and rules as ours, and back."""
