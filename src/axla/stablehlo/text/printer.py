"""Prints MLIR text: operations in generic form, which MLIR's own parser reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args

import numpy as np

from axla.core.errors import InvalidArgument
from axla.core.regex import ascii_regex
from axla.ir.traverse import run_nested
from axla.stablehlo import mlir
from axla.stablehlo.attributes import CONVOLUTION, STRUCTURES

_WORD = ascii_regex(r"[A-Za-z_][\w$.]*+")
_SPECIAL = re.compile(rb"[^ !#-\[\]-~]")
SHORT_LIST = 64
"""Dense attributes with more elements are printed in hexadecimal."""


def print_source(source: mlir.Source, locations: bool = False) -> str:
    """Prints a module with its resources; with `locations`, also the `loc(...)` of each operation."""
    lines = _Printer(locations).operations(source.module)
    if source.resources:
        entries = ",\n".join(
            f'      {_key(name)}: "0x{(8).to_bytes(4, "little").hex()}{data.hex().upper()}"'
            for name, data in source.resources.items()
        )
        lines += ["\n{-#\n  dialect_resources: {\n    builtin: {\n", entries, "\n    }\n  }\n#-}\n"]
    return "".join(lines)


def quoted(text: str) -> str:
    """The string token for a text."""
    data = text.encode("utf-8", "surrogateescape")
    return '"' + _SPECIAL.sub(lambda found: b"\\%02X" % found[0][0], data).decode("ascii") + '"'


def _key(name: str) -> str:
    return name if _WORD.fullmatch(name) else quoted(name)


def _list(values: Any) -> str:
    return f"[{', '.join('?' if value is None else str(value) for value in values)}]"


# ---- Types


def type_text(kind: mlir.Type) -> str:
    """The text of a type, in MLIR's notation."""
    write = _TYPES.get(type(kind))
    if write is None:
        raise InvalidArgument(f"{kind!r} is not a type of MLIR")
    return write(kind)


def _tensor(kind: mlir.TensorType) -> str:
    sizes = "*x" if kind.shape is None else _sizes(kind.shape)
    encoding = "" if kind.encoding is None else f", {attribute_text(kind.encoding)}"
    return f"tensor<{sizes}{type_text(kind.element)}{encoding}>"


def _joined(kinds: tuple[mlir.Type, ...]) -> str:
    return ", ".join(map(type_text, kinds))


def _sizes(shape: tuple[int | None, ...]) -> str:
    return "".join(["?x" if size is None else f"{size}x" for size in shape])


def _signature(inputs: Iterable[str], results: list[str]) -> str:
    """The text of a function type, or of the types of an operation's operands and results."""
    single = len(results) == 1 and not results[0].startswith("(")
    return f"({', '.join(inputs)}) -> {results[0] if single else '(' + ', '.join(results) + ')'}"


def _nested(items: list[str], shape: Iterable[int | None], begin: str = "[", end: str = "]") -> str:
    """The text of row-major items as nested lists of this shape."""
    for size in reversed([size or 0 for size in shape]):
        items = [f"{begin}{', '.join(items[i : i + size])}{end}" for i in range(0, len(items), size)]
    return items[0]


def _quantized(kind: mlir.QuantizedType) -> str:
    storage = kind.storage
    text = f"{'u' if storage.sign == 'u' else 'i'}{storage.width}"
    if kind.limits(storage) != (kind.storage_min, kind.storage_max):
        text += f"<{kind.storage_min}:{kind.storage_max}>"
    text += f":{type_text(kind.expressed)}"
    if kind.block_sizes:
        pairs = zip(kind.axes, kind.block_sizes, strict=True)
        text += f":{{{', '.join(f'{axis}:{size}' for axis, size in pairs)}}}"
    elif kind.axes:
        text += f":{kind.axes[0]}"
    pairs = zip(kind.scales, kind.zero_points, strict=True)
    values = [_decimal(scale) + (f":{zero}" if zero else "") for scale, zero in pairs]
    if not kind.axes:
        return f"!quant.uniform<{text}, {values[0]}>"
    shape = kind.blocks if kind.block_sizes else (len(values),)
    return f"!quant.uniform<{text}, {_nested(values, shape, '{', '}')}>"


_TYPES: dict[type, Callable[[Any], str]] = {
    mlir.IntegerType: lambda kind: f"{kind.sign}i{kind.width}",
    mlir.FloatType: lambda kind: kind.name,
    mlir.IndexType: lambda kind: "index",
    mlir.NoneType: lambda kind: "none",
    mlir.ComplexType: lambda kind: f"complex<{type_text(kind.element)}>",
    mlir.TensorType: _tensor,
    mlir.MemRefType: lambda kind: f"memref<{_sizes(kind.shape)}{type_text(kind.element)}>",
    mlir.TupleType: lambda kind: f"tuple<{_joined(kind.elements)}>",
    mlir.FunctionType: lambda kind: _signature(map(type_text, kind.inputs), [*map(type_text, kind.results)]),
    mlir.TokenType: lambda kind: "!stablehlo.token",
    mlir.FutureType: lambda kind: f"!stablehlo.future<{_joined(kind.types)}>",
    mlir.QuantizedType: _quantized,
    mlir.OpaqueType: lambda kind: (
        kind.text if kind.text.startswith(("vector<", "memref<")) else f"!{kind.text}"
    ),
}

