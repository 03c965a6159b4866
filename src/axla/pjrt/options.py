"""Checks the values of XLA's options that a caller gives by name; options.txt has the types of options."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from axla.core.status import Status
from axla.pjrt.errors import StatusError


@cache
def _types() -> dict[str, str]:
    """The type of each option by name: `bool`, `int32`..."""
    found: dict[str, str] = {}
    kind = ""
    for line in files("axla.pjrt").joinpath("options.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            head, colon, names = line.rpartition(":")
            kind = head if colon else kind
            found |= dict.fromkeys(names.split(), kind)
    return found


def check_option(name: str, value: dict[str, Any]) -> None:
    """Raises StatusError for a value, an OptionOverrideProto, that XLA would refuse for the option."""
    kind = _types().get(name)
    [(field, given)] = value.items() or [("", "")]
    if kind == "bool":
        right = field == "bool_field" or given in ("True", "False")
    elif kind is not None and field in ("int_field", "string_field"):
        right = _fits(given, int(kind.removeprefix("int")))
    else:
        right = kind is None
    if not right:
        shown = given if isinstance(given, str) else f"{given:g}" if isinstance(given, float) else int(given)
        text = f"While setting option {name}, '{shown}' is not a valid {kind} value."
        raise StatusError(Status.INVALID_ARGUMENT, text)


def _fits(given: str | int, bits: int) -> bool:
    try:
        return -(1 << bits - 1) <= int(given) < 1 << bits - 1
    except ValueError:
        return False
