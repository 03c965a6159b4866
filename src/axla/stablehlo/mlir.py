"""MLIR in memory: operations, regions and values; types and attributes as immutable values.

Every reader (text in pretty or generic form, bytecode of any version) makes the same operations: names and
attributes are those of StableHLO's current generic form, with inherent and discardable attributes in one
dictionary. Attributes with a Python equivalent are Python values: BoolAttr is `bool`, StringAttr `str`,
ArrayAttr `tuple`, DictionaryAttr `dict`, TypeAttr a Type, UnitAttr `UNIT`. This module does not depend on the
meaning of operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from enum import Enum
from typing import Any

import numpy as np

from axla.core import dtypes
from axla.core.dataclass import dataclass
from axla.core.errors import VerifyError

# ---- Types


@dataclass(frozen=True, slots=True)
class IntegerType:
    """An integer type: `i32` has the sign "", `si32` "s", `ui32` "u". StableHLO's signed integers are
    signless.
    """

    width: int
    sign: str = ""


def limits(kind: IntegerType) -> tuple[int, int]:
    """The smallest and the largest integer of a type. A signless type has both signed and unsigned
    integers.
    """
    width = kind.width
    return 0 if kind.sign == "u" else -(1 << width - 1), (1 << width - (kind.sign == "s")) - 1


@dataclass(frozen=True, slots=True)
class FloatType:
    """A float type, with MLIR's name: f32, bf16, f8E4M3FN, tf32..."""

    name: str


@dataclass(frozen=True, slots=True)
class IndexType:
    """The type `index`."""


@dataclass(frozen=True, slots=True)
class NoneType:
    """The type `none`."""


@dataclass(frozen=True, slots=True)
class ComplexType:
    """A complex type, such as `complex<f32>`."""

    element: Type


@dataclass(frozen=True, slots=True)
class QuantizedType:
    """A quantized type: `!quant.uniform<storage<min:max>:expressed, ...>`.

    `axes` is () if the whole tensor has one scale, (d,) if each index of dimension d has its own. With
    `block_sizes`, one for each axis, it is a sub-channel type: `scales` and `zero_points` are row-major over
    the blocks, and `blocks` is the shape of the array of blocks.
    """

    storage: IntegerType
    expressed: FloatType
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axes: tuple[int, ...]
    storage_min: int
    storage_max: int
    block_sizes: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()

    @staticmethod
    def limits(storage: IntegerType) -> tuple[int, int]:
        """The range of a storage type; unlike in `limits`, `i8` is signed like `si8`."""
        return limits(IntegerType(storage.width, storage.sign or "s"))


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor type. `shape` has the sizes, with None for `?`; it is None itself for an unranked tensor,
    `tensor<*xf32>`.
    """

    shape: tuple[int | None, ...] | None
    element: Type
    encoding: Any = None

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The shape, None unless all sizes are known."""
        found = tuple([size for size in self.shape or () if size is not None])
        return found if self.shape is not None and len(found) == len(self.shape) else None


@dataclass(frozen=True, slots=True)
class MemRefType:
    """A type of memory, such as `memref<2x?xf32>`; a size of None stands for `?`."""

    shape: tuple[int | None, ...]
    element: Type


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple type, `tuple<...>`."""

    elements: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class FunctionType:
    """A function type, `(inputs) -> results`."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class TokenType:
    """The type of tokens, `!stablehlo.token`."""


@dataclass(frozen=True, slots=True)
class FutureType:
    """The type of the results of async_start, `!stablehlo.future<...>`."""

    types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """A type of another dialect, kept as its text without the leading `!`."""

    text: str


Type = (
    IntegerType | FloatType | IndexType | NoneType | ComplexType | QuantizedType | TensorType | MemRefType
    | TupleType | FunctionType | TokenType | FutureType | OpaqueType
)  # fmt: skip


def dtype_of(element: Type) -> dtypes.DType | None:
    """The element type of axla, None if there is none: i1 is pred, signless integers are signed, index is
    s64.
    """
    name = ""
    if isinstance(element, IntegerType):
        name = "pred" if element.width == 1 else f"{'u' if element.sign == 'u' else 's'}{element.width}"
    elif isinstance(element, FloatType):
        name = element.name.lower()
    elif isinstance(element, IndexType):
        name = "s64"
    elif isinstance(element, ComplexType) and isinstance(element.element, FloatType):
        name = {"f32": "c64", "f64": "c128"}.get(element.element.name, "")
    return dtypes.BY_NAME.get(name)


