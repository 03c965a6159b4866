"""axla as a PJRT plugin: the C API by which JAX compiles and runs (docs/design/0011-pjrt-plugin.md)."""
