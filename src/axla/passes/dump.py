"""Dumps: modules and generated code in files named as XLA names them.

module_0000.NAME.before_optimizations.txt
module_0000.NAME.0007.simplify.after_algsimp.before_cse.txt
module_0000.NAME.cpu_after_optimizations.txt
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from weakref import WeakKeyDictionary

from axla.core import flags as flag_values
from axla.core.errors import InvalidArgument
from axla.core.flags import Flags
from axla.ir.graph import Module

_numbers: WeakKeyDictionary[Module, int] = WeakKeyDictionary()
_counter = itertools.count()


def wanted(module: Module, flags: Flags | None = None) -> bool:
    """Whether the flags enable dumps of this module. `flags` are by default the current flags."""
    flags = flags or flag_values.current()
    return bool(flags.dump_to) and re.search(flags.dump_hlo_module_re, module.name) is not None


def path_of(module: Module, suffix: str, flags: Flags | None = None) -> str:
    """The path of a dump file of a module. `suffix` is the part of the name after `module_0000.NAME.`;
    `flags` are by default the current flags.
    """
    flags = flags or flag_values.current()
    number = _numbers.get(module)
    if number is None:
        number = _numbers[module] = next(_counter)
    # 200 bytes: most file systems take 255 in a name.
    name = re.sub(r"[^A-Za-z0-9_.\-]", "_", module.name)[:200]
    return os.path.join(flags.dump_to, f"module_{number:04d}.{name}.{suffix}")


def write_text(module: Module, suffix: str, text: str | bytes, flags: Flags | None = None) -> str:
    """Writes a text or bytes (LLVM IR, assembly, a Program...) to a dump file of a module, whose name ends
    with `suffix` (see `path_of`). Returns the path, or "" if no dump is wanted. With `--xla_dump_to=-` a text
    is printed instead, and bytes are ignored.
    """
    flags = flags or flag_values.current()
    if not wanted(module, flags):
        return ""
    path = path_of(module, suffix, flags)
    if flags.dump_to == "-":
        if isinstance(text, str):
            sys.stdout.write(f"*** {os.path.basename(path)}\n{text}\n")
        return ""
    try:
        os.makedirs(flags.dump_to, exist_ok=True)
        with open(path, "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
    except OSError as error:
        raise InvalidArgument(f"--xla_dump_to={flags.dump_to}: cannot write {path}: {error}") from None
    return path


def write_module(module: Module, stage: str, flags: Flags | None = None) -> str:
    """Writes a module in the formats that the flags select; `stage` names the stage of compilation in the
    file names. `flags` are by default the current flags. Returns the path of the text, or "" if none was
    written.
    """
    flags = flags or flag_values.current()
    if not wanted(module, flags):
        return ""
    path = ""
    if flags.dump_hlo_as_text or not (flags.dump_hlo_as_dot or flags.dump_hlo_as_proto):
        path = write_text(module, f"{stage}.txt", module.to_string() + "\n", flags)
    if flags.dump_hlo_as_dot:
        from axla.ir.dot_graph import dot_graph

        write_text(module, f"{stage}.dot", dot_graph(module), flags)
    if flags.dump_hlo_as_proto:
        from axla.proto import to_proto

        write_text(module, f"{stage}.hlo.pb", to_proto(module, "hlo"), flags)
    return path