def tensor(type_: Type) -> TensorType:
    """Returns a type that is a tensor type; raises VerifyError for any other type."""
    if not isinstance(type_, TensorType):
        raise VerifyError(f"a tensor is wanted, found {type_}")
    return type_


def stored(element: Type) -> dtypes.DType:
    """The element type that stores elements in NumPy arrays (for a quantized type its storage type). Raises
    ValueError if there is none.
    """
    element = element.storage if isinstance(element, QuantizedType) else element
    found = dtype_of(element)
    if found is None:
        raise ValueError(f"an array cannot have elements of the type {element}")
    return found


CALL = "axla.custom_call"
"""The attribute of custom calls with the facts that HLO has and StableHLO does not have."""
OP = "axla.op."
"""The prefix of the targets of custom calls that stand for ops which StableHLO does not have."""


# ---- Attributes (beside bool, str, tuple, dict and types)


class Unit(Enum):
    """The attribute without a value, `unit`."""

    UNIT = "unit"


UNIT = Unit.UNIT


@dataclass(frozen=True, slots=True)
class IntegerAttr:
    """An integer attribute, such as `1 : i64`."""

    value: int
    type: Type  # IntegerType or IndexType


def integer_of(value: int, kind: IntegerType | IndexType) -> IntegerAttr | bool:
    """The attribute for an integer, or for its bits: 255 : i8 is -1. For i1 it is a bool."""
    width, sign = (kind.width, kind.sign) if isinstance(kind, IntegerType) else (64, "")
    if width == 1 and not sign:
        return bool(value)
    return IntegerAttr(value - (1 << width) if sign != "u" and value >> width - 1 > 0 else value, kind)


@dataclass(frozen=True, slots=True)
class FloatAttr:
    """A float attribute. `value` is a NumPy scalar or 0-d array in the format of the type, so that all bits
    are kept.
    """

    value: Any
    type: FloatType


@dataclass(frozen=True, slots=True)
class SymbolRef:
    """A reference to a symbol, `@root::@nested`."""

    root: str
    nested: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DenseArray:
    """A dense array attribute, such as `array<i64: 1, 2>`. The values are bool, int or float."""

    element: Type
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DenseElements:
    """A dense attribute, `dense<...> : tensor<...>`. `values` has the tensor's shape, or () for a splat; its
    NumPy type is that of the elements (the storage type for a quantized type).
    """

    type: TensorType
    values: np.ndarray


@dataclass(frozen=True, slots=True)
class DenseStrings:
    """A dense attribute of strings, such as `dense<["a", "b"]> : tensor<2x!tf.string>`."""

    type: TensorType
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DenseResource:
    """A dense attribute whose elements are in the blob `name` of the file's resources: `dense_resource<name>
    : tensor<...>`.
    """

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class EnumAttr:
    """A value of an enumeration: `#stablehlo<comparison_direction LT>` has the mnemonic
    "comparison_direction" and the value "LT".
    """

    mnemonic: str
    value: str
    dialect: str = "stablehlo"


@dataclass(frozen=True, slots=True)
class StructAttr:
    """A structured attribute of StableHLO, whose mnemonic is dot, gather, scatter, conv, channel_handle,
    bounds... `fields` has every parameter by its name in StableHLO's attribute definitions; dimension lists
    are tuples of int, `bounds` has None for `?`.
    """

    mnemonic: str
    fields: dict[str, Any]
    dialect: str = "stablehlo"


@dataclass(frozen=True, slots=True)
class OpaqueAttr:
    """An attribute of another dialect (sdy, mhlo...), kept as its text without the leading `#`."""

    text: str


Attribute = Any  # one of the above, bool, str, tuple, dict or a Type

# ---- Locations


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A position in a file, `loc("file":line:column)`."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class NameLocation:
    """A name, with a location inside it: `loc("name"(child))`."""

    name: str
    child: Location | None = None


@dataclass(frozen=True, slots=True)
class CallSiteLocation:
    """A location of a callee and its caller, `loc(callsite(callee at caller))`."""

    callee: Location
    caller: Location


