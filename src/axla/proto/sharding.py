"""Converts shardings, meshes, replica groups and domains to messages and back."""

from __future__ import annotations

from typing import Any

from axla.core.errors import AxlaError, InvalidArgument, ParseError
from axla.core.regex import ascii_regex
from axla.ir.attributes import RawText, SourceTargetPairs
from axla.ir.devices import Axis, DeviceOrder, IotaDevices, IotaGroups, Mesh, MeshAxes, ReplicaGroups
from axla.ir.sharding import SUBGROUPS, WORDS, DimAxes, MeshTiles, Sharding, Tiles, tiled
from axla.text.sharding import read_sharding

Proto = dict[str, Any]

_DOMAIN = ascii_regex(r'\{\s*+kind="sharding",\s*+entry=\{(.*)\},\s*+exit=\{(.*)\}\s*+\}')


def _devices(devices: DeviceOrder, listed: str, reshape: str, transpose: str) -> Proto:
    if isinstance(devices, IotaDevices):
        return {reshape: list(devices.reshape), transpose: list(devices.order)}
    return {listed: list(devices)}


# Shardings.


def sharding_message(sharding: Sharding | None) -> Proto:
    """Converts a sharding to an OpSharding message."""
    if sharding is None or sharding.parts or sharding.what == "":
        parts = sharding.parts if sharding else ()
        return {"type": "TUPLE"} | ({"tuple_shardings": [*map(sharding_message, parts)]} if parts else {})
    what, message = sharding.what, {}
    if isinstance(what, MeshTiles):
        message = _mesh_tiles_message(what)
        return {"named_sharding": message | _metadata_message(sharding.metadata)}
    if isinstance(what, Tiles):
        message = {"type": "OTHER", "tile_assignment_dimensions": list(what.dims)}
        message |= _devices(
            what.devices, "tile_assignment_devices", "iota_reshape_dims", "iota_transpose_perm"
        )
        if what.kinds == ("replicated",):
            message["replicate_on_last_tile_dim"] = True
        elif what.kinds:
            message["last_tile_dims"] = [kind.upper() for kind in what.kinds]
    elif isinstance(what, int):
        message = {"type": "MAXIMAL", "tile_assignment_devices": [what]}
    else:
        message = {"type": what.upper()}
    if sharding.group is not None:
        kind, number = sharding.group
        message |= {"is_shard_group": True, "shard_group_id": number, "shard_group_type": kind.upper()}
    return message | _metadata_message(sharding.metadata)


def _metadata_message(text: str) -> Proto:
    from axla.proto.extras import location_message
    from axla.text.instructions import InstructionCursor

    if not text:
        return {}
    cursor = InstructionCursor(text)
    many = text.replace(" ", "").startswith("{{")
    try:
        found = cursor.listed("{", cursor.location, "}") if many else [cursor.location()]
    except AxlaError as error:
        raise InvalidArgument(f"metadata={text[:80]} cannot be written as a proto: {error}") from None
    return {"metadata": [location_message(location) for location in found if location is not None]}


def _mesh_message(mesh: Mesh) -> Proto:
    message: Proto = {"axes": [{"name": name, "size": size} for name, size in mesh.axes]}
    if mesh.devices is None:
        return message
    found = _devices(mesh.devices, "device_ids", "reshape_dims", "transpose_perm")
    return message | (found if "device_ids" in found else {"iota_transform": found})


def _axes_message(axes: tuple[Axis, ...], mesh: Mesh) -> list[Proto]:
    numbers = {name: n for n, (name, _) in enumerate(mesh.axes)}
    found: list[Proto] = []
    for axis in axes:
        message: Proto = {"mesh_axis_index": numbers[axis.name]}
        if axis.size:
            message["sub_axis_info"] = {"pre_size": axis.before, "size": axis.size}
        found.append(message)
    return found


def _mesh_tiles_message(tiles: MeshTiles) -> Proto:
    mesh = tiles.mesh
    dims = [{"axes": _axes_message(d.axes, mesh), "is_closed": d.closed} for d in tiles.dims]
    sets = {f"{kind}_axes": _axes_message(found.axes, mesh) for kind, found in tiles.sets}
    return {"mesh": _mesh_message(mesh), "dim_shardings": dims, **sets}


