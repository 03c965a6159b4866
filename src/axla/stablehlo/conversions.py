"""Conversions between attributes of operations and fields of HLO ops. Each kind of attribute has a function
that reads it and one that makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, get_args

import numpy as np

import axla.hlo as hlo
from axla.core.dataclass import dataclass
from axla.core.dtypes import DType
from axla.core.errors import UnsupportedError, VerifyError
from axla.core.shape import array
from axla.importers.counterparts import OpField
from axla.ir.attributes import (
    CONVOLUTION_DIMENSIONS,
    CompareType,
    ConvDims,
    Precision,
    SourceTargetPairs,
    Word,
)
from axla.ir.devices import ReplicaGroups
from axla.ir.graph import Computation, Instruction
from axla.ir.op import Op
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.attributes import ENUMERATIONS, STRUCTURES
from axla.stablehlo.building import I1, I32, I64, matrix, number, numbers
from axla.stablehlo.mesh import mesh_groups
from axla.stablehlo.text.printer import type_text
from axla.stablehlo.types import element_of


@dataclass(frozen=True, slots=True)
class Conversion:
    """Converts one kind of attribute. `read(said, name, source)` returns the value of the op's field for the
    attribute `name` of `said`, and rejects an attribute of another kind; `source` is the program that has the
    attribute. `make(value, inst)` returns the attribute for the value of a field, None to leave it out.
    """

    read: Callable[[attr.Said, str, mlir.Source], Any]
    make: Callable[[Any, Instruction], Any]


def conversion(field: OpField, dialect: str = "stablehlo") -> Conversion:
    """The conversion for the attribute of a field."""
    assert field.attribute is not None
    kind = field.attribute.kind
    if kind[0] == "#" and not field.name:
        return _structure(kind[1:], dialect)
    if kind in ENUMERATIONS and kind not in _KINDS:
        return _enumeration(kind, field.type, dialect)
    if kind[:3] in ("i32", "i64"):
        return _integer(I32 if kind[:3] == "i32" else I64, in_tuple=field.type is not int)
    if kind == "segments":
        return _segments(of_operands=field.attribute.name.startswith("operand"))
    if kind == "precisions":
        return _precisions(dialect)
    if kind == "table" and field.inner:
        return _column(field.column)
    if kind == "string" and field.type is not str:
        return _text(next(iter(get_args(field.type)), field.type))
    return _KINDS[kind]


def _read_by(read: Callable[[attr.Said, str], Any], make: Callable[[Any], Any]) -> Conversion:
    """A conversion whose functions need fewer arguments: `read` only the attribute, not the source; `make`
    only the value, not the instruction.
    """
    return Conversion(lambda said, name, source: read(said, name), lambda value, inst: make(value))


# Numbers and words


def _integer(kind: mlir.IntegerType, *, in_tuple: bool) -> Conversion:
    """The conversion of an integer attribute of the type `kind`. If `in_tuple`, the HLO field is a tuple with
    this integer as its only element.
    """
    if in_tuple:
        return _read_by(lambda said, name: (attr.integer(said, name),), lambda value: number(value[0], kind))
    return _read_by(attr.integer, lambda value: number(value, kind))


def _segments(*, of_operands: bool) -> Conversion:
    """The sizes of the two segments of operands or results, of which the second one has the values that the
    operation carries. The HLO field is the size of this segment.
    """

    def make(carries: int, inst: Instruction) -> mlir.DenseArray:
        count = len(inst.operands) if of_operands else inst.shape.leaf_count
        return numbers((count - carries, carries), I32)

    return Conversion(lambda said, name, source: attr.integers(said, name)[1], make)


def _column(column: int) -> Conversion:
    """The conversion of a field that is column number `column` of a matrix. `make` returns the column as a
    list; the caller joins the columns.
    """
    return _read_by(lambda said, name: tuple([row[column] for row in attr.matrix(said, name)]), list)


def _enumeration(kind: str, members: type[Enum], dialect: str) -> Conversion:
    def read(said: attr.Said, name: str) -> Any:
        word = attr.word(said, name)
        if word not in members.__members__:
            attr.reject(said, name, f"one of {', '.join(members.__members__)}")
        return members[word]

    return _read_by(read, lambda value: mlir.EnumAttr(kind, members(value).name, dialect))


def _text(kind: Callable[[str], Any]) -> Conversion:
    """A string that must be a value of the enumeration `kind`."""

    def read(said: attr.Said, name: str) -> Any:
        try:
            return kind(attr.text(said, name))
        except ValueError as error:
            raise VerifyError(f"the attribute {name}: {error}") from None

    return _read_by(read, str)


def _compare_type(said: attr.Said, name: str) -> CompareType | None:
    """The comparison type: TOTAL_ORDER, or None for one that follows from the element type."""
    return CompareType.TOTAL_ORDER if attr.word(said, name) == "TOTALORDER" else None


def _type_of_comparison(kind: CompareType | None, inst: Instruction) -> mlir.EnumAttr:
    dtype = array(inst.operands[0].shape).dtype
    word = "SIGNED" if dtype.is_signed else "FLOAT" if dtype.is_inexact else "UNSIGNED"
    if kind is CompareType.TOTAL_ORDER and dtype.is_float:
        word = "TOTALORDER"
    return mlir.EnumAttr("comparison_type", word)


def precision(said: attr.Said, name: str) -> tuple[Precision, ...]:
    """Reads the precision of each operand; () if all are the default."""
    found = tuple(Precision(word.lower()) for word in attr.words(said, name))
    return () if all(p is Precision.DEFAULT for p in found) else found


def _precisions(dialect: str) -> Conversion:
    def make(given: tuple[Precision, ...]) -> tuple[mlir.EnumAttr, ...]:
        given = given or (Precision.DEFAULT,) * 2
        words = ["DEFAULT" if p is Precision.PACKED_NIBBLE else str(p).upper() for p in given]
        return tuple(mlir.EnumAttr("precision", word, dialect) for word in words)

    return _read_by(precision, make)


# Dimension numbers


def _field_of(name: str) -> str:
    """The HLO name of a list of dimensions: `lhs_batch_dims` for `lhs_batching_dimensions`."""
    return name.replace("_batching_dimensions", "_batch_dims").replace("_dimensions", "_dims")


def _structure(mnemonic: str, dialect: str) -> Conversion:
    """The conversion of an attribute with dimension numbers, `#DIALECT.MNEMONIC<...>`, to fields of the op
    and back. The fields of an attribute inside it, such as the `dot` of a `ragged_dot`, are read too.
    """
    readers = {"l/": partial(attr.integers, default=()), "i/": partial(attr.integer, default=0)}
    kinds = STRUCTURES[mnemonic].items()

    def read(said: attr.Said, name: str) -> dict[str, Any]:
        fields = dict(attr.structure(said, name, mnemonic))
        for inner in [value for value in fields.values() if isinstance(value, mlir.StructAttr)]:
            fields |= inner.fields
        return {_field_of(field): readers[kind](fields, field) for field, kind in kinds}

    def make(op: Op) -> mlir.StructAttr:
        fields = {field: getattr(op, _field_of(field)) for field, _ in kinds}
        return mlir.StructAttr(mnemonic, fields, dialect)

    return _read_by(read, make)


def labels_of(said: attr.Said, name: str) -> ConvDims:
    """Reads the dimension labels of a convolution."""
    fields, kinds = attr.structure(said, name, "conv"), STRUCTURES["conv"]
    readers = {"l/": partial(attr.integers, default=()), "i/": partial(attr.integer, default=-1)}
    found = {label: readers[kinds[field]](fields, field) for field, label in CONVOLUTION_DIMENSIONS.items()}
    return ConvDims.of(**found)


def _numbers_of(labels: ConvDims) -> mlir.StructAttr:
    if "?" in labels.input + labels.kernel + labels.output:
        raise UnsupportedError(f"dimensions without a meaning: {labels}")
    fields = {name: getattr(labels, label) for name, label in CONVOLUTION_DIMENSIONS.items()}
    return mlir.StructAttr("conv", fields)


def _fields_of_algorithm(name: str) -> tuple[Any, ...]:
    """The fields of #stablehlo.dot_algorithm for an HLO algorithm name: three types, three counts, whether
    accumulation may be imprecise.
    """
    words = name.replace("any_f8", "f8").split("_")[1:]
    count = int(words[3][1:]) if words[3:] and words[3][0] == "x" else 1
    return (*words[:3], 1, 1, count, words[-1] == "accum")


_NAMES = """
dot_any_f8_any_f8_f32 dot_any_f8_any_f8_f32_fast_accum dot_f16_f16_f16 dot_f16_f16_f32 dot_bf16_bf16_bf16
dot_bf16_bf16_f32 dot_bf16_bf16_f32_x3 dot_bf16_bf16_f32_x6 dot_bf16_bf16_f32_x9 dot_tf32_tf32_f32
dot_tf32_tf32_f32_x3 dot_f32_f32_f32 dot_f64_f64_f64
"""
_ALGORITHMS = {name: _fields_of_algorithm(name) for name in _NAMES.split()}
_BY_FIELDS = {fields: name for name, fields in _ALGORITHMS.items()} | {
    ("bf16", "bf16", "f32", 3, 3, 6, False): "dot_bf16_bf16_f32_x6"
}
_ALGORITHM = list(STRUCTURES["dot_algorithm"])


def _algorithm(said: attr.Said, name: str) -> Word:
    fields = attr.structure(said, name, "dot_algorithm")
    types = [type_text(fields.get(field, mlir.NoneType())) for field in _ALGORITHM[:3]]
    counts = [attr.integer(fields, field, 1) for field in _ALGORITHM[3:6]]
    kinds = ["f8" if t.startswith("f8") else t for t in types]
    found = _BY_FIELDS.get((*kinds, *counts, bool(fields.get(_ALGORITHM[6]))))
    if found is None:
        attr.reject(said, name, "one that HLO has")
    return Word(found)


def _algorithm_of(name: Word | None, inst: Instruction) -> mlir.StructAttr | None:
    if name is None:
        return None
    if name not in _ALGORITHMS:
        raise UnsupportedError(f"StableHLO has no algorithm {name}")
    left, right, *others = _ALGORITHMS[name]
    own = [element_of(array(o.shape).dtype) for o in inst.operands]
    types = [own[n] if kind == "f8" else mlir.FloatType(kind) for n, kind in enumerate((left, right))]
    values = [*types, mlir.FloatType(others[0]), *others[1:]]
    return mlir.StructAttr("dot_algorithm", dict(zip(_ALGORITHM, values, strict=True)))


# Replica groups and channels


def replica_groups(said: attr.Said, name: str, source: mlir.Source) -> ReplicaGroups:
    """Reads replica groups. They are given by axes of a mesh, or by a matrix with a group in each row; short
    rows are padded with -1.
    """
    if attr.is_structure(said, name):
        return ReplicaGroups(mesh_groups(source, said, name).table().rows())
    rows = attr.matrix(said, name, [])
    return ReplicaGroups(tuple(group for row in rows if (group := tuple(m for m in row if m >= 0))))


_CHANNEL_ZERO = (1 << 31) - 1


def _channel(said: attr.Said, name: str) -> int | None:
    """Reads the number of a channel; None for 0, which means no channel."""
    handle = attr.integer(attr.structure(said, name, "channel_handle", {}), "handle", 0)
    return handle if handle > 0 else None


def channel_handle(channel: int, kind: int = 1) -> mlir.StructAttr:
    """The handle of a channel. `kind` is 1 between devices, 2 for a transfer to the host, 3 for one from the
    host.
    """
    return mlir.StructAttr("channel_handle", {"handle": channel, "type": kind})


def _handle_of(channel: int | None) -> mlir.StructAttr | None:
    return None if channel is None else channel_handle(channel or _CHANNEL_ZERO)


def _pairs(said: attr.Said, name: str) -> SourceTargetPairs:
    return SourceTargetPairs(tuple((row[0], row[1]) for row in attr.matrix(said, name)))


def _rows_of(pairs: SourceTargetPairs) -> mlir.DenseElements:
    if pairs.text and not pairs.pairs:
        raise UnsupportedError(f"source_target_pairs={pairs.text}")
    return matrix(pairs.pairs, 2)


_KINDS: dict[str, Conversion] = {
    "#channel_handle": _read_by(_channel, _handle_of),
    "#conv": _read_by(labels_of, _numbers_of),
    "#dot_algorithm": Conversion(lambda said, name, source: _algorithm(said, name), _algorithm_of),
    "bool": _read_by(attr.flag, bool),
    "bools": _read_by(
        lambda said, name: tuple(map(bool, attr.integers(said, name))),
        lambda values: numbers(values, I1),
    ),
    "comparison_type": Conversion(lambda said, name, source: _compare_type(said, name), _type_of_comparison),
    "f32": _read_by(attr.number, lambda value: mlir.FloatAttr(np.float32(value), mlir.FloatType("f32"))),
    "groups": Conversion(replica_groups, lambda value, inst: matrix(value.groups)),
    "ints": _read_by(attr.integers, numbers),
    "string": _read_by(attr.text, str),
    "table": _read_by(_pairs, _rows_of),
    "unit": _read_by(attr.flag, lambda value: mlir.UNIT if value else None),
}


BY_TYPE: dict[Any, Conversion] = {
    bool: _KINDS["bool"],
    float: _read_by(attr.number, lambda value: mlir.FloatAttr(np.float64(value), mlir.FloatType("f64"))),
    int: _read_by(attr.integer, number),
    tuple[int, ...]: _KINDS["ints"],
}
"""Conversions for ops that StableHLO does not have: by the type of a field, the conversion of the field."""


def combined(op: Op, count: int) -> list[int]:
    """The numbers of those of an op's `count` operands whose elements its region combines. The other operands
    are the indices of a scatter, the first operand of a select-and-scatter, and the root of a collective.
    """
    others = {hlo.Scatter: count // 2, hlo.SelectAndScatter: 0}.get(type(op), -1)
    if getattr(op, "has_dynamic_root", False):
        others = count - 1
    return [n for n in range(count) if n != others]


def computed_types(called: Computation) -> list[DType]:
    """The element types in which a region combines the elements of n operands. Of its 2n parameters, number k
    and number n + k have the same type, so the types of the first n are returned.
    """
    types = [array(parameter.shape).dtype for parameter in called.parameters]
    return types[: len(types) // 2]
