"""Groups of devices that are given by the axes of a mesh."""

from __future__ import annotations

import re
from math import prod
from typing import Any

from axla.core.errors import InvalidArgument, VerifyError
from axla.ir.devices import MOST_LISTED, Axis, Mesh, MeshAxes
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr

_AXIS = re.compile(r'"([^"]*)"\s*=\s*(\d+)')
_DEVICES = re.compile(r"device_ids\s*=\s*\[([\d,\s]*)\]")


def mesh_groups(source: mlir.Source, said: attr.Said, name: str) -> MeshAxes:
    """Reads the groups in an attribute: devices that differ only along the given axes form a group."""
    fields = attr.structure(said, name, "replica_group_mesh_axes")
    try:
        mesh = _mesh(source, said, fields.get("mesh"))
        return MeshAxes(mesh, tuple(_axis(said, axis, mesh) for axis in fields.get("axes") or ()))
    except InvalidArgument as error:
        raise VerifyError(f"replica_groups: {error.message}") from None


def _mesh(source: mlir.Source, said: attr.Said, mesh: Any) -> Mesh:
    listed: Any = None
    if isinstance(mesh, mlir.SymbolRef):
        found = [o for o in source.body if o.name == "sdy.mesh" and o.attributes.get("sym_name") == mesh.root]
        if not found:
            raise VerifyError(f"replica_groups: there is no mesh @{mesh.root}")
        text = str(getattr(found[0].attributes.get("mesh"), "text", ""))
        axes = [(m[1], int(m[2])) for m in _AXIS.finditer(text)]
        given = _DEVICES.search(text)
        listed = [int(n) for n in given[1].split(",") if n.strip()] if given else None
    elif isinstance(mesh, mlir.StructAttr):
        parts = mesh.fields.get("axes") or ()
        axes = [(str(a.fields.get("name")), attr.integer(a.fields, "size", 0)) for a in parts]
        if isinstance(mesh.fields.get("device_ids"), mlir.DenseElements):
            listed = attr.elements(mesh.fields["device_ids"]).reshape(-1)
    else:
        attr.reject(said, "replica_groups", "groups of a mesh")
    if prod(size for _, size in axes) > MOST_LISTED:
        raise VerifyError(f"replica_groups: meshes of at most {MOST_LISTED} devices are wanted, found {axes}")
    return Mesh(tuple(axes), None if listed is None else tuple(listed))


def _axis(said: attr.Said, axis: Any, mesh: Mesh) -> Axis:
    """Reads an axis, or a sub-axis: its size, and the product of the sizes of the sub-axes before it."""
    fields: dict[str, Any] = axis.fields if isinstance(axis, mlir.StructAttr) else {"name": axis}
    name, part = fields.get("name"), fields.get("sub_axis_info")
    if not isinstance(name, str):
        attr.reject(said, "replica_groups", f"groups along axes of {mesh}")
    if not isinstance(part, mlir.StructAttr):
        return Axis(name)
    return Axis(name, attr.integer(part.fields, "pre_size", 0), attr.integer(part.fields, "size", 0))
