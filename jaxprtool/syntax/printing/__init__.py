"""Programs to text: layout, names, and the sections below a jaxpr."""
