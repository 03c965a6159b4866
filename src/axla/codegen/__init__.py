"""Code generation: kernels and entry functions as LLVM text, and the calls of LLVM that compile it."""
