"""Reads the IR section: operations with their attributes, operands, results and regions."""

from __future__ import annotations

from copy import copy
from dataclasses import field
from typing import Any

from axla.core.dataclass import dataclass
from axla.importers.records import AttributeRecord
from axla.stablehlo import mlir
from axla.stablehlo.bytecode import vhlo
from axla.stablehlo.bytecode.builtin import location, wrong
from axla.stablehlo.bytecode.entries import Entries
from axla.stablehlo.bytecode.native import FORMS
from axla.stablehlo.bytecode.wire import IR_SECTION, BadBytes, Bytes, bounded, varint

# Parts of an operation, by the bits of its mask.
ATTRIBUTES, RESULTS, OPERANDS, SUCCESSORS, REGIONS, USES, PROPERTIES = (1 << i for i in range(7))
FEW = SUCCESSORS | REGIONS | USES  # parts that few operations have
# The versions of bytecode that introduced these features.
LAZY_REGIONS, USE_LISTS, UNKNOWN_ARGUMENTS, SEGMENT_SIZES = 2, 3, 4, 6
MAX_NESTING = 100

CAST = "builtin.unrealized_conversion_cast"


@dataclass(slots=True)
class _Frame:
    """An operation whose regions are being read."""

    operation: mlir.Operation
    regions: int  # regions that are not begun yet
    values: list[Any]
    sectioned: bool  # whether the regions have a section of their own
    end: int  # the end of that section
    blocks: int = 0  # blocks of the region that are not begun yet
    remaining: int = 0  # operations of the block that are not read yet
    base: int = field(init=False)  # the region defines the values `base` to `stop`, `next` is the next one
    next: int = field(init=False)
    stop: int = field(init=False)

    def __post_init__(self) -> None:
        self.base = self.next = self.stop = len(self.values)

    def define(self, values: list[mlir.Value]) -> None:
        begin = self.next
        self.next = end = begin + len(values)
        if end > self.stop:
            raise BadBytes("a region that defines more values than it declares")
        self.values[begin:end] = values


