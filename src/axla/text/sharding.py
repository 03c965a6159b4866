"""Shardings as text. axla keeps them as text; this brings equal shardings to equal texts, those that XLA
prints.

{replicated} {devices=[2,1]<=[2]} {devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate} {{manual},
{replicated}}
"""

from __future__ import annotations

import re
from math import prod

import numpy as np

from axla.core.errors import InvalidArgument, UnsupportedError
from axla.text.lexer import BLANK, Cursor, pattern

_WORD = pattern(BLANK + r"(replicated|manual|unknown|unreduced|maximal|shard_as|shard_like)\b")
_DEVICES = pattern(BLANK + r"devices\s*+=\s*+\[([\d\s,]*+)\]")
_IOTA = pattern(BLANK + r"<=\s*+\[([\d\s,]*+)\]")
_TRANSPOSE = pattern(BLANK + r"T\(([\d\s,]*+)\)")
_DEVICE = pattern(BLANK + r"device\s*+=")
_LIST = pattern(BLANK + r"(\d++(?:\s*+,\s*+\d++)*+)")
_LAST_REPLICATE = pattern(BLANK + r"last_tile_dim_replicate\b")
_LAST = pattern(BLANK + r"last_tile_dims\s*+=")
_METADATA = pattern(BLANK + r"metadata\s*+=")
_MESH = pattern(BLANK + r"(mesh|\w*+\[)")
_KINDS = ("manual", "replicated", "unreduced")
MAX_DEVICES = 1 << 17
LONGEST = 1 << 24  # characters of one sharding for all leaves of a tuple, written once for each


def canonical_sharding(text: str) -> str:
    """The text inside sharding={...} as XLA prints it; InvalidArgument where it is no sharding."""
    cursor = _ShardingCursor(text)
    if not cursor.peek("{"):
        result = cursor.single()
    else:
        # A tuple: the list that stands between the outer braces, one sharding per leaf.
        parts = []
        while True:
            cursor.expect("{")
            parts.append("{" + cursor.single() + "}")
            cursor.expect("}")
            if not cursor.accept(","):
                break
        result = ", ".join(parts)
    if not cursor.at_end():
        cursor.fail(f"found {cursor.saw()} behind the sharding")
    return result


def for_leaves(sharding: str, leaves: int) -> str:
    """The sharding of a tuple: one sharding for all leaves is written once for each."""
    if sharding.startswith("{") or not sharding:
        return sharding
    if len(sharding) * leaves > LONGEST:
        raise UnsupportedError(f"a sharding of {len(sharding)} characters for each of {leaves} leaves")
    return ", ".join(["{" + sharding + "}"] * max(leaves, 1))


class _ShardingCursor(Cursor):
    def fail(self, message: str, at: int | None = None):
        raise InvalidArgument(f"sharding {{{self.text[:60]}}}: {message}")

    def single(self) -> str:
        if self.at_end() or self.peek("}"):
            return ""
        if found := self.match(_DEVICES):
            parts = [self._tiled(self._numbers(found[1]))]
        elif (found := self.match(_WORD)) and not found[1].startswith("shard_"):
            word = found[1]
            if word == "maximal":
                if self.match(_DEVICE) is None:
                    self.fail("maximal needs device=")
                word += f" device={self.integer()}"
            parts = [word]
        elif self.match(_MESH):
            return self._mesh()
        else:
            self.fail(f"found {self.saw()}")
        while True:
            if found := self.match(_WORD):
                parts.append(f"{found[1]} {self.integer()}")
            elif self.match(_METADATA):
                parts.append("metadata=" + " ".join(self.raw().split()))
            else:
                return " ".join(parts)

    def _numbers(self, text: str) -> tuple[int, ...]:
        return tuple(self.as_int64(n.strip(), 0) for n in text.split(",")) if text.strip() else ()

    def _tiled(self, dims: tuple[int, ...]) -> str:
        """Behind devices=[dims]: which devices, and what the dimensions behind the array's own ones mean."""
        reshape: tuple[int, ...] = ()
        order: tuple[int, ...] = ()
        listed = ""
        if found := self.match(_IOTA):
            reshape = self._numbers(found[1])
            order = tuple(range(len(reshape)))
            if transpose := self.match(_TRANSPOSE):
                order = self._numbers(transpose[1])
            if sorted(order) != list(range(len(reshape))):
                self.fail(
                    f"T({','.join(map(str, order))}) is no order of the {len(reshape)} dimensions of devices"
                )
        elif found := self.match(_LIST):
            numbers = self._numbers(found[1])
            listed = ",".join(map(str, numbers))
        else:
            self.fail("it names no devices")
        if 0 in (*dims, *reshape):
            self.fail("a size of 0; there is a tile in every dimension")
        kinds = self._last_dims()
        if len(kinds) > len(dims):
            self.fail(f"{len(kinds)} last_tile_dims for {len(dims)} dimensions")
        return _tile_text(dims, kinds, reshape, order, listed)

    def _last_dims(self) -> list[str]:
        if self.match(_LAST_REPLICATE):
            return ["replicated"]
        if not self.match(_LAST):
            return []
        kinds = self.listed("{", self.word, "}")
        for kind in kinds:
            if kind not in _KINDS:
                self.fail(f"'{kind}' is no kind of tile dimension")
        return kinds

    def _mesh(self) -> str:
        """mesh['x'=2], [{'x'}, {}]: kept, with XLA's blanks."""
        rest = " ".join(self.text[self.skip() :].split())
        self.pos = len(self.text)
        text = re.sub(r"\}\s?,\s?\{", "}, {", "mesh" + rest)
        return re.sub(r"^(mesh\[[^\]]*+\])\s?+(?=\[)", r"\1, ", text)


