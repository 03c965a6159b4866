"""Simplification: replaces instructions by fewer ones that compute the same values, bit for bit.

`algebra_*.py` have the rules of algsimp, one file per family of ops; each other file has one or two passes,
or helpers.
"""
