"""Fills templates for sources in other languages: package files with placeholders.

The template `FOLDER/NAME` is the file `axla/FOLDER/templates/NAME`. Placeholders are written `FILL_WORD`,
with WORD in capitals. They are valid identifiers in C, C++, Rust and CMake, so that compilers and formatters
accept the file. `FILL_SYMBOL_run` is the placeholder SYMBOL followed by `_run`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files

from axla.core.errors import InternalError
from axla.core.regex import regex

_PLACE = regex(r"^ *FILL_([A-Z]+)\n|FILL_([A-Z]+)", re.MULTILINE)


def fill(template: str, **places: str | Iterable[str]) -> str:
    """Returns the text of a template, such as `aot/loader.c`, with its placeholders replaced and without its
    last line break.

    A str replaces the placeholder of its name. A list of lines replaces the whole line of the placeholder,
    which must contain nothing else; an empty list removes the line. Raises InternalError for a placeholder
    without a value, a value without a placeholder, and a list for a placeholder that is part of a line.
    """
    unused = set(places)

    def value(match: re.Match[str]) -> str:
        alone, within = match.groups()
        word = alone or within
        unused.discard(word)
        found = places.get(word)
        if isinstance(found, str):
            return match[0].replace(f"FILL_{word}", found)
        if found is None or within:
            wanted = "has no value" if found is None else "is part of a line, so it must be a str"
            raise InternalError(f"template {template}: placeholder {word} {wanted}")
        return "".join(f"{line}\n" for line in found)

    text = _PLACE.sub(value, _text(template))
    if unused:
        raise InternalError(f"template {template}: there is no placeholder {', '.join(sorted(unused))}")
    return text.removesuffix("\n")


@lru_cache
def _text(template: str) -> str:
    folder, name = template.split("/")
    return files("axla").joinpath(folder, "templates", name).read_text("utf-8")