def _tile_text(
    dims: tuple[int, ...], kinds: list[str], reshape: tuple[int, ...], order: tuple[int, ...], listed: str
) -> str:
    own = len(dims) - len(kinds)
    # Subgroups of one device say nothing; the others stand in a fixed order.
    kept = [n for n in range(own, len(dims)) if dims[n] != 1]
    places = sorted(kept, key=lambda n: _KINDS.index(kinds[n - own]))
    names = [kinds[n - own] for n in places]
    count = len(listed.split(",")) if listed else prod(reshape)
    if (places != kept or len(set(names)) < len(names)) and count == prod(dims) <= MAX_DEVICES:
        return _regrouped(dims, own, places, names, reshape, order, listed)
    if names and set(names) == {"replicated"} and all(d == 1 for d in dims[:own]):
        return "replicated"
    shown = (*dims[:own], *(dims[n] for n in kept))
    if names == ["replicated"]:
        listed, reshape, order = _sorted_groups(shown[-1], listed, reshape, order)
    where = listed or _iota_text(reshape, order)
    return f"devices=[{','.join(map(str, shown))}]{where}{_kinds_text(names)}"


def _sorted_groups(
    size: int, listed: str, reshape: tuple[int, ...], order: tuple[int, ...]
) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """The devices that hold the same, `size` after each other, in ascending order."""
    if listed:
        ids = np.array([int(n) for n in listed.split(",")])
        if ids.size % size == 0:
            listed = ",".join(map(str, np.sort(ids.reshape(-1, size), axis=1).reshape(-1).tolist()))
        return listed, reshape, order
    left, inside = size, 0
    while inside < len(order) and left > 1:
        inside += 1
        d = order[-inside]
        if reshape[d] > left:  # the group is a part of this dimension, which becomes two
            if reshape[d] % left:
                return listed, reshape, order
            reshape = (*reshape[:d], reshape[d] // left, left, *reshape[d + 1 :])
            moved = [n + (n > d) for n in order]
            at = len(order) - inside
            order = (*moved[:at], d, d + 1, *moved[at + 1 :])
            left = 1
        elif left % reshape[d]:
            return listed, reshape, order
        else:
            left //= reshape[d]
    at = len(order) - inside
    return listed, reshape, (*order[:at], *sorted(order[at:]))


def _kinds_text(names: list[str]) -> str:
    if not names:
        return ""
    return (
        " last_tile_dim_replicate" if names == ["replicated"] else f" last_tile_dims={{{', '.join(names)}}}"
    )


def _iota_text(reshape: tuple[int, ...], order: tuple[int, ...]) -> str:
    """<=[reshape]T(order), without dimensions of one, and with neighbours that stay neighbours as one."""
    sizes = {d: reshape[d] for d in order}
    runs: list[list[int]] = []
    for d in (d for d in order if sizes[d] != 1):
        nearest = runs[-1][-1] + 1 if runs else -1
        while runs and nearest < d and sizes[nearest] == 1:
            nearest += 1
        if runs and nearest == d:
            runs[-1].append(d)
        else:
            runs.append([d])
    ordered = sorted(runs)
    merged = [prod(sizes[d] for d in run) for run in ordered]
    if len(runs) <= 1:
        return f"<=[{prod(reshape)}]"
    return f"<=[{','.join(map(str, merged))}]T({','.join(str(ordered.index(run)) for run in runs)})"


def _regrouped(
    dims: tuple[int, ...], own: int, places: list[int], names: list[str],
    reshape: tuple[int, ...], order: tuple[int, ...], listed: str,
) -> str:  # fmt: skip
    """The same tiles with the subgroups in their fixed order, equal ones as one."""
    groups: dict[str, int] = {}
    for n, name in zip(places, names, strict=True):
        groups[name] = groups.get(name, 1) * dims[n]
    ones = [n for n in range(own, len(dims)) if n not in places]
    permutation = (*range(own), *places, *ones)
    shown = (*dims[:own], *groups.values())
    if set(groups) == {"replicated"} and all(d == 1 for d in dims[:own]):
        return "replicated"
    if listed:
        ids = np.array(listed.split(",")).reshape(dims).transpose(permutation).reshape(-1)
        where = ",".join(ids.tolist())
    else:
        where = _permuted_iota(dims, permutation, reshape, order)
    return f"devices=[{','.join(map(str, shown))}]{where}{_kinds_text(list(groups))}"


def _permuted_iota(
    dims: tuple[int, ...], permutation: tuple[int, ...], reshape: tuple[int, ...], order: tuple[int, ...]
) -> str:
    """The devices of an iota whose tiles were permuted: an iota again if the sizes line up, else a list."""
    if order == tuple(range(len(order))):
        return _iota_text(dims, permutation)
    ids = (
        np.arange(prod(reshape))
        .reshape(reshape)
        .transpose(order)
        .reshape(dims)
        .transpose(permutation)
        .reshape(-1)
    )
    return ",".join(map(str, ids.tolist()))
