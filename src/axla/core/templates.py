"""Templates for sources in other languages: package files with placeholders.

A template is `FOLDER/templates/NAME` below `axla`. Its placeholders are `FILL_WORD`, in capitals: valid
identifiers in C, C++, Rust and CMake, so that compilers and formatters accept the file unchanged.
`FILL_SYMBOL_run` is the placeholder SYMBOL followed by `_run`.
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
    """The text of a template (`aot/loader.c`), without its last line break.

    A str replaces its placeholder. A list of lines replaces the line with the placeholder, which must be
    alone in it; an empty list removes it. Raises InternalError for a placeholder without a value, a value
    without a placeholder, and lines inside a line.
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
            wanted = "is not filled" if found is None else "is within a line, wanted a str"
            raise InternalError(f"template {template}: {word} {wanted}")
        return "".join(f"{line}\n" for line in found)

    text = _PLACE.sub(value, _text(template))
    if unused:
        raise InternalError(f"template {template}: there is no place {', '.join(sorted(unused))}")
    return text.removesuffix("\n")


@lru_cache
def _text(template: str) -> str:
    folder, name = template.split("/")
    return files("axla").joinpath(folder, "templates", name).read_text("utf-8")