def sharding_of(message: Proto) -> Sharding | None:
    """Converts an OpSharding message to a sharding; None for an empty tuple."""
    try:
        found = _sharding(message)
    except InvalidArgument as error:
        raise ParseError(error.message) from None
    return None if found == Sharding() else found


def _sharding(message: Proto) -> Sharding:
    if "named_sharding" in message:
        named = message["named_sharding"]
        return Sharding(_mesh_tiles(named), metadata=_metadata_text(named))
    kind = str(message.get("type", "REPLICATED"))
    if kind == "TUPLE":
        return Sharding(parts=tuple(map(_sharding, message.get("tuple_shardings", ()))))
    group = None
    if message.get("is_shard_group"):
        group = (str(message.get("shard_group_type", "AS")).lower(), message.get("shard_group_id", 0))
    what: Any = kind.lower()
    if kind == "MAXIMAL":
        what = (message.get("tile_assignment_devices") or [0])[0]
    elif kind == "OTHER":
        what = _tiles(message)
    elif what not in WORDS:
        raise ParseError(f"sharding: {kind} is not a type of shardings")
    if group is not None and group[0] not in ("as", "like"):
        raise ParseError(f"sharding: {group[0]} is not a type of shard groups")
    return Sharding(what, (), group, _metadata_text(message))


def _metadata_text(message: Proto) -> str:
    from axla.proto.extras import location_of
    from axla.text.printer import location_text

    found = [location_of(m, with_frames=True) for m in message.get("metadata", ())]
    texts = ["{" + (location_text(location) if location else "") + "}" for location in found]
    return texts[0] if len(texts) == 1 else "{" + ", ".join(texts) + "}" if texts else ""


def _tiles(message: Proto) -> str | Tiles:
    dims = tuple(message.get("tile_assignment_dimensions", ()))
    devices: DeviceOrder = tuple(message.get("tile_assignment_devices", ()))
    if "iota_reshape_dims" in message:
        devices = IotaDevices.of(message["iota_reshape_dims"], message.get("iota_transpose_perm", ()))
    kinds = tuple(str(kind).lower() for kind in message.get("last_tile_dims", ()))
    if message.get("replicate_on_last_tile_dim"):
        kinds = ("replicated",)
    if (
        min(dims, default=1) < 1
        or not len(devices)
        or len(kinds) > len(dims)
        or not set(kinds) <= {*SUBGROUPS}
    ):
        raise ParseError(f"sharding: invalid tiles {dims}, last dimensions {kinds}, {len(devices)} devices")
    return tiled(dims, devices, kinds)


def _mesh(message: Proto) -> Mesh:
    axes = tuple((str(a.get("name", "")), a.get("size", 0)) for a in message.get("axes", ()))
    devices: DeviceOrder | None = tuple(message.get("device_ids", ())) or None
    if devices is None and "iota_transform" in message:
        iota = message["iota_transform"]
        devices = IotaDevices.of(iota.get("reshape_dims", ()), iota.get("transpose_perm", ()))
    return Mesh(axes, devices)


def _axes(found: list[Proto], mesh: Mesh) -> tuple[Axis, ...]:
    axes = []
    for message in found:
        number, sub = message.get("mesh_axis_index", 0), message.get("sub_axis_info")
        if not 0 <= number < len(mesh.axes):
            raise ParseError(f"found axis {number} of a mesh with {len(mesh.axes)} axes")
        part = () if sub is None else (sub.get("pre_size", 0), sub.get("size", 0))
        axes.append(Axis(mesh.axes[number][0], *part))
    return tuple(axes)


def _mesh_tiles(message: Proto) -> MeshTiles:
    mesh = _mesh(message.get("mesh", {}))
    said = message.get("dim_shardings", ())
    dims = [DimAxes(_axes(d.get("axes", []), mesh), d.get("is_closed", False)) for d in said]
    named = ((kind, message.get(f"{kind}_axes")) for kind in ("replicated", "unreduced", "manual"))
    sets = ((kind, DimAxes(_axes(axes, mesh))) for kind, axes in named if axes is not None)
    return MeshTiles(mesh, tuple(dims), tuple(sets))


