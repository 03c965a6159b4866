"""Plain bytecode of StableHLO, CHLO and related dialects (without VHLO): the codes of attributes and types,
and the attributes of each operation in the order of its properties.

This form has no compatibility guarantee: the form of 2026 is read, with a few older versions.
"""

from __future__ import annotations

from axla.importers.records import AttributeRecord, Record
from axla.stablehlo import mlir
from axla.stablehlo.bytecode import values
from axla.stablehlo.bytecode.builtin import constant
from axla.stablehlo.bytecode.entries import Encoding
from axla.stablehlo.operations import OPERATIONS

_FIELDS = {
    "i": "s", "l": "S", "f": "f", "s": "n", "b": "y", "t": "t", "a": "a", "a/": "B", "A": "A", "m": "a",
    "x/": "B",
}  # fmt: skip
ATTRIBUTES: dict[int, Encoding] = values.encodings(
    """
- channel_handle comparison_direction comparison_type conv dot fft_type gather precision rng_algorithm
rng_distribution scatter transpose - output_operand_alias dot_algorithm result_accuracy_mode
result_accuracy replica_group_mesh_axes sub_axis_info axis_ref mesh_axis mesh
""",
    _FIELDS,
) | {13: ("S", values.bounds)}
CHLO_ATTRIBUTES = values.encodings("comparison_direction comparison_type", _FIELDS, "chlo")
TYPES: dict[int, Encoding] = {0: constant(mlir.TokenType()), 1: ("T", mlir.FutureType)}


def _forms(record: Record) -> list[tuple[AttributeRecord, ...]]:
    """The attributes of an operation in property order, for each version, the newest first: sorted by name,
    with segment sizes last.
    """
    attributes = sorted(record.attributes, key=lambda a: (a.kind == "segments", a.name))
    return [
        tuple(a for a in attributes if a.since <= version)
        for version in range(max([a.since for a in attributes], default=1), 0, -1)
    ]


FORMS = {name: _forms(record) for name, record in OPERATIONS.items()}
"""The attributes in the properties of each operation, for each version."""
