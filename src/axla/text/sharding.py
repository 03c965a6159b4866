"""Parses shardings."""

from __future__ import annotations

from functools import lru_cache

from axla.core.errors import InvalidArgument
from axla.core.regex import ascii_regex
from axla.ir.devices import DeviceOrder
from axla.ir.sharding import SUBGROUPS, WORDS, DimAxes, MeshTiles, Sharding, Tiles, tiled
from axla.text.attributes import read_axes, read_iota, read_mesh
from axla.text.lexer import BLANK, HloCursor

_WORD = ascii_regex(BLANK + rf"({'|'.join(WORDS)}|maximal)\b")
_GROUP = ascii_regex(BLANK + r"shard_(as|like)\b")
_DEVICES = ascii_regex(BLANK + r"devices\s*+=\s*+\[([\d\s,]*+)\]")
_DEVICE = ascii_regex(BLANK + r"device\s*+=")
_LIST = ascii_regex(BLANK + r"(\d++(?:\s*+,\s*+\d++)*+)")
_LAST_REPLICATE = ascii_regex(BLANK + r"last_tile_dim_replicate\b")
_LAST = ascii_regex(BLANK + r"last_tile_dims\s*+=")
_METADATA = ascii_regex(BLANK + r"metadata\s*+=")


@lru_cache(maxsize=1024)
def read_sharding(text: str) -> Sharding | None:
    """Parses the sharding between the braces of sharding={...}; None if it is empty. Raises InvalidArgument
    for malformed text.
    """
    cursor = _ShardingCursor(text)
    if not cursor.peek("{"):
        result = cursor.single()
    else:
        # A tuple: a list between the outer braces, with one sharding per leaf.
        parts = []
        while True:
            cursor.expect("{")
            parts.append(cursor.single())
            cursor.expect("}")
            if not cursor.accept(","):
                break
        result = Sharding(parts=tuple(parts))
    if not cursor.at_end():
        cursor.fail(f"found {cursor.saw()} after the sharding")
    return None if result == Sharding() else result


class _ShardingCursor(HloCursor):
    def fail(self, message: str, at: int | None = None):
        raise InvalidArgument(f"sharding {{{self.text[:60]}}}: {message}")

    def single(self) -> Sharding:
        if self.at_end() or self.peek("}"):
            return Sharding()
        group, metadata = None, ""
        what = self._mesh() if self.accept("mesh") else self._what()
        while True:
            if found := self.match(_GROUP):
                group = (found[1], self.integer())
            elif self.match(_METADATA):
                metadata = " ".join(self.raw().split())
            else:
                return Sharding(what, (), group, metadata)

    def _what(self) -> str | int | Tiles:
        if found := self.match(_DEVICES):
            return self._tiled(self._numbers(found[1]))
        found = self.match(_WORD)
        if found is None:
            self.fail(f"expected the kind of a sharding, found {self.saw()}")
        if found[1] != "maximal":
            return found[1]
        if self.match(_DEVICE) is None:
            self.fail("maximal must be followed by device=")
        return self.integer()

    def _numbers(self, text: str) -> tuple[int, ...]:
        return tuple(self.as_int64(n.strip(), 0) for n in text.split(",")) if text.strip() else ()

    def _tiled(self, dims: tuple[int, ...]) -> str | Tiles:
        """Reads the devices after devices=[dims], and the kinds of the dimensions that follow those of the
        array.
        """
        if 0 in dims:
            self.fail("the number of tiles in a dimension is 0, wanted at least 1")
        devices: DeviceOrder | None = read_iota(self, "<=")
        if devices is None:
            found = self.match(_LIST)
            if found is None:
                self.fail("it names no devices")
            devices = self._numbers(found[1])
        kinds = self._last_dims()
        if len(kinds) > len(dims):
            self.fail(f"{len(kinds)} last_tile_dims, but devices has only {len(dims)} sizes")
        return tiled(dims, devices, tuple(kinds))

    def _last_dims(self) -> list[str]:
        if self.match(_LAST_REPLICATE):
            return ["replicated"]
        if not self.match(_LAST):
            return []
        kinds = self.listed("{", self.word, "}")
        for kind in kinds:
            if kind not in SUBGROUPS:
                self.fail(f"'{kind}' is not a kind of tile dimension")
        return kinds

    def _mesh(self) -> MeshTiles:
        """Reads what follows `mesh`, such as ['x'=2], [{'x'}, {}], manual={'y'}."""
        mesh, dims, sets = read_mesh(self), [], []
        self.accept(",")
        names = dict(mesh.axes)

        def axes() -> DimAxes:
            found, closed = read_axes(self)
            for axis in found:
                if axis.name not in names:
                    self.fail(f"the mesh has no axis '{axis.name}'")
            return DimAxes(found, closed)

        if self.peek("["):
            dims = self.listed("[", axes, "]")
        while self.accept(",") and not self.peek("metadata"):
            kind = self.word()
            if kind not in SUBGROUPS:
                self.fail(f"'{kind}' is not one of {', '.join(SUBGROUPS)}")
            self.expect("=")
            sets.append((kind, axes()))
        return MeshTiles(mesh, tuple(dims), tuple(sets))
