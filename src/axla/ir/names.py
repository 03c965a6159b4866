"""Unique names for instructions and computations."""

from __future__ import annotations


class NameTable:
    """The names in use. A name is a root and a number, `add.3` or `add` (number 0); each pair is in use at
    most once.

    Numbers are chosen as in XLA: if a name is in use, its root gets the lowest free number.
    """

    __slots__ = ("_used", "_next")

    def __init__(self) -> None:
        self._used: dict[str, set[int]] = {}
        self._next: dict[str, int] = {}

    def claim(self, name: str) -> str:
        """Reserves `name`, or, if it is in use, its root with the lowest free number. Returns the reserved
        name.
        """
        root, number, written = _split_name(name)
        used = self._used.get(root)
        if used is None:
            used = self._used[root] = set()
        if number not in used:
            used.add(number)
            return name
        number = self._lowest(root, used, 0)
        return f"{root}.{number}" if number or written else root

    def release(self, name: str) -> None:
        """Makes a name available again."""
        root, number, _ = _split_name(name)
        self._used[root].discard(number)
        self._next[root] = min(self._next.get(root, 0), number)

    def fresh(self, root: str) -> str:
        """Reserves a generated name and returns it: the root with the lowest free number of at least 1."""
        root = _split_name(root)[0]
        return f"{root}.{self._lowest(root, self._used.setdefault(root, set()), 1)}"

    def _lowest(self, root: str, used: set[int], least: int) -> int:
        number = max(self._next.get(root, 0), least)
        while number in used:
            number += 1
        used.add(number)
        self._next[root] = number + 1
        return number


def _split_name(name: str) -> tuple[str, int, bool]:
    """The root of a name, its number, and whether the name contains the number."""
    root, dot, tail = name.rpartition(".")
    if root and tail.isdigit() and len(tail) < 19:
        return root, int(tail), True
    return name, 0, False
