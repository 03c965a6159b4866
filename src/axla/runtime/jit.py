"""Loads object images into the process and frees them: LLVM's LLJIT.

LLVM keeps some 9 KB for each library ever loaded into an LLJIT, even after its code is freed. So an LLJIT
serves a bounded number of libraries, and is closed when it is full: it goes when its last library goes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from axla.core import locks
from axla.core.errors import CompileError
from axla.runtime.elf import symbols, undefined_symbols

# 110 KB for an LLJIT, 9 KB for a library: what one live library can keep from being freed is then 0.4 MB.
_LIBRARIES = 32

_lock = locks.new_lock()
_numbers = itertools.count()
_current: Any = None
_room = 0


class Library:
    """Loaded code; freed when this object goes. `addresses` has the exported symbols."""

    __slots__ = ("addresses", "_tracker")

    def __init__(self, tracker: Any, addresses: dict[str, int]) -> None:
        self.addresses = addresses
        self._tracker = tracker

    # The tracker frees the code in its own finalizer.


def load(images: Sequence[bytes], exports: Sequence[str]) -> Library:
    """Links object images with each other, and with nothing else; CompileError when a symbol is missing."""
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder()
    for image in images:
        builder.add_object_img(image)
    for name in exports:
        builder.export_symbol(name)
    with _lock:
        try:
            tracker = builder.link(_jit(llvm), f"axla.{next(_numbers)}")
        except RuntimeError as error:
            raise CompileError(_reason(images, exports, error)) from error
    return Library(tracker, {name: tracker[name] for name in exports})


def _reason(images: Sequence[bytes], exports: Sequence[str], error: RuntimeError) -> str:
    """Why images did not load; LLVM says only that it failed."""
    try:
        missing = undefined_symbols(*images)
        defined = set().union(*(symbols(image)[0] for image in images))
    except ValueError as damage:
        return f"the object does not load: {damage}"
    if missing:
        return f"the object does not load: it needs {', '.join(sorted(missing))}"
    absent = [name for name in exports if name not in defined]
    if absent:
        return f"the object does not load: it does not define {', '.join(absent)}"
    return f"the object does not load: {error}"


def _jit(llvm: Any) -> Any:
    """The LLJIT for the next library."""
    global _current, _room
    if not _room:
        if _current is not None:
            _current.close()  # its libraries keep it alive inside LLVM
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _current, _room = llvm.create_lljit_compiler(suppress_errors=True), _LIBRARIES
    _room -= 1
    return _current
