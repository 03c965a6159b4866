"""Names of libraries, functions, arguments and results, which must be identifiers in C, C++ and Rust."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument
from axla.core.regex import regex

_IDENTIFIER = regex(r"[A-Za-z][A-Za-z0-9_]*")

# Keywords of C11, C++20 and Rust 2021, and macros of headers that generated files include: not allowed.
KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr
    constinit continue decltype default delete do double dynamic_cast else enum explicit export extern
    false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr
    operator or or_eq private protected public register reinterpret_cast requires restrict return short
    signed sizeof static static_assert static_cast struct switch template this thread_local throw true
    try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while xor
    xor_eq as async await become box crate dyn final fn gen impl in let loop macro match mod move mut
    override priv pub ref self Self super trait type unsafe unsized use where yield NULL EOF errno
    assert offsetof main linux unix i386
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Name:
    """`foo::bar::MatMul`: a class in C++ namespaces. In C, and for files, `foo_bar_MatMul` or the symbol."""

    namespaces: tuple[str, ...]
    cls: str
    symbol: str = ""

    @property
    def prefix(self) -> str:
        """The name in C and for files: `foo_bar_MatMul`, or the symbol."""
        return self.symbol or "_".join((*self.namespaces, self.cls))

    @property
    def qualified(self) -> str:
        """The name in C++: `foo::bar::MatMul`."""
        return "::".join((*self.namespaces, self.cls))

    def with_suffix(self, suffix: str) -> Name:
        """The name with a suffix: `foo::MatMul_suffix`."""
        return Name(self.namespaces, f"{self.cls}_{suffix}", self.symbol and f"{self.symbol}_{suffix}")

    def __str__(self) -> str:
        return self.qualified


def parse_name(text: str, symbol: str = "") -> Name:
    """Parses a library's name; InvalidArgument unless it is `Name` or `ns::Name`, and the symbol an
    identifier.
    """
    if symbol:
        return replace(parse_name(text), symbol=parse_name(check_identifier(symbol, "symbol")).cls)
    parts = text.split("::")
    for part in parts:
        check_identifier(part, f"name {text!r}")
    if parts[0] in ("axla", "std") or parts[0].startswith("axla_") or (len(parts) == 1 and _is_taken(text)):
        raise InvalidArgument(f"name {text!r}: {parts[0]!r} is reserved for the generated files")
    return Name(tuple(parts[:-1]), parts[-1])


def _is_taken(name: str) -> bool:
    """Whether a name without namespaces is already used, by a type in C's headers or by the file build.rs."""
    return name in ("FILE", "build") or name.endswith("_t")


def check_identifier(text: str, what: str) -> str:
    """`text`, if it is an identifier in C, C++ and Rust; else InvalidArgument that begins with `what`."""
    if _IDENTIFIER.fullmatch(text) is None:
        message = f"{what}: {text!r} is not an identifier (a letter, then letters, digits, underscores)"
        raise InvalidArgument(message)
    if text in KEYWORDS:
        raise InvalidArgument(f"{what}: {text!r} is a keyword or macro of C, C++ or Rust; rename it")
    if "__" in text:
        raise InvalidArgument(f"{what}: {text!r} has two underscores in a row, which C++ reserves")
    return text


def check_unique(names: Iterable[str], what: str) -> None:
    """Raises InvalidArgument that begins with `what` for a duplicate name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidArgument(f"{what}: the name {name!r} is used twice")
        seen.add(name)


def derived(labels: Sequence[str], default: str) -> tuple[str, ...]:
    """Identifiers made from labels: `params['w1']` becomes params_w1. Numbers or underscores avoid empty
    names, keywords and duplicates; labels without letters become `default`.
    """
    found: dict[str, None] = {}
    for number, label in enumerate(labels):
        name = re.sub(r"[^A-Za-z0-9]+", "_", label).strip("_")
        if not name or name[0].isdigit():
            name = f"{default}{number}" if not name else f"{default}_{name}"
        if name in KEYWORDS:
            name += "_"
        unique, k = name, 2
        while unique in found:
            unique, k = f"{name.rstrip('_')}_{k}", k + 1
        found[unique] = None
    return tuple(found)
