"""The modules that do not depend on the graph: element types, shapes, literals, errors, flags, caches."""
