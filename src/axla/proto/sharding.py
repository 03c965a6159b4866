"""Shardings, meshes, replica groups and domains: the texts that axla keeps, and messages."""

from __future__ import annotations

from typing import Any

from axla.core.errors import AxlaError, InvalidArgument, ParseError
from axla.ir.attributes import RawText, ReplicaGroups, SourceTargetPairs
from axla.ir.codec import iota_groups
from axla.text.lexer import BLANK, Cursor, pattern
from axla.text.sharding import canonical_sharding

Proto = dict[str, Any]

_LIST = r"([\d\s,]*+)"
_IOTA = rf"<=\s*+\[{_LIST}\](?:\s*+T\({_LIST}\))?+"
_DEVICES = pattern(BLANK + rf"devices=\[{_LIST}\](?:{_IOTA}|{_LIST})")
_LAST = pattern(BLANK + r"last_tile_dims=\{([\w\s,]*+)\}")
_WORD = pattern(BLANK + r"(\w++)")
_GROUPS = pattern(rf"\[{_LIST}\]{_IOTA}")
_AXIS = pattern(BLANK + r"'(\w++)'")
_SUB_AXIS = pattern(BLANK + r":\s*+\(\s*+(\d++)\s*+\)\s*+(\d++)")
_KINDS = {"replicated": "REPLICATED", "manual": "MANUAL", "unknown": "UNKNOWN", "unreduced": "UNREDUCED"}
_AXIS_SETS = ("replicated", "unreduced", "manual")
_DOMAIN = pattern(r'\{\s*+kind="sharding",\s*+entry=\{(.*)\},\s*+exit=\{(.*)\}\s*+\}')


def _numbers(text: str | None) -> list[int]:
    return [int(n) for n in text.split(",")] if text and text.strip() else []


# Text to message.


class _TextReader(Cursor):
    def all(self) -> Proto:
        if not self.peek("{"):
            return self.single()
        parts = []
        while True:
            self.expect("{")
            parts.append(self.single())
            self.expect("}")
            if not self.accept(","):
                return {"type": "TUPLE", "tuple_shardings": parts}

    def single(self) -> Proto:
        if self.at_end() or self.peek("}"):
            return {"type": "TUPLE"}
        if self.accept("mesh"):
            return {"named_sharding": self.named()}
        message: Proto
        if found := self.match(_DEVICES):
            message = {"type": "OTHER", "tile_assignment_dimensions": _numbers(found[1])}
            if found[2] is None:
                message["tile_assignment_devices"] = _numbers(found[4])
            else:
                message["iota_reshape_dims"] = shape = _numbers(found[2])
                message["iota_transpose_perm"] = _numbers(found[3]) or list(range(len(shape)))
            if self.accept("last_tile_dim_replicate"):
                message["replicate_on_last_tile_dim"] = True
            elif last := self.match(_LAST):
                message["last_tile_dims"] = [word.strip().upper() for word in last[1].split(",")]
        elif self.accept("maximal"):
            self.expect("device=")
            message = {"type": "MAXIMAL", "tile_assignment_devices": [self.integer()]}
        else:
            message = {"type": _KINDS[self.word()]}
        return message | self._behind()

    def _behind(self) -> Proto:
        message: Proto = {}
        while self.peek("shard_") or self.peek("metadata"):
            if self.accept("metadata="):
                message["metadata"] = _metadata(self.raw())
                continue
            kind = self.word().removeprefix("shard_").upper()
            message |= {"is_shard_group": True, "shard_group_id": self.integer(), "shard_group_type": kind}
        return message

    def mesh(self) -> tuple[Proto, dict[str, int]]:
        """['x'=2,'y'=4] with `device_ids=(...)` behind it; and the axes' numbers."""

        def axis() -> Proto:
            name = self._axis_name()
            self.expect("=")
            return {"name": name, "size": self.integer()}

        mesh: Proto = {"axes": self.listed("[", axis, "]")}
        self.accept(",")
        if self.accept("device_ids="):
            if self.peek("("):
                mesh["device_ids"] = self.listed("(", self.integer, ")")
            elif found := self.match(pattern(BLANK + rf"\[{_LIST}\]{_IOTA}")):
                shape = _numbers(found[2])
                order = _numbers(found[3]) or list(range(len(shape)))
                mesh["iota_transform"] = {"reshape_dims": shape, "transpose_perm": order}
            self.accept(",")
        return mesh, {axis["name"]: n for n, axis in enumerate(mesh["axes"])}

    def _axis_name(self) -> str:
        found = self.match(_AXIS)
        if found is None:
            self.fail(f"expected the name of an axis in quotes, found {self.saw()}")
        return found[1]

    def axes(self, numbers: dict[str, int]) -> tuple[list[Proto], bool]:
        """{'x', 'y':(1)2, ?}, and whether it is closed: without the question mark."""
        closed = True
        found: list[Proto] = []
        self.expect("{")
        while not self.accept("}"):
            if self.accept("?"):
                closed = False
            else:
                name = self._axis_name()
                if name not in numbers:
                    self.fail(f"the mesh has no axis '{name}'")
                axis: Proto = {"mesh_axis_index": numbers[name]}
                if part := self.match(_SUB_AXIS):
                    axis["sub_axis_info"] = {"pre_size": int(part[1]), "size": int(part[2])}
                found.append(axis)
            self.accept(",")
        return found, closed

    def named(self) -> Proto:
        mesh, numbers = self.mesh()
        message: Proto = {"mesh": mesh, "dim_shardings": []}
        if self.peek("["):
            for axes, closed in self.listed("[", lambda: self.axes(numbers), "]"):
                message["dim_shardings"].append({"axes": axes, "is_closed": closed})
        while self.accept(","):
            kind = self.word()
            self.expect("=")
            if kind == "metadata":
                message["metadata"] = _metadata(self.raw())
            elif kind in _AXIS_SETS:
                message[f"{kind}_axes"] = self.axes(numbers)[0]
            else:
                self.fail(f"'{kind}' is nothing that a sharding has")
        return message


