"""What needs no graph: element types, shapes, literals, errors, flags, caches."""