# ---- Numbers


def _decimal(value: float) -> str:
    """A finite number with a decimal point, as MLIR requires."""
    text = repr(value)
    if "." not in text:
        text = text.replace("e", ".0e") if "e" in text else f"{text}.0"
    return text


def _float(value: Any) -> str:
    """The shortest decimal that is read as this number; for non-finite numbers their bits."""
    array = np.asarray(value)
    if np.isfinite(array):
        return _decimal(float(array) if array.dtype == np.float64 else float(str(array[()])))
    return f"0x{array.tobytes()[::-1].hex().upper()}"


def _element(value: Any, kind: np.dtype) -> str:
    if kind == np.bool_:
        return "true" if value else "false"
    if kind.kind == "c":
        return f"({_float(value.real)},{_float(value.imag)})"
    if kind.name.startswith(("int", "uint")):
        return str(int(value))
    return _float(value)


def _dense(attribute: mlir.DenseElements) -> str:
    values = np.asarray(attribute.values)
    kind = values.dtype
    if 0 in (attribute.type.shape or ()):
        text = ""
    elif values.ndim == 0:
        text = _element(values[()], kind)
    elif values.size > SHORT_LIST and kind != np.bool_:
        text = f'"0x{np.ascontiguousarray(values).tobytes().hex().upper()}"'
    else:
        text = _nested([_element(value, kind) for value in values.reshape(-1)], values.shape)
    return f"dense<{text}> : {type_text(attribute.type)}"


# ---- Attributes


def attribute_text(value: Any) -> str:
    """The text of an attribute, a type or a location, in MLIR's notation."""
    write = _ATTRIBUTES.get(type(value))
    return type_text(value) if write is None else write(value)


def _enumeration(value: mlir.EnumAttr) -> str:
    if value.mnemonic == "result_accuracy_mode":
        return f"#{value.dialect}.{value.mnemonic}<{value.value}>"
    return f"#{value.dialect}<{value.mnemonic} {value.value}>"


def _opaque(value: mlir.OpaqueAttr) -> str:
    builtin = ("affine_map<", "affine_set<", "opaque<", "sparse<", "strided<", "distinct[")
    return value.text if value.text.startswith(builtin) else f"#{value.text}"


def _dictionary(attributes: dict[str, Any]) -> str:
    entries = [
        _key(name) if value is mlir.UNIT else f"{_key(name)} = {attribute_text(value)}"
        for name, value in attributes.items()
    ]
    return f"{{{', '.join(entries)}}}"


def _array(value: mlir.DenseArray) -> str:
    if isinstance(value.element, mlir.FloatType):
        kind = mlir.stored(value.element).numpy
        items = [_float(np.float64(item).astype(kind)) for item in value.values]
    else:
        items = [str(item).lower() for item in value.values]
    return f"array<{type_text(value.element)}{': ' if items else ''}{', '.join(items)}>"


def _strings(value: mlir.DenseStrings) -> str:
    items = [quoted(item) for item in value.values]
    text = _nested(items, value.type.shape or ()) if len(items) > 1 else "".join(items)
    return f"dense<{text}> : {type_text(value.type)}"


def _fields(value: mlir.StructAttr) -> str:
    """The text of a structured attribute between its brackets."""
    fields = value.fields
    if value.mnemonic == "bounds":
        return _list(fields["bounds"])[1:-1]
    if value.mnemonic == "conv":
        return _convolution(fields)
    if value.mnemonic == "sub_axis_info":
        return f"({fields['pre_size']}){fields['size']}"
    kinds = STRUCTURES.get(value.mnemonic)
    if kinds is None:
        raise InvalidArgument(f"{value.mnemonic} is not an attribute of {value.dialect}")
    return ", ".join([
        f"{name} = {_field(kind, fields[name])}"
        for name, kind in kinds.items()
        if kind[-1] != "/" or fields[name] not in (None, (), 0)
    ])  # fmt: skip


def _field(kind: str, value: Any) -> str:
    if kind[0] == "l":
        return _list(value)
    if kind[0] == "x":
        return _fields(value)
    if kind[0] == "m":
        return f"[{', '.join(f'<{_fields(axis)}>' for axis in value)}]"
    if kind[0] == "f":
        return _decimal(value)
    return str(value) if kind[0] == "i" else attribute_text(value)


def _convolution(fields: dict[str, Any]) -> str:
    """The text `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`, or all fields if they do not fit this form."""
    parts = []
    for part, letters in CONVOLUTION.items():
        spatial = fields[f"{part}_spatial_dimensions"]
        places = {fields[f"{part}_{name}_dimension"]: letter for letter, name in letters.items()}
        places |= {place: str(i) for i, place in enumerate(spatial)}
        count = len(spatial) + len(letters)
        if sorted(places) != list(range(count)):
            kinds = STRUCTURES["conv"]
            return f"raw {', '.join(f'{name} = {_field(kinds[name], fields[name])}' for name in kinds)}"
        parts.append(f"[{', '.join(places[i] for i in range(count))}]")
    return f"{parts[0]}x{parts[1]}->{parts[2]}"


