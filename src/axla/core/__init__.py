"""What is independent of the graph: element types, shapes, literals, errors, flags, caches."""