# Collectives.


GROUP_FIELDS = (
    "replica_groups", "collective_device_list", "iota_collective_device_list", "mesh_axes_replica_group_list",
)  # fmt: skip
DOMAIN_FIELDS = ("domain_entry_sharding", "domain_exit_sharding")


def write_groups(groups: ReplicaGroups, message: Proto, around: object) -> None:
    """Writes replica groups to the field for their form: a list, an iota, or axes of a mesh. `around` is not
    used.
    """
    form = groups.form
    if isinstance(form, MeshAxes):
        message["mesh_axes_replica_group_list"] = {
            "mesh": _mesh_message(form.mesh), "axes": _axes_message(form.axes, form.mesh),
        }  # fmt: skip
    elif form is not None and isinstance(form.devices, IotaDevices):
        message["iota_collective_device_list"] = {
            "num_replica_groups": form.count, "num_devices_per_group": form.size,
            "iota_reshape_dims": list(form.devices.reshape), "iota_transpose_perm": list(form.devices.order),
        }  # fmt: skip
    else:
        message["collective_device_list"] = {
            "replica_groups": [{"replica_ids": list(g)} for g in groups.groups]
        }


def read_groups(message: Proto, around: object) -> ReplicaGroups:
    """Reads the replica groups of an instruction, in any of their forms: a list, an iota, or axes of a mesh.
    `around` is not used.
    """
    try:
        if "iota_collective_device_list" in message:
            found = message["iota_collective_device_list"]
            devices = IotaDevices.of(found.get("iota_reshape_dims", ()), found.get("iota_transpose_perm", ()))
            sizes = (found.get("num_replica_groups", 0), found.get("num_devices_per_group", 0))
            return ReplicaGroups((), IotaGroups(*sizes, devices))
        if "mesh_axes_replica_group_list" in message:
            found = message["mesh_axes_replica_group_list"]
            mesh = _mesh(found.get("mesh", {}))
            return ReplicaGroups((), MeshAxes(mesh, _axes(found.get("axes", []), mesh)))
    except InvalidArgument as error:
        raise ParseError(error.message) from None
    listed = message.get("collective_device_list", message).get("replica_groups", ())
    return ReplicaGroups(tuple(tuple(g.get("replica_ids", ())) for g in listed))


def write_pairs(pairs: SourceTargetPairs, message: Proto, around: object) -> None:
    """Writes the source-target pairs of a `collective-permute` to its message. `around` is not used."""
    found = pairs.pairs
    if pairs.text:
        raise InvalidArgument(f"source_target_pairs={pairs.text} cannot be written as a proto")
    message["source_target_pairs"] = [{"source": s, "target": t} for s, t in found]


def read_pairs(message: Proto, around: object) -> SourceTargetPairs:
    """Reads the source-target pairs of a `collective-permute` from its message. `around` is not used."""
    found = message.get("source_target_pairs", ())
    return SourceTargetPairs(tuple((p.get("source", 0), p.get("target", 0)) for p in found))


def write_domain(text: str, message: Proto, around: object) -> None:
    """Writes the shardings of a `domain` to its message. `entry` in HLO text is the exit in XLA's message,
    and the reverse. `around` is not used.
    """
    found = _DOMAIN.fullmatch(text)
    if found is None:
        raise InvalidArgument(f"domain={text} cannot be written as a proto")
    message["domain_entry_sharding"] = sharding_message(read_sharding(found[2]))
    message["domain_exit_sharding"] = sharding_message(read_sharding(found[1]))


def read_domain(message: Proto, around: object) -> RawText:
    """Reads the shardings of a `domain`, as HLO text. `around` is not used."""
    entry, exit_ = (sharding_of(message.get(f"domain_{s}_sharding", {})) or "" for s in ("exit", "entry"))
    return RawText(f'{{kind="sharding", entry={{{entry}}}, exit={{{exit_}}}}}')
