"""`P.json`: what `axla.aot.load` and other tools know of a library that was written."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from axla.aot.library import Function, Library, Value
from axla.aot.package import objects
from axla.runtime.loader import digest_of
from axla.runtime.manifest import FORMAT, seal


def write(library: Library) -> dict[str, str | bytes]:
    """`P.json`."""
    return {f"{library.prefix}.json": json.dumps(table(library), indent=1) + "\n"}


def table(library: Library) -> dict[str, Any]:
    """The contents of P.json."""
    target = library.target
    found: dict[str, Any] = {
        "format": FORMAT,
        "name": str(library.name),
        "prefix": library.prefix,
        "target": {
            "alias": target.name, "triple": target.triple, "cpu": target.cpu,
            "features": sorted(target.features), "object_format": target.form.format,
            "pointer_bytes": target.form.pointer_bytes,
        },
        "objects": [
            {"file": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in objects(library).items()
        ],
        "weights": library.weights.value,
        "constants": {
            "bytes": len(library.constants),
            "digest": digest_of(library.constants),
            "tensors": [
                {"name": t.name, "offset": t.offset, "dtype": t.shape.dtype.name, "dims": list(t.shape.dims)}
                for t in library.tensors
            ],
        },
        "functions": [_function(function) for function in library.functions],
        "batches": [list(row) for row in library.batches],
        "externals": library.externals,
    }  # fmt: skip
    if library.takes_weights:
        found["weights_file"] = f"{library.prefix}.weights"
    return {**found, "sha256": seal(found)}


def _function(function: Function) -> dict[str, Any]:
    return {
        "name": str(function.name),
        "symbol": function.symbol,
        "workspace_bytes": function.workspace_bytes,
        "arguments": [_value(value) for value in function.arguments],
        "results": [_value(value) for value in function.results],
        "messages": list(function.interface.messages),
    }


def _value(value: Value) -> dict[str, Any]:
    return {
        "name": value.name, "label": value.label, "dtype": value.dtype.name, "dims": list(value.dims),
        "bytes": value.bytes, "role": value.role.value,
    }  # fmt: skip