@dataclass(frozen=True, slots=True)
class FusedLocation:
    """Several locations together, `loc(fused<metadata>[parts])`."""

    parts: tuple[Location, ...]
    metadata: Any = None


Location = FileLocation | NameLocation | CallSiteLocation | FusedLocation

# ---- The graph


class Value:
    """A result of an operation, or an argument of a block: `owner` is that operation or block, `index` the
    number of the result or argument.
    """

    __slots__ = ("type", "owner", "index")

    def __init__(self, type: Type, owner: Operation | Block, index: int):  # noqa: A002
        self.type = type
        self.owner = owner
        self.index = index

    def __repr__(self) -> str:
        return f"<{self.index} of {self.owner!r}: {self.type}>"


class Operation:
    """An operation with its operands, results, attributes and regions. `position` is its (line, column) in a
    text, for error messages, or (0, 0) in bytecode; `location` is the origin that the source records for it.
    """

    __slots__ = ("name", "operands", "results", "attributes", "regions", "location", "position")

    def __init__(
        self, name: str, operands: list[Value], result_types: Sequence[Type],
        attributes: dict[str, Attribute] | None = None, regions: list[Region] | None = None,
        location: Location | None = None, position: tuple[int, int] = (0, 0),
    ):  # fmt: skip
        self.name = name
        self.operands = operands
        self.results = [Value(t, self, i) for i, t in enumerate(result_types)]
        self.attributes = attributes if attributes is not None else {}
        self.regions = regions if regions is not None else []
        self.location = location
        self.position = position

    @property
    def blocks(self) -> list[Block]:
        """The blocks of all regions of the operation."""
        return [block for region in self.regions for block in region.blocks] if self.regions else []

    @property
    def body(self) -> Block | None:
        """The only block of the only region; None if there is not exactly one."""
        return self.blocks[0] if len(self.regions) == len(self.blocks) == 1 else None

    def walk(self) -> Iterator[Operation]:
        """Yields the operation and all operations inside it."""
        stack: list[Operation] = [self]
        while stack:
            found = stack.pop()
            yield found
            for region in found.regions:
                for block in region.blocks:
                    stack.extend(block.operations)

    def with_regions(
        self, regions: list[Region], attributes: dict[str, Attribute] | None = None
    ) -> Operation:
        """A copy of a module or function with other regions, and other attributes if given."""
        given = self.attributes if attributes is None else attributes
        return Operation(self.name, [], (), given, regions, self.location, self.position)

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Block:
    """A list of operations, and the arguments of the block."""

    __slots__ = ("arguments", "operations", "locations")

    def __init__(
        self, argument_types: Sequence[Type] = (), locations: list[Any] | None = None,
        operations: list[Operation] | None = None,
    ):  # fmt: skip
        self.arguments = [Value(t, self, i) for i, t in enumerate(argument_types)]
        self.operations = [] if operations is None else operations
        self.locations = locations  # the locations of the arguments, or None

    @property
    def terminator(self) -> Operation:
        """The last operation, such as `return`."""
        return self.operations[-1]

    def __repr__(self) -> str:
        return f"<block of {len(self.operations)}>"


@dataclass(slots=True)
class Region:
    """The blocks of one region of an operation."""

    blocks: list[Block] = field(default_factory=list)


@dataclass(slots=True)
class Source:
    """A module that was read: the `builtin.module` operation and the blobs for `dense_resource`."""

    module: Operation
    resources: dict[str, bytes] = field(default_factory=dict)
    text: str = ""  # the text, if it was read from text, for messages
    version: str = ""  # the producer or VHLO version of an artifact

    @property
    def body(self) -> list[Operation]:
        """The operations of the module, mostly functions."""
        return self.module.regions[0].blocks[0].operations

    def with_body(self, operations: list[Operation]) -> Source:
        """A copy of the source with other operations in its module."""
        return replace(self, module=self.module.with_regions([Region([Block(operations=operations)])]))

    def parts(self) -> list[Source]:
        """The programs of a file. Each nested module is a program; operations outside of nested modules form
        another one.
        """
        modules = [op for op in self.body if op.name == "builtin.module"]
        alone = not modules or any(op.name == "func.func" for op in self.body)
        whole: list[Source] = [self] if alone else []
        return whole + [replace(self, module=op) for op in modules]
