"""Simplification: HLO in, smaller HLO out, the same values bit for bit.

`algebra_*.py` hold the rules of algsimp, one file per family; `cse`, `dce`, `fold`, `inline`, `loops`, `calls`, `tuples` a pass or two each.
"""
