"""MLIR in memory: operations, regions and values; types and attributes as immutable values.

Every reader (text in pretty or generic form, bytecode of any version) gives the same operations: names and
attributes are those of StableHLO's current generic form, with inherent and discardable attributes in one
dictionary. Attributes with a Python equivalent are Python values: BoolAttr is `bool`, StringAttr `str`,
ArrayAttr `tuple`, DictionaryAttr `dict`, TypeAttr a Type, UnitAttr `UNIT`. This module does not depend on
what operations mean.
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
    """`i32` (sign ""), `si32` ("s") or `ui32` ("u"). StableHLO's signed integers are signless."""

    width: int
    sign: str = ""


def limits(kind: IntegerType) -> tuple[int, int]:
    """The smallest and largest integer allowed in a type: signless types take the range of both."""
    width = kind.width
    return 0 if kind.sign == "u" else -(1 << width - 1), (1 << width - (kind.sign == "s")) - 1


@dataclass(frozen=True, slots=True)
class FloatType:
    """By MLIR's name: f32, bf16, f8E4M3FN, tf32..."""

    name: str


@dataclass(frozen=True, slots=True)
class IndexType:
    """`index`."""


@dataclass(frozen=True, slots=True)
class NoneType:
    """`none`."""


@dataclass(frozen=True, slots=True)
class ComplexType:
    """`complex<f32>`."""

    element: Type


@dataclass(frozen=True, slots=True)
class QuantizedType:
    """`!quant.uniform<storage<min:max>:expressed, ...>`.

    `axes` is () for per-tensor quantization, (d,) per axis; with `block_sizes`, one for each axis, it is a
    sub-channel type, whose scales and zero points are row-major over the blocks (`blocks` is their shape).
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
        """The range of the storage type: `i8` is signed like `si8`."""
        return limits(IntegerType(storage.width, storage.sign or "s"))


@dataclass(frozen=True, slots=True)
class TensorType:
    """`shape` holds sizes, None for `?`; it is None itself for an unranked tensor `tensor<*xf32>`."""

    shape: tuple[int | None, ...] | None
    element: Type
    encoding: Any = None

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The shape, None where not all of it is known."""
        found = tuple([size for size in self.shape or () if size is not None])
        return found if self.shape is not None and len(found) == len(self.shape) else None


@dataclass(frozen=True, slots=True)
class MemRefType:
    """`memref<2x?xf32>`; a size of None is `?`."""

    shape: tuple[int | None, ...]
    element: Type


@dataclass(frozen=True, slots=True)
class TupleType:
    """`tuple<...>`."""

    elements: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class FunctionType:
    """`(inputs) -> results`."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class TokenType:
    """`!stablehlo.token`."""


@dataclass(frozen=True, slots=True)
class FutureType:
    """`!stablehlo.future<...>`, the type of results of async_start."""

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
    """The axla element type: i1 is pred, signless integers are signed, index is s64."""
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
    """A type that must be a tensor type; VerifyError for another one."""
    if not isinstance(type_, TensorType):
        raise VerifyError(f"a tensor is wanted, found {type_}")
    return type_


def stored(element: Type) -> dtypes.DType:
    """The NumPy type that stores elements (for a quantized type its storage type); ValueError when there is
    none.
    """
    element = element.storage if isinstance(element, QuantizedType) else element
    found = dtype_of(element)
    if found is None:
        raise ValueError(f"there is no array of elements of the type {element}")
    return found


CALL = "axla.custom_call"
"""The attribute of custom calls with what HLO says of them and StableHLO does not."""
OP = "axla.op."
"""The prefix of the targets of custom calls that stand for ops which StableHLO does not have."""


# ---- Attributes (beside bool, str, tuple, dict and types)


class Unit(Enum):
    """The attribute without a value: `unit`."""

    UNIT = "unit"


UNIT = Unit.UNIT


@dataclass(frozen=True, slots=True)
class IntegerAttr:
    """An integer with its type: `1 : i64`."""

    value: int
    type: Type  # IntegerType or IndexType


def integer_of(value: int, kind: IntegerType | IndexType) -> IntegerAttr | bool:
    """The attribute for an integer, or for its bits: 255 : i8 is -1. For i1 a bool."""
    width, sign = (kind.width, kind.sign) if isinstance(kind, IntegerType) else (64, "")
    if width == 1 and not sign:
        return bool(value)
    return IntegerAttr(value - (1 << width) if sign != "u" and value >> width - 1 > 0 else value, kind)


@dataclass(frozen=True, slots=True)
class FloatAttr:
    """`value` is a NumPy scalar or 0-d array of the type's own format, so that all bits are kept."""

    value: Any
    type: FloatType


