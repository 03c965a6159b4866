"""Reads MLIR bytecode: portable artifacts (VHLO of any version) and plain bytecode of StableHLO and related
dialects.

`reader.py` reads the file: sections, strings, dialects, properties, resources. `entries.py` decodes the table
of attributes and types on demand, by the tables of each dialect: `builtin.py`, `vhlo.py`, `sharding.py` and
`native.py` (StableHLO and CHLO without VHLO). `operations.py` reads the operations. `vhlo.py` also converts
operations of each VHLO version to current StableHLO.
"""

from axla.stablehlo.bytecode.reader import read

__all__ = ["read"]
