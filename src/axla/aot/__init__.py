"""Programs compiled ahead of time, for this machine or another.

    import axla.aot
    package = axla.aot.compile(predict, (x,), name="digits::Predict", target="cortex-m4f", out="digits")

The modules are imported on first use: `load` needs only the runtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from axla.aot.compiling import compile
    from axla.aot.machines import machine
    from axla.aot.package import Package
    from axla.runtime.loader import load
    from axla.runtime.safetensors import read_safetensors, write_safetensors

_HOMES = {
    "compile": "axla.aot.compiling",
    "Package": "axla.aot.package",
    "load": "axla.runtime.loader",
    "machine": "axla.aot.machines",
    "read_safetensors": "axla.runtime.safetensors",
    "write_safetensors": "axla.runtime.safetensors",
}

__all__ = ["Package", "compile", "load", "machine", "read_safetensors", "write_safetensors"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module axla.aot has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(home), name)
