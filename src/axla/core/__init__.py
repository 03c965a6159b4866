"""The parts that are independent of the graph: element types, shapes, literals, errors, flags, caches."""
