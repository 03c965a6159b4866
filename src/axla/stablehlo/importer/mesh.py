"""Groups of devices given by axes of a mesh."""

from __future__ import annotations

import re
from math import prod
from typing import Any

import numpy as np

from axla.core.errors import VerifyError
from axla.stablehlo import mlir
from axla.stablehlo.importer import attributes as attr

_AXIS = re.compile(r'"([^"]*)"\s*=\s*(\d+)')
_DEVICES = re.compile(r"device_ids\s*=\s*\[([\d,\s]*)\]")
_LARGEST = 1 << 20


def mesh_groups(source: mlir.Source, operation: mlir.Operation) -> tuple[tuple[int, ...], ...]:
    """The rows of `replica_groups`: devices that differ along the axes given only are together."""
    fields = attr.structure(operation, "replica_groups", "replica_group_mesh_axes")
    sizes, devices = _mesh(source, operation, fields.get("mesh"))
    coordinates = np.unravel_index(np.arange(len(devices)), tuple(sizes.values()))
    names = list(sizes)
    group, place, count = np.arange(len(devices)), np.zeros(len(devices), np.int64), 1
    for axis in fields.get("axes") or ():
        name, before, length = _reference(operation, axis, sizes)
        behind = sizes[name] // (before * length)
        digit = coordinates[names.index(name)] // behind % length
        # A group is named by the first of its devices.
        group = group - digit * behind * prod(sizes[n] for n in names[names.index(name) + 1 :])
        place, count = place * length + digit, count * length
    if group.min() < 0:
        attr.reject(operation, "replica_groups", "of axes, or parts of axes, that are different")
    order = np.lexsort((place, group))
    return tuple(map(tuple, devices[order].reshape(-1, count).tolist()))


def _mesh(source: mlir.Source, operation: mlir.Operation, mesh: Any) -> tuple[dict[str, int], np.ndarray]:
    """Sizes of the axes, and the devices in the order of their coordinates."""
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
        axes = [
            (str(a.fields.get("name")), attr.field_integer(a.fields, "size"))
            for a in mesh.fields.get("axes") or ()
        ]
        if isinstance(mesh.fields.get("device_ids"), mlir.DenseElements):
            listed = attr.elements(mesh.fields["device_ids"]).reshape(-1)
    else:
        attr.reject(operation, "replica_groups", "of a mesh")
    sizes, total = dict(axes), prod(size for _, size in axes)
    if len(sizes) != len(axes) or min(sizes.values(), default=1) < 1 or total > _LARGEST:
        raise VerifyError(f"replica_groups: axes of 1 to {_LARGEST} devices are wanted, found {axes}")
    if listed is not None and len(listed) != total:
        raise VerifyError(f"replica_groups: the mesh has {total} devices, device_ids are {len(listed)}")
    return sizes, np.array(range(total) if listed is None else listed, np.int64)


def _reference(operation: mlir.Operation, axis: Any, sizes: dict[str, int]) -> tuple[str, int, int]:
    """The name of an axis, and of the part of it that is meant: what lies before, and its size."""
    fields: dict[str, Any] = axis.fields if isinstance(axis, mlir.StructAttr) else {"name": axis}
    name = fields.get("name")
    if not isinstance(name, str) or name not in sizes:
        attr.reject(operation, "replica_groups", f"of axes {', '.join(sizes)}")
    part = fields.get("sub_axis_info")
    if not isinstance(part, mlir.StructAttr):
        return name, 1, sizes[name]
    before, length = (attr.field_integer(part.fields, n) for n in ("pre_size", "size"))
    if before < 1 or length < 1 or sizes[name] % (before * length):
        attr.reject(operation, "replica_groups", f"parts that divide the axis {name} of {sizes[name]}")
    return name, before, length
