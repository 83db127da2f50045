"""What makes the rules of many primitives at once: elementwise functions, reductions, windows, indexing."""