@dataclass(frozen=True, slots=True)
class SymbolRef:
    """`@root::@nested`."""

    root: str
    nested: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DenseArray:
    """`array<i64: 1, 2>`; element values are bool, int or float."""

    element: Type
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DenseElements:
    """`dense<...> : tensor<...>`. `values` has the tensor's shape, or () for a splat; its NumPy type is that
    of the elements (the storage type for a quantized type).
    """

    type: TensorType
    values: np.ndarray


@dataclass(frozen=True, slots=True)
class DenseStrings:
    """`dense<["a", "b"]> : tensor<2x!tf.string>`."""

    type: TensorType
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DenseResource:
    """`dense_resource<name> : tensor<...>`: the blob is in the file's resources under `name`."""

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class EnumAttr:
    """`#stablehlo<comparison_direction LT>`: mnemonic "comparison_direction", value "LT"."""

    mnemonic: str
    value: str
    dialect: str = "stablehlo"


@dataclass(frozen=True, slots=True)
class StructAttr:
    """A structured attribute of StableHLO by mnemonic: dot, gather, scatter, conv, channel_handle, bounds...

    `fields` has every parameter by its name in StableHLO's attribute definitions; dimension lists are tuples
    of int, `bounds` has None for `?`.
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
    """`loc("file":line:column)`."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class NameLocation:
    """`loc("name"(child))`."""

    name: str
    child: Location | None = None


@dataclass(frozen=True, slots=True)
class CallSiteLocation:
    """`loc(callsite(callee at caller))`."""

    callee: Location
    caller: Location


@dataclass(frozen=True, slots=True)
class FusedLocation:
    """`loc(fused<metadata>[parts])`."""

    parts: tuple[Location, ...]
    metadata: Any = None


Location = FileLocation | NameLocation | CallSiteLocation | FusedLocation

# ---- The graph


class Value:
    """A result of an operation or an argument of a block: `owner` and its `index` among those."""

    __slots__ = ("type", "owner", "index")

    def __init__(self, type: Type, owner: Operation | Block, index: int):  # noqa: A002
        self.type = type
        self.owner = owner
        self.index = index

    def __repr__(self) -> str:
        return f"<{self.index} of {self.owner!r}: {self.type}>"


class Operation:
    """`position` is that in the source (line, column; (0, 0) for bytecode), for error messages; `location` is
    the origin recorded in the source.
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
        """The blocks of all its regions."""
        return [block for region in self.regions for block in region.blocks] if self.regions else []

    @property
    def body(self) -> Block | None:
        """The only block of its only region."""
        return self.blocks[0] if len(self.regions) == len(self.blocks) == 1 else None

    def walk(self) -> Iterator[Operation]:
        """The operation and all operations inside it."""
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
    """A list of operations with arguments."""

    __slots__ = ("arguments", "operations", "locations")

    def __init__(
        self, argument_types: Sequence[Type] = (), locations: list[Any] | None = None,
        operations: list[Operation] | None = None,
    ):  # fmt: skip
        self.arguments = [Value(t, self, i) for i, t in enumerate(argument_types)]
        self.operations = [] if operations is None else operations
        self.locations = locations  # of the arguments, or None

    @property
    def terminator(self) -> Operation:
        """The last operation, such as `return`."""
        return self.operations[-1]

    def __repr__(self) -> str:
        return f"<block of {len(self.operations)}>"


@dataclass(slots=True)
class Region:
    """The blocks that belong to an operation."""

    blocks: list[Block] = field(default_factory=list)


@dataclass(slots=True)
class Source:
    """A module that was read: the `builtin.module` operation and the blobs for `dense_resource`."""

    module: Operation
    resources: dict[str, bytes] = field(default_factory=dict)
    text: str = ""  # of a text source, for messages
    version: str = ""  # producer or VHLO version of an artifact

    @property
    def body(self) -> list[Operation]:
        """The operations of the module, mostly functions."""
        return self.module.regions[0].blocks[0].operations

    def with_body(self, operations: list[Operation]) -> Source:
        """The source with other operations in its module."""
        return replace(self, module=self.module.with_regions([Region([Block(operations=operations)])]))

    def parts(self) -> list[Source]:
        """The programs of a file: each nested module is one; operations outside of nested modules form
        another.
        """
        modules = [op for op in self.body if op.name == "builtin.module"]
        alone = not modules or any(op.name == "func.func" for op in self.body)
        whole: list[Source] = [self] if alone else []
        return whole + [replace(self, module=op) for op in modules]