def _location(location: mlir.Location | None) -> str:
    match location:
        case mlir.FileLocation():
            return f"{quoted(location.file)}:{location.line}:{location.column}"
        case mlir.NameLocation(name, None):
            return "unknown" if name == "unknown" else quoted(name)
        case mlir.NameLocation():
            return f"{quoted(location.name)}({_location(location.child)})"
        case mlir.CallSiteLocation():
            return f"callsite({_location(location.callee)} at {_location(location.caller)})"
        case mlir.FusedLocation():
            metadata = "" if location.metadata is None else f"<{attribute_text(location.metadata)}>"
            return f"fused{metadata}[{', '.join(map(_location, location.parts))}]"
    return "unknown"


_ATTRIBUTES: dict[type, Callable[[Any], str]] = {
    bool: lambda value: str(value).lower(),
    str: quoted,
    tuple: lambda value: f"[{', '.join(map(attribute_text, value))}]",
    dict: _dictionary,
    mlir.Unit: lambda value: "unit",
    mlir.IntegerAttr: lambda value: f"{value.value} : {type_text(value.type)}",
    mlir.FloatAttr: lambda value: f"{_float(value.value)} : {type_text(value.type)}",
    mlir.SymbolRef: lambda value: "::".join([f"@{_key(name)}" for name in (value.root, *value.nested)]),
    mlir.DenseArray: _array,
    mlir.DenseElements: _dense,
    mlir.DenseStrings: _strings,
    mlir.DenseResource: lambda value: f"dense_resource<{_key(value.name)}> : {type_text(value.type)}",
    mlir.EnumAttr: _enumeration,
    mlir.StructAttr: lambda value: f"#{value.dialect}.{value.mnemonic}<{_fields(value)}>",
    mlir.OpaqueAttr: _opaque,
    **dict.fromkeys(get_args(mlir.Location), lambda value: f"loc({_location(value)})"),
}

# ---- Operations


class _Printer:
    """Prints operations. `names` has the names of values by object identity, numbered in text order."""

    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.names: dict[int, str] = {}
        self.types: dict[int, str] = {}
        self.results = self.arguments = self.blocks = 0

    def operations(self, operation: mlir.Operation) -> list[str]:
        """The text of an operation and of all operations inside it, in pieces."""
        pieces: list[str] = []
        run_nested(self._pieces(operation, "", pieces))
        pieces.append("\n")
        return pieces

    def _pieces(self, operation: mlir.Operation, indent: str, pieces: list[str]) -> Iterator[Any]:
        """Appends the text of an operation to `pieces`; yields a generator for each nested operation, at the
        point where its text belongs.
        """
        if operation.results:
            pieces.append(f"{self._result_names(operation)} = ")
        operands = ", ".join([self._name(value) for value in operation.operands])
        pieces.append(f"{quoted(operation.name)}({operands})")
        for i, region in enumerate(operation.regions):
            pieces.append(" ({\n" if i == 0 else ", {\n")
            for block in region.blocks:
                if block.arguments or not block.operations or len(region.blocks) > 1:
                    pieces.append(self._label(block, indent))
                for inner in block.operations:
                    pieces.append(f"{indent}  ")
                    yield self._pieces(inner, f"{indent}  ", pieces)
                    pieces.append("\n")
            pieces.append(f"{indent}}}")
        if operation.regions:
            pieces.append(")")
        if operation.attributes:
            pieces.append(f" {_dictionary(operation.attributes)}")
        types = [self._type(value) for value in operation.operands]
        pieces.append(f" : {_signature(types, [self._type(value) for value in operation.results])}")
        if self.locations:
            pieces.append(f" loc({_location(operation.location)})")

    def _type(self, value: mlir.Value) -> str:
        """The text of a value's type; it is cached, since types are usually few objects."""
        known = self.types.get(id(value.type))
        if known is None:
            known = self.types[id(value.type)] = type_text(value.type)
        return known

    def _name(self, value: mlir.Value) -> str:
        name = self.names.get(id(value))
        if name is None:
            raise InvalidArgument(f"a value of {value.owner!r} is used before it is defined")
        return name

    def _result_names(self, operation: mlir.Operation) -> str:
        name, count = f"%{self.results}", len(operation.results)
        self.results += 1
        for i, value in enumerate(operation.results):
            self.names[id(value)] = name if count == 1 else f"{name}#{i}"
        return name if count == 1 else f"{name}:{count}"

    def _label(self, block: mlir.Block, indent: str) -> str:
        arguments = []
        for i, value in enumerate(block.arguments):
            name = self.names[id(value)] = f"%arg{self.arguments}"
            self.arguments += 1
            place = block.locations[i] if self.locations and block.locations else None
            arguments.append(f"{name}: {self._type(value)}" + (f" loc({_location(place)})" if place else ""))
        self.blocks += 1
        return f"{indent}^bb{self.blocks}{'(' + ', '.join(arguments) + ')' if arguments else ''}:\n"
