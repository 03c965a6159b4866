"""MLIR bytecode in: portable artifacts (VHLO of any version) and plain bytecode of the dialects around them.

`reader.py` is the file: sections, strings, dialects, properties, resources. `entries.py` decodes the table of
attributes and types on demand, by the tables of each dialect: `builtin.py`, `vhlo.py`, `sharding.py` and
`native.py` (StableHLO and CHLO as they are written without VHLO). `operations.py` walks the operations.
`vhlo.py` also says how an operation of each VHLO version becomes the one of today.
"""

from axla.stablehlo.bytecode.reader import read

__all__ = ["read"]
