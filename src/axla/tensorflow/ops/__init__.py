"""TensorFlow's operations: a module for each family, with a table of records, and lowering functions for
those that are not a single function of `axla.ops`.
"""
