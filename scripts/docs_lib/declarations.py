"""The parts of the declaration of an op: form, attributes, element types, rules, builder functions."""

from __future__ import annotations

import enum
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING
from functools import cache
from pathlib import Path
from typing import Any

import axla.hlo as hlo
from axla.builder import ops as builder
from axla.core.dtypes import ALL
from axla.core.literal import Literal
from axla.core.shape import AnyShape
from axla.ir.attributes import RawText, Word
from axla.ir.graph import Computation
from axla.ir.op import OPS, Attribute, Op
from axla.text.attributes import codec_of
from axla.tools.samples import UNTYPED, modules_of

KIND = {
    Computation: "computation", bool: "true or false", int: "integer", float: "number", str: "text in quotes",
    tuple[int, ...]: "integers in braces", tuple[Computation, ...]: "computations in braces",
    AnyShape: "shape", tuple[AnyShape, ...]: "shapes in braces", RawText: "text, kept as it is written",
    Word: "name", Literal: "value",
}  # fmt: skip

ROOT = Path(__file__).resolve().parents[2]

GROUPS = {
    "pred": [d for d in ALL if d.is_pred],
    "signed integers": [d for d in ALL if d.is_integer and d.is_signed],
    "unsigned integers": [d for d in ALL if d.is_unsigned],
    "floating-point": [d for d in ALL if d.is_float],
    "complex": [d for d in ALL if d.is_complex],
}


def documentation(cls: type[Op]) -> str:
    return inspect.cleandoc(cls.__doc__ or "")


def form(cls: type[Op]) -> str:
    """The text form of an instruction: `y = T gather(operand, start_indices), offset_dims=...`."""
    names = list(cls.operand_names)
    if cls.variadic:
        names[-1] += "..."
    names = [f"[{n}]" if k >= len(names) - cls.optional else n for k, n in enumerate(names)]
    attributes = [f", {a.text}=..." for a in cls.attributes if a.default is MISSING or a.always]
    inner = "literal" if cls.opcode == "constant" else ", ".join(names)
    if cls.opcode in ("constant", "parameter"):
        attributes, inner = [], {"constant": "literal", "parameter": "parameter_number"}[cls.opcode]
    return f"result = {cls.opcode}({inner})" + "".join(attributes)


def attribute_rows(cls: type[Op]) -> list[tuple[str, str, str]]:
    """(name, type, default) for every attribute."""
    hints = typing.get_type_hints(cls, localns={"Computation": Computation})
    return [(a.text, type_text(hints[a.name]), default_text(a, hints[a.name])) for a in cls.attributes]


