"""Simplification: replaces HLO by less HLO that gives the same values, bit for bit.

`algebra_*.py` hold the rules of algsimp, one file per family of ops; the other files hold a pass or two each.
"""
