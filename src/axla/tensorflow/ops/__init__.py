"""TensorFlow's operations: a module for each family, with a table of records and the functions that make HLO
of those that are not one function of `axla.ops`.
"""