def sharding_message(text: str) -> Proto:
    """What stands inside sharding={...}, as an OpSharding."""
    try:
        cursor = _TextReader(text)
        message = cursor.all()
        if not cursor.at_end():
            cursor.fail(f"found {cursor.saw()}")
        return message
    except (AxlaError, KeyError, ValueError) as error:
        raise InvalidArgument(f"sharding {{{text[:80]}}} cannot be written as a proto: {error}") from None


def _metadata(text: str) -> list[Proto]:
    from axla.proto.extras import location_message
    from axla.text.instructions import InstructionCursor

    cursor = InstructionCursor(text)
    many = text.replace(" ", "").startswith("{{")
    found = cursor.listed("{", cursor.location, "}") if many else [cursor.location()]
    return [location_message(location) for location in found if location is not None]


# Message to text.


def sharding_text(message: Proto) -> str:
    """An OpSharding as what stands inside sharding={...}."""
    try:
        return canonical_sharding(_text(message))
    except InvalidArgument as error:
        raise ParseError(error.message) from None


def _text(message: Proto) -> str:
    if "named_sharding" in message:
        return _named_text(message["named_sharding"])
    kind = message.get("type", "REPLICATED")
    if kind == "TUPLE":
        return ", ".join("{" + _text(m) + "}" for m in message.get("tuple_shardings", ()))
    if kind == "MAXIMAL":
        devices = message.get("tile_assignment_devices") or [0]
        parts = [f"maximal device={devices[0]}"]
    elif kind == "OTHER":
        parts = [_tiled_text(message)]
    else:
        parts = [str(kind).lower()]
    if message.get("is_shard_group"):
        group = str(message.get("shard_group_type", "AS")).lower()
        parts.append(f"shard_{group} {message.get('shard_group_id', 0)}")
    return " ".join(parts + _metadata_text(message))


def _metadata_text(message: Proto) -> list[str]:
    from axla.ir.printer import location_text
    from axla.proto.extras import location_of

    found = [location_of(m, with_frames=True) for m in message.get("metadata", ())]
    texts = ["{" + (location_text(location) if location else "") + "}" for location in found]
    if not texts:
        return []
    return [f"metadata={texts[0] if len(texts) == 1 else '{' + ', '.join(texts) + '}'}"]


def _tiled_text(message: Proto) -> str:
    text = f"devices={_brackets(message.get('tile_assignment_dimensions', ()))}"
    if "iota_reshape_dims" in message:
        text += _iota_text(message)
    else:
        text += ",".join(map(str, message.get("tile_assignment_devices", ())))
    if message.get("replicate_on_last_tile_dim"):
        return text + " last_tile_dim_replicate"
    last = message.get("last_tile_dims", ())
    return text + (f" last_tile_dims={{{', '.join(str(w).lower() for w in last)}}}" if last else "")


def _brackets(numbers: Any) -> str:
    return "[" + ",".join(map(str, numbers)) + "]"


def _iota_text(message: Proto, shape: str = "iota_reshape_dims", order: str = "iota_transpose_perm") -> str:
    text = "<=" + _brackets(message.get(shape, ()))
    permutation = message.get(order, [])
    if permutation != sorted(permutation):
        text += f"T({','.join(map(str, permutation))})"
    return text


def _mesh_text(mesh: Proto) -> str:
    axes = ",".join(f"'{a.get('name', '')}'={a.get('size', 0)}" for a in mesh.get("axes", ()))
    text = f"mesh[{axes}]"
    if mesh.get("device_ids"):
        text += f", device_ids=({','.join(map(str, mesh['device_ids']))})"
    elif "iota_transform" in mesh:
        iota = mesh["iota_transform"]
        sizes = _brackets([a.get("size", 0) for a in mesh.get("axes", ())])
        text += f", device_ids={sizes}{_iota_text(iota, 'reshape_dims', 'transpose_perm')}"
    return text


