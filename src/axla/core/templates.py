"""Sources in other languages that axla writes: files of the package with places to fill in.

A template is `FOLDER/templates/NAME` below `axla`. Its places are `FILL_WORD`, of capitals: identifiers
of C, C++, Rust and CMake, so that compilers and formatters take the file as it is. `FILL_SYMBOL_run` is the
place SYMBOL and `_run`.
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

    A str is put in its place. Lines are for a place that is alone in its line, which they replace; none take
    it away. Raises InternalError for a place that is not given, for one that the template lacks, and for
    lines within a line.
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
