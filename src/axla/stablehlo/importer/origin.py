"""The metadata of imported operations: their location and name, their sharding and frontend attributes."""

from __future__ import annotations

from typing import Any

from axla.builder.xla_builder import identifier_of
from axla.core.errors import AxlaError
from axla.ir.graph import NO_EXTRA, Extra, SourceLocation
from axla.ir.sharding import Sharding
from axla.stablehlo import mlir
from axla.stablehlo.text.printer import attribute_text
from axla.text.sharding import read_sharding

_DEEPEST = 64  # levels of nested locations; deeper ones are left out


def source_location(location: mlir.Location | None) -> SourceLocation | None:
    """Converts a location to op name, file and line. A call site has those of the callee; fused locations
    have all names and the first file.
    """
    names: list[str] = []
    place: mlir.FileLocation | None = None
    # A name inside another name is a function in a trace of calls, not the operation.
    stack = [(location, True, 0)] if location is not None else []
    while stack:
        found, outermost, depth = stack.pop()
        if depth > _DEEPEST:
            continue
        if isinstance(found, mlir.FileLocation):
            place = place or found
        elif isinstance(found, mlir.NameLocation):
            if outermost and found.name:
                names.append(found.name)
            if found.child is not None:
                stack.append((found.child, False, depth + 1))
        elif isinstance(found, mlir.CallSiteLocation):
            stack.append((found.callee, outermost, depth + 1))
        elif isinstance(found, mlir.FusedLocation):
            stack.extend((part, outermost, depth + 1) for part in reversed(found.parts))
    if not names and place is None:
        return None
    file, line = (place.file, place.line) if place is not None else ("", 0)
    return SourceLocation(op_name=";".join(names), source_file=file, source_line=line)


def name_of(location: SourceLocation | None) -> str:
    """The last part of an op name, which XLA uses as the name of the instruction; "" without an op name."""
    if location is None or not location.op_name:
        return ""
    last = location.op_name.rstrip("/").rsplit("/", 1)[-1]
    return identifier_of(last) if last else ""


def frontend_attributes(attributes: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """The frontend attributes that an operation keeps for other tools: those in `mhlo.frontend_attributes`,
    and Shardy's shardings and sharding rule.
    """
    given = attributes.get("mhlo.frontend_attributes")
    found: dict[str, str] = {}
    if isinstance(given, dict):
        found = {name: v if isinstance(v, str) else attribute_text(v) for name, v in given.items()}
    for name in ("sdy.sharding", "sdy.sharding_rule"):
        if name in attributes:
            found[f"xla.{name}"] = attribute_text(attributes[name])
    return tuple(sorted(found.items()))


def sharding(attributes: dict[str, Any]) -> Sharding | None:
    """The sharding in HLO's form; None if the attributes have none in this form."""
    text = attributes.get("mhlo.sharding")
    if not isinstance(text, str) or not text.startswith("{"):
        return None
    try:
        return read_sharding(text[1:-1])
    except AxlaError:
        return None


class Origins:
    """Makes the extras and names of operations. Operations with one location object share the extra."""

    def __init__(self) -> None:
        # By identity, since the source keeps the locations alive.
        self._locations: dict[int, tuple[Extra, str]] = {}

    def of(self, location: mlir.Location | None, attributes: dict[str, Any]) -> tuple[Extra, str]:
        """The extra of an operation, and the name for its instruction."""
        extra, name = NO_EXTRA, ""
        if location is not None:
            known = self._locations.get(id(location))
            if known is None:
                place = source_location(location)
                known = (NO_EXTRA if place is None else Extra(place), name_of(place))
                self._locations[id(location)] = known
            extra, name = known
        if any(key in attributes for key in _CARRIED):
            extra = Extra(extra.location, sharding(attributes), frontend_attributes(attributes))
        return extra, name


_CARRIED = ("mhlo.sharding", "mhlo.frontend_attributes", "sdy.sharding", "sdy.sharding_rule")