def _axes_text(axes: list[Proto], mesh: Proto, *, closed: bool = True) -> str:
    names = [a.get("name", "") for a in mesh.get("axes", ())]
    parts = []
    for axis in axes:
        number = axis.get("mesh_axis_index", 0)
        if not 0 <= number < len(names):
            raise ParseError(f"axis {number} of a mesh with {len(names)} axes")
        sub = axis.get("sub_axis_info")
        behind = f":({sub.get('pre_size', 0)}){sub.get('size', 0)}" if sub is not None else ""
        parts.append(f"'{names[number]}'{behind}")
    return "{" + ", ".join(parts + ["?"] * (not closed)) + "}"


def _named_text(message: Proto) -> str:
    mesh = message.get("mesh", {})
    dims = [
        _axes_text(d.get("axes", []), mesh, closed=d.get("is_closed", False))
        for d in message.get("dim_shardings", ())
    ]
    parts = [_mesh_text(mesh), "[" + ", ".join(dims) + "]"]
    parts += [
        f"{kind}={_axes_text(message[f'{kind}_axes'], mesh)}"
        for kind in _AXIS_SETS
        if f"{kind}_axes" in message
    ]
    return ", ".join(parts + _metadata_text(message))


# Collectives.


GROUP_FIELDS = (
    "replica_groups", "collective_device_list", "iota_collective_device_list", "mesh_axes_replica_group_list",
)  # fmt: skip
DOMAIN_FIELDS = ("domain_entry_sharding", "domain_exit_sharding")


def write_groups(groups: ReplicaGroups, message: Proto, around: object) -> None:
    """Replica groups in the one of three fields that has their form."""
    if groups.text.startswith("mesh"):
        cursor = _TextReader(groups.text.removeprefix("mesh"))
        mesh, numbers = cursor.mesh()
        message["mesh_axes_replica_group_list"] = {"mesh": mesh, "axes": cursor.axes(numbers)[0]}
    elif found := _GROUPS.fullmatch(groups.text):
        dims, reshape = _numbers(found[1]), _numbers(found[2])
        message["iota_collective_device_list"] = {
            "num_replica_groups": dims[0], "num_devices_per_group": dims[1], "iota_reshape_dims": reshape,
            "iota_transpose_perm": _numbers(found[3]) or list(range(len(reshape))),
        }  # fmt: skip
    else:
        message["collective_device_list"] = {
            "replica_groups": [{"replica_ids": list(g)} for g in groups.groups]
        }


def read_groups(message: Proto, around: object) -> ReplicaGroups:
    if "iota_collective_device_list" in message:
        found = message["iota_collective_device_list"]
        dims = (found.get("num_replica_groups", 0), found.get("num_devices_per_group", 0))
        order = found.get("iota_transpose_perm", [])
        shape = found.get("iota_reshape_dims", [])
        groups = iota_groups(dims, tuple(shape), tuple(order))
        if groups is None:
            raise ParseError("iota_collective_device_list does not spread devices over groups")
        return ReplicaGroups(groups, _brackets(dims) + _iota_text(found))
    if "mesh_axes_replica_group_list" in message:
        found = message["mesh_axes_replica_group_list"]
        mesh = found.get("mesh", {})
        return ReplicaGroups((), f"{_mesh_text(mesh)} {_axes_text(found.get('axes', []), mesh)}")
    listed = message.get("collective_device_list", message).get("replica_groups", ())
    return ReplicaGroups(tuple(tuple(g.get("replica_ids", ())) for g in listed))


def write_pairs(pairs: SourceTargetPairs, message: Proto, around: object) -> None:
    found = pairs.pairs
    if pairs.text:
        raise InvalidArgument(f"source_target_pairs={pairs.text} cannot be written as a proto")
    message["source_target_pairs"] = [{"source": s, "target": t} for s, t in found]


def read_pairs(message: Proto, around: object) -> SourceTargetPairs:
    found = message.get("source_target_pairs", ())
    return SourceTargetPairs(tuple((p.get("source", 0), p.get("target", 0)) for p in found))


def write_domain(text: str, message: Proto, around: object) -> None:
    """What a text calls the entry is the exit in XLA's message."""
    found = _DOMAIN.fullmatch(text)
    if found is None:
        raise InvalidArgument(f"domain={text} cannot be written as a proto")
    message["domain_entry_sharding"] = sharding_message(found[2])
    message["domain_exit_sharding"] = sharding_message(found[1])


def read_domain(message: Proto, around: object) -> RawText:
    entry, exit_ = (sharding_text(message.get(f"domain_{s}_sharding", {})) for s in ("exit", "entry"))
    return RawText(f'{{kind="sharding", entry={{{entry}}}, exit={{{exit_}}}}}')