def type_text(type_: Any) -> str:
    """The type of an attribute, in words."""
    if isinstance(type_, types.UnionType) or typing.get_origin(type_) is typing.Union:
        return type_text(next(t for t in typing.get_args(type_) if t is not type(None)))
    type_ = getattr(type_, "__supertype__", type_)
    if type_ in KIND:
        return KIND[type_]
    if isinstance(type_, type) and issubclass(type_, enum.StrEnum):
        return ", ".join(f"`{member}`" for member in type_)
    origin = typing.get_origin(type_)
    if origin is tuple:
        return f"in braces: {type_text(typing.get_args(type_)[0])}"
    name = getattr(type_, "__name__", str(type_))
    doc = inspect.cleandoc(type_.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return doc if doc and not doc.startswith(f"{name}(") else name


def default_text(attribute: Attribute, type_: Any) -> str:
    if attribute.default is MISSING:
        return "must be given"
    if attribute.default is None or attribute.default == ():
        return "must be given" if attribute.always and attribute.default is None else "none"
    try:
        return f"`{codec_of(type_).encode(attribute.default)}`"
    except Exception:
        return f"`{attribute.default}`"


def element_types(cls: type[Op]) -> str:
    """The element types that the op takes: those for which a sample of the declaration is valid."""
    if cls.opcode in UNTYPED:
        return "none"
    taken = [d for d in ALL if modules_of(cls.opcode, d)]
    if len(taken) == len(ALL):
        return "all"
    parts = []
    for name, members in GROUPS.items():
        found = [d.name for d in members if d in taken]
        parts += [name] if len(found) == len(members) else found
    return ", ".join(parts)


def shape_rows(cls: type[Op]) -> list[tuple[str, str]]:
    """(shapes of the operands, shape of the result) for the samples of the declaration."""
    rows = []
    for op, shapes in cls.samples()[:4]:
        own = getattr(op, "shape", None)
        result = own if isinstance(own, AnyShape) else op.infer(*shapes)
        rows.append((", ".join(map(plain, shapes)), plain(result)))
    return list(dict.fromkeys(rows))


def plain(shape: AnyShape) -> str:
    return shape.to_string(layout=False)


def facts(cls: type[Op]) -> list[str]:
    found = [
        ("elementwise", cls.elementwise), ("commutative", cls.commutative), ("associative", cls.associative),
        ("has a side effect", cls.side_effect is True), ("moves elements only", cls.moves),
        ("gives on its operand", cls.passes_on), ("operands have one size", cls.reads_alike),
        ("keeps the order of elements", cls.keeps_order), ("costs nothing", cls.free),
        ("runs computations", cls.control), ("updates operands in place", cls.updates),
        ("may mix float types", cls.mixes_floats), ("happens in the order of effects", cls.in_order),
    ]  # fmt: skip
    listed = [name for name, true in found if true]
    return [*listed, f"neutral element {cls.identity}"] if cls.identity is not None else listed


# Builder functions.


@cache
def builder_functions() -> dict[str, tuple[str, ...]]:
    """For each opcode, the names of the functions of `axla.ops` that add this op directly."""
    found: dict[str, list[str]] = {opcode: [] for opcode in OPS}
    found |= {
        "parameter": ["Parameter"],
        "constant": ["Constant", "ConstantLiteral"],
    }  # methods of the builder
    for name in builder.__all__:
        function = getattr(builder, name)
        if inspect.isfunction(function):
            for opcode in added_by(function):
                found[opcode].append(name)
    return {opcode: tuple(sorted(names)) for opcode, names in found.items()}


def added_by(function: Callable) -> set[str]:
    """The opcodes of the ops that a function names: in its closure, in its text, or in that of helper
    functions in the same module.
    """
    if function.__module__.endswith((".compositions", ".later")):
        return set()
    found, seen, todo = set(), set(), [function]
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        cells = [cell.cell_contents for cell in current.__closure__ or ()]
        found |= {cell.opcode for cell in cells if isinstance(cell, Op)}
        names = inspect.getsource(current)
        for word in re.findall(r"\bhlo\.(\w+)", names):
            cls = getattr(hlo, word, None)
            if isinstance(cls, type) and issubclass(cls, Op):
                found.add(cls.opcode)
        for word in re.findall(r"\b(_\w+)\(|return ([A-Z]\w+)\(", names):
            helper = current.__globals__.get(word[0] or word[1])
            if inspect.isfunction(helper) and helper.__module__ == function.__module__:
                todo.append(helper)
    return found


def signature(name: str) -> str:
    """The signature of a builder function, as text."""
    parameters = inspect.signature(getattr(builder, name)).parameters.values()
    shown = [p.name if p.default is p.empty else f"{p.name}={default(p.default)}" for p in parameters]
    starred = ["*" * (p.kind is p.VAR_POSITIONAL) + "**" * (p.kind is p.VAR_KEYWORD) for p in parameters]
    return f"{name}({', '.join(star + text for star, text in zip(starred, shown, strict=True))})"


def default(value: Any) -> str:
    return str(value) if isinstance(value, enum.Enum) else repr(value)


def code(cls: type[Op]) -> str:
    """A link from the page of an op to its declaration. On the site it leads to the line."""
    module = sys.modules[cls.__module__]
    name = next((name for name, value in vars(module).items() if value is cls), cls.__name__)
    path = Path(inspect.getfile(module))
    if not path.is_relative_to(ROOT):
        return f"`{name}` of `{cls.__module__}`"  # the op is from an installed package
    inside = path.relative_to(ROOT).as_posix()
    return f"[`{name}` in {inside}](../../{inside}#{name})"
