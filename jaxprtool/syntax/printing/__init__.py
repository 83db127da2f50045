"""Programs to text: layout, names, and what stands below a jaxpr."""