class BytecodeOperations(Bytes):
    """Reads one IR section. While the regions of an operation are read, `end` is the end of these regions."""

    def __init__(
        self, section: Bytes, version: int, entries: Entries, names: list[tuple[str, bool]],
        properties: list[Bytes],
    ):  # fmt: skip
        super().__init__(section.data, section.at, section.end)
        self.version = version
        self.entries = entries
        self.names = names  # each with whether the writer knew the operation
        self.properties = properties
        self.budget = self.end - self.at  # values that can still be defined: each takes at least a byte
        # Attributes that operations can still have. There is a limit, since many operations can share
        # attributes.
        self.attribute_budget = 10_000 + 8 * len(self.data)
        self._known: dict[tuple[int, int, int], dict[str, Any]] = {}
        # The current names of the operations.
        self._targets = [vhlo.TARGETS.get(name, name) for name, _ in names]

    def read(self) -> list[mlir.Operation]:
        """Reads the operations of the section's only block."""
        top = mlir.Operation("", [], (), regions=[mlir.Region([mlir.Block()])])
        stack = [_Frame(top, 0, [], True, self.end)]
        self._block_header(stack[0])
        while stack:
            frame = stack[-1]
            self.end = frame.end
            child = self._operations(frame)
            if child is not None:
                if len(stack) >= MAX_NESTING:
                    raise BadBytes(f"regions nested more than {MAX_NESTING} deep")
                stack.append(child)
            elif not self._next_block(frame):
                stack.pop()
                if frame.sectioned and self.at != frame.end:
                    raise BadBytes(f"a section of operations that ends at byte {self.at}, not {frame.end}")
        return top.regions[0].blocks[0].operations

    # ---- Regions and blocks

    def _next_block(self, frame: _Frame) -> bool:
        """Begins the next block, in the next region if necessary; returns False if there is none."""
        while not frame.blocks:
            del frame.values[frame.base :]
            if not frame.regions:
                return False
            frame.regions -= 1
            frame.operation.regions.append(mlir.Region())
            frame.blocks = self.count("blocks")
            if frame.blocks:
                count = bounded(self.varint(), self.budget, "values")
                self.budget -= count
                frame.next = frame.base
                frame.stop = frame.base + count
                frame.values.extend([None] * count)
        frame.blocks -= 1
        frame.operation.regions[-1].blocks.append(mlir.Block())
        self._block_header(frame)
        return True

    def _block_header(self, frame: _Frame) -> None:
        frame.remaining, has_arguments = self.flagged(True, False)
        if not has_arguments:
            return
        block = frame.operation.regions[-1].blocks[-1]
        count = self.count("arguments")
        block.locations = []
        for i in range(count):
            kind, located = self.flagged(self.version >= UNKNOWN_ARGUMENTS, True)
            block.arguments.append(mlir.Value(self.entries.type(kind), block, i))
            block.locations.append(self._location(self.varint()) if located else None)
        frame.define(block.arguments)
        if self.version >= USE_LISTS and self.byte():
            self._skip_uses(count)

    def _skip_uses(self, values: int) -> None:
        """Skips the recorded orders of the uses of values, which have no meaning here."""
        for _ in range(self.count("orders of uses") if values > 1 else 1):
            if values > 1:
                self.varint()
            for _ in range(bounded(self.varint() >> 1, self.end - self.at, "uses")):
                self.varint()

    def _location(self, index: int) -> Any:
        return location(self.entries.attribute(index))

    # ---- Operations

    def _operations(self, frame: _Frame) -> _Frame | None:
        """Reads operations of a block up to its end, or up to one with regions; returns the frame of these
        regions.
        """
        if not frame.remaining:
            return None
        data, targets = self.data, self._targets
        block = frame.operation.regions[-1].blocks[-1]
        while frame.remaining:
            frame.remaining -= 1
            name, at = varint(data, self.at)
            if name >= len(targets):
                raise BadBytes(f"reference to operation name {name} of only {len(targets)}")
            mask = data[at]
            index, at = varint(data, at + 1)
            place = self._location(index)
            dictionary = properties = -1
            if mask & ATTRIBUTES:
                dictionary, at = varint(data, at)
            if mask & PROPERTIES:
                properties, at = varint(data, at)
            self.at = at
            kinds = self._types() if mask & RESULTS else []
            operands = self._operands(frame) if mask & OPERANDS else []
            if self.at > self.end:
                raise BadBytes("an operation that goes on after the end of its section")
            attributes = self._attributes((name, dictionary, properties))
            target = targets[name]
            operation = mlir.Operation(target, operands, kinds, attributes, None, place)
            if target == CAST and _same_tensors(operands, kinds):
                # A cast between VHLO and another dialect, whose types are the same here.
                operation.results = operands
            else:
                block.operations.append(operation)
            if kinds and frame.stop > frame.base:
                frame.define(operation.results)
            if mask & FEW and (child := self._rest(frame, operation, mask)):
                return child
        if frame.operation.name == "func.func":
            last = block.operations[-1]
            if last.name == "stablehlo.return":  # VHLO has one `return` for functions and regions
                last.name = "func.return"
        return None

    def _types(self) -> list[mlir.Type]:
        data, read, kinds = self.data, self.entries.type, []
        count, at = varint(data, self.at)
        for _ in range(bounded(count, self.end - at, "results")):
            index, at = varint(data, at)
            kinds.append(read(index))
        self.at = at
        return kinds

    def _operands(self, frame: _Frame) -> list[mlir.Value]:
        data, values, operands = self.data, frame.values, []
        count, at = varint(data, self.at)
        for _ in range(bounded(count, self.end - at, "operands")):
            index, at = varint(data, at)
            value = values[index] if index < len(values) else None
            if value is None:
                raise BadBytes(f"an operand, value {index}, that is not defined before its use")
            operands.append(value)
        self.at = at
        return operands

    def _rest(self, frame: _Frame, operation: mlir.Operation, mask: int) -> _Frame | None:
        """Reads the parts that few operations have; bits of `mask` say which ones `operation` has. Returns
        the frame of the operation's regions, None if it has none.
        """
        if mask & SUCCESSORS:
            raise BadBytes(f"{operation.name} with successor blocks, which are not supported")
        if mask & USES and self.version >= USE_LISTS:
            self._skip_uses(len(operation.results))
        if not mask & REGIONS:
            return None
        regions, isolated = self.flagged(True, False)
        bounded(regions, self.end - self.at, "regions")
        sectioned = isolated and self.version >= LAZY_REGIONS
        if sectioned:
            kind, section = self.section()
            if kind != IR_SECTION:
                raise BadBytes(f"section {kind} instead of the regions of {operation.name}")
            self.at, self.end = section.at, section.end
        return _Frame(operation, regions, [] if isolated else frame.values, sectioned, self.end)

    # ---- Attributes

    def _attributes(self, key: tuple[int, int, int]) -> dict[str, Any]:
        """The attributes of an operation. `key` has the numbers of its name, dictionary and properties, -1
        for a missing dictionary or missing properties.
        """
        attributes = self._known.get(key)
        if attributes is None:
            attributes = self._known[key] = self._read_attributes(*key)
        self._spend(len(attributes))
        return attributes.copy()

    def _spend(self, attributes: int) -> None:
        self.attribute_budget -= attributes
        if self.attribute_budget < 0:
            raise BadBytes("operations with many more attributes than the file has bytes")

    def _read_attributes(self, name: int, dictionary: int, properties: int) -> dict[str, Any]:
        operation, registered = self.names[name]
        if operation.startswith("vhlo.") and operation not in vhlo.TARGETS:
            raise BadBytes(f"the operation {operation}, which no version of VHLO up to 1.20 has")
        attributes = self._dictionary(dictionary) if dictionary >= 0 else {}
        if properties >= 0:
            found = self._properties(operation, properties) if registered else self._dictionary(properties)
            attributes = attributes | found
        return vhlo.today(operation, attributes) if operation.startswith("vhlo.") else attributes

    def _dictionary(self, index: int) -> dict[str, Any]:
        attributes = self.entries.attribute(index)
        if not isinstance(attributes, dict):
            raise wrong(attributes, "the attributes of an operation")
        self._spend(len(attributes))
        return attributes

    def _properties(self, operation: str, index: int) -> dict[str, Any]:
        if index >= len(self.properties):
            raise BadBytes(f"reference to properties {index} of only {len(self.properties)}")
        forms = vhlo.FORMS.get(operation) or FORMS.get(operation, [])
        for form in forms:
            found = self._form(form, copy(self.properties[index]))
            if found is not None:
                return found
        raise BadBytes(f"properties of {operation} in a form that is not known")

    def _form(self, form: tuple[AttributeRecord, ...], place: Bytes) -> dict[str, Any] | None:
        """Reads attributes in the order `form` from the bytes at `place`; returns None if this does not
        consume exactly these bytes.
        """
        found: dict[str, int] = {}
        sizes: dict[str, Any] = {}
        for attribute in form:
            if place.at >= place.end:
                return None
            if attribute.kind == "segments":
                sizes[attribute.name] = self._segment_sizes(place)
                continue
            index, there = place.flagged(attribute.optional, True)
            if there:
                found[attribute.name] = index
        if place.at != place.end:
            return None
        return {name: self.entries.attribute(index) for name, index in found.items()} | sizes

    def _segment_sizes(self, place: Bytes) -> mlir.DenseArray:
        """Reads the sizes of the two segments of operands or results. Older versions have an attribute, newer
        ones integers: all of them, or the non-zero ones with their positions in the low bits.
        """
        header = place.varint()
        if self.version < SEGMENT_SIZES:
            return self.entries.attribute(header)
        count, bits, sizes = header >> 1, 0, [0, 0]
        if header & 1 and count:
            bits = place.varint()
        if count > 2 or bits > 1 or place.at > place.end:
            raise BadBytes(f"{count} segments of operands or results instead of 2")
        for i in range(count):
            size = place.varint()
            sizes[size & 1 if bits else 0 if header & 1 else i] = size >> bits
        return mlir.DenseArray(mlir.IntegerType(32), tuple(sizes))


def _same_tensors(values: list[mlir.Value], kinds: list[mlir.Type]) -> bool:
    """Whether values have the types `kinds`. It must be fast: of equal types, it finds only identical
    objects, tokens and simple tensors, and returns False for all others.
    """
    return len(values) == len(kinds) and all(
        value.type is kind
        or isinstance(kind, mlir.TokenType)
        and value.type == kind
        or isinstance(kind, mlir.TensorType)
        and not isinstance(kind.encoding, tuple | dict)
        and value.type == kind
        for value, kind in zip(values, kinds, strict=True)
    )
