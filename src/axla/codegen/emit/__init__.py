"""Kernel emitters: a module per algorithm, which turns a computation and its plan into LLVM text."""
