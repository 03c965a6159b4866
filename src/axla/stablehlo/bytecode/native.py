"""StableHLO, CHLO and the dialects around them as they are written without VHLO: codes of attributes and
types, and the attributes of each operation in the order of its properties: those that its record has.

No version of this form is promised to be readable by another: it is that of 2026, with a few older ones.
"""

from __future__ import annotations

from axla.foreign.records import Attribute, Record
from axla.stablehlo import mlir
from axla.stablehlo.bytecode import values
from axla.stablehlo.bytecode.builtin import constant
from axla.stablehlo.bytecode.entries import Encoding
from axla.stablehlo.operations import OPERATIONS

_enum, _struct = values.enumeration, values.structure

ATTRIBUTES: dict[int, Encoding] = {
    1: ("ss", _struct("channel_handle")),
    2: ("v", _enum("comparison_direction")),
    3: ("v", _enum("comparison_type")),
    4: ("ssSssSssS", _struct("conv")),
    5: ("SSSS", _struct("dot")),
    6: ("v", _enum("fft_type")),
    7: ("SSSSSs", _struct("gather")),
    8: ("v", _enum("precision")),
    9: ("v", _enum("rng_algorithm")),
    10: ("v", _enum("rng_distribution")),
    11: ("SSSSSs", _struct("scatter")),
    12: ("v", _enum("transpose")),
    13: ("S", values.bounds),
    14: ("SsS", _struct("output_operand_alias")),
    15: ("tttsssy", lambda *fields: _struct("dot_algorithm")(*fields[:6], bool(fields[6]))),
    16: ("v", _enum("result_accuracy_mode")),
    17: ("ffsa", _struct("result_accuracy")),
    18: ("aA", _struct("replica_group_mesh_axes")),
    19: ("ss", _struct("sub_axis_info")),
    20: ("nB", _struct("axis_ref")),
    21: ("ns", _struct("mesh_axis")),
    22: ("aB", _struct("mesh")),
}
TYPES: dict[int, Encoding] = {0: constant(mlir.TokenType()), 1: ("T", mlir.FutureType)}

CHLO_ATTRIBUTES: dict[int, Encoding] = {
    0: ("v", _enum("comparison_direction", "chlo")),
    1: ("v", _enum("comparison_type", "chlo")),
}


def _forms(record: Record) -> list[tuple[Attribute, ...]]:
    """The attributes in the order of their names, segments last, of each version, the newest first."""
    attributes = sorted(record.attributes, key=lambda a: (a.kind == "segments", a.name))
    return [
        tuple(a for a in attributes if a.since <= version)
        for version in range(max([a.since for a in attributes], default=1), 0, -1)
    ]


FORMS = {name: _forms(record) for name, record in OPERATIONS.items()}
"""The attributes that the properties of an operation are."""
