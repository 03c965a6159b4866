"""Decodes the attributes of the dialect sdy to their text."""

from __future__ import annotations

import re
from typing import Any

from axla.stablehlo import mlir
from axla.stablehlo.bytecode.builtin import text, wrong
from axla.stablehlo.bytecode.entries import Encoding
from axla.stablehlo.bytecode.wire import BadBytes

Parts = tuple[Any, ...]  # sdy attributes inside another attribute
LONGEST = 1 << 20
_NAME = re.compile(r"sdy[.<]\w+")


def _body(attribute: Any) -> str:
    """The text of an sdy attribute inside another attribute, where it has no name."""
    if isinstance(attribute, mlir.OpaqueAttr) and (found := _NAME.match(attribute.text)):
        return attribute.text[found.end() :].lstrip()
    raise wrong(attribute, "a part of a sharding")


def _of(name: str, body: str) -> mlir.OpaqueAttr:
    return mlir.OpaqueAttr(f"sdy.{name}{body}")


def _bodies(attributes: Parts, more: tuple[str, ...] = ()) -> str:
    if sum([len(getattr(a, "text", "")) for a in attributes]) > LONGEST:
        raise BadBytes("a sharding of more than a million characters")
    return ", ".join([*map(_body, attributes), *more])


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', "\\22") + '"'


def _mesh(axes: Parts, devices: tuple[int, ...]) -> mlir.OpaqueAttr:
    return _of("mesh", f"<[{_bodies(axes)}]{f', device_ids={list(devices)}' if devices else ''}>")


def _dimension(axes: Parts, closed: int, priority: int) -> mlir.OpaqueAttr:
    priority_text = f"p{priority >> 1}" if priority & 1 else ""
    return _of("dimension_sharding", f"{{{_bodies(axes, () if closed else ('?',))}}}{priority_text}")


def _sharding(
    mesh: Any, dimensions: Parts, replicated: Parts, unreduced: Parts = (), op: int = 0
) -> mlir.OpaqueAttr:
    of = f"@{mesh.root}" if isinstance(mesh, mlir.SymbolRef) else f"mesh{_body(mesh)}"
    parts = [of, f"[{_bodies(dimensions)}]"]
    if replicated:
        parts.append(f"replicated={{{_bodies(replicated)}}}")
    if unreduced:
        if not 0 <= op < len(_REDUCTIONS):
            raise BadBytes(f"reduction {op} of a sharding, which does not exist")
        parts.append(f"unreduced={_REDUCTIONS[op]}{{{_bodies(unreduced)}}}")
    return _of("sharding", f"<{', '.join(parts)}>")


_REDUCTIONS = ("", "max", "min")


def _factor(index: int) -> str:
    """The name of the factor with this index: i, j, ... z, then z_1, z_2..."""
    return chr(ord("i") + index) if index <= 17 else f"z_{index - 17}"


def _factors(indices: tuple[int, ...], between: str = ", ") -> str:
    if any(index < 0 for index in indices):
        raise BadBytes("a negative factor of a sharding rule")
    return between.join(map(_factor, indices))


def _rule(sizes: tuple[int, ...], operands: Parts, results: Parts, *kinds: Any) -> mlir.OpaqueAttr:
    parts = [f"({_bodies(operands)})->({_bodies(results)})"]
    if sizes:
        parts.append("{" + ", ".join(f"{_factor(i)}={size}" for i, size in enumerate(sizes)) + "}")
    names = ("reduction", "need_replication", "permutation", "blocked_propagation")
    parts += [f"{name}={{{_factors(kind)}}}" for name, kind in zip(names, kinds, strict=False) if kind]
    return _of("op_sharding_rule", f"<{' '.join(parts)}{', custom' if kinds[4] else ''}>")


def _manual_axes(names: tuple[Any, ...]) -> mlir.OpaqueAttr:
    return mlir.OpaqueAttr(f"sdy<manual_axes{{{', '.join(_quoted(text(name)) for name in names)}}}>")


ATTRIBUTES: dict[int, Encoding] = {
    0: ("A", _manual_axes),
    1: ("ns", lambda name, size: _of("mesh_axis", f"{_quoted(name)}={size}")),
    2: ("AS", _mesh),
    3: ("ss", lambda before, size: _of("sub_axis_info", f"({before}){size}")),
    4: ("no", lambda name, part: _of("axis_ref", _quoted(name) + (f":{_body(part)}" if part else ""))),
    5: ("Ayv", _dimension),
    6: ("aAA", _sharding),
    7: ("A", lambda shardings: _of("sharding_per_value", f"<[{_bodies(shardings)}]>")),
    8: ("S", lambda factors: _of("dim_mapping", f" {_factors(factors, '')}")),
    9: ("A", lambda dimensions: _of("tensor_mapping", f"[{_bodies(dimensions)}]")),
    10: ("SAASSSSy", _rule),
    11: ("A", lambda axes: _of("axis_ref_list", f"{{{_bodies(axes)}}}")),
    12: ("A", lambda lists: _of("list_of_axis_ref_lists", f"<[{_bodies(lists)}]>")),
    13: ("Ass", lambda axes, at, to: _of("all_to_all_param", f"{{{_bodies(axes)}}}:{at}->{to}")),
    14: ("A", lambda params: _of("all_to_all_param_list", f"<[{_bodies(params)}]>")),
    15: ("aAAA", _sharding),
    16: ("A", lambda shardings: _of("sharding_per_value", f"<[{_bodies(shardings)}]>")),
    17: ("aAAAs", _sharding),
}
