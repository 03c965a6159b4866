"""Strings as HLO text writes them: quotes, escapes, lists of named values."""

from __future__ import annotations

import re

from axla.core.regex import ascii_regex, regex

_NEEDS_ESCAPE = regex(r"[^ !#-&(-\[\]-~]")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}


def escape(text: str) -> str:
    """Escapes all characters that are not printable ASCII, as in C, byte by byte of their UTF-8."""
    return _NEEDS_ESCAPE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    known = _ESCAPES.get(char)
    if known is not None:
        return known
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))


def quote(text: str) -> str:
    """A string in quotes, with the escapes of HLO text."""
    return f'"{escape(text)}"'


_JSON_PART = ascii_regex(r'"(?:[^"\\]|\\[\s\S])*+"|[{}]|[^"{}]++')


def is_braced(text: str) -> bool:
    """Whether a text is a single balanced {...}, which is written without quotes."""
    if not text.startswith("{") or not text.endswith("}"):
        return False
    depth = pos = 0
    while (found := _JSON_PART.match(text, pos)) is not None:
        if found[0] == "{":
            depth += 1
        elif found[0] == "}":
            depth -= 1
            if depth == 0:
                return found.end() == len(text)
        pos = found.end()
    return False


def quote_unless_braced(text: str) -> str:
    """The text in quotes; a text in braces (`{mode=default}`) as it is."""
    return text if is_braced(text) else quote(text)


def named_values(pairs: tuple[tuple[str, str], ...]) -> str:
    """The text of named values, such as {a="x",b={"json": 1}}."""
    return "{" + ",".join(f"{name}={quote_unless_braced(value)}" for name, value in pairs) + "}"
