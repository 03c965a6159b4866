"""axla as a PJRT plugin: the C API through which JAX compiles and runs programs.

docs/design/0011-pjrt-plugin.md describes its design.
"""
