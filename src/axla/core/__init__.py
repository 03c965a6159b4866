"""The parts that need no graph: element types, shapes, literals, errors, flags, caches."""
