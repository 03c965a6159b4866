"""Finds programs that cannot be a library, before code is generated, and reports them with their source line.

They need the process that runs them (feeds, host callbacks), or other participants. Sizes determined by a
call are refused too: C cannot express them.
"""

from __future__ import annotations

from collections.abc import Collection

from axla.core.errors import UnsupportedError
from axla.core.shape import Shape, show
from axla.custom.registry import registered
from axla.ir.attributes import ApiVersion
from axla.ir.graph import Instruction, Module

_PROCESS = {
    "infeed": "reads the infeed of the process that runs it; make it a parameter",
    "outfeed": "writes the outfeed of the process that runs it; make it a result",
    "transfers": "needs a peer at the other end of its channel",
}
"""The reason why an op cannot be in a library, by the kind of its effect."""
_CALLBACKS = ("callback", "io_callback")


def where(inst: Instruction) -> str:
    """An instruction for a message: op, text, and the source line if known."""
    location = inst.extra.location
    at = f"{location.source_file}:{location.source_line}" if location and location.source_file else ""
    return f"{inst.op.opcode} ({inst!r}{', ' + at if at else ''})"


def refuse(module: Module, externals: Collection[str] = ()) -> None:
    """Raises UnsupportedError with op and source line for an op that a library cannot contain. `externals`:
    custom call targets that the user provides.
    """
    refuse_dynamic(module)
    several = module.config.replica_count * module.config.num_partitions
    for computation in module.computations:
        for inst in computation.instructions:
            if inst.op.effect in _PROCESS:
                _no(module, f"{where(inst)} {_PROCESS[inst.op.effect]}")
            if inst.op.collective is not None:
                size = max(_group_size(inst), several)
                if size > 1:
                    _no(module, f"{where(inst)} has {size} participants; a library runs alone")
            if inst.opcode == "custom-call":
                _refuse_call(module, inst, externals)
    if several > 1:
        _no(module, f"it is for {several} participants, by its header; a library runs alone")


def _no(module: Module, reason: str) -> None:
    raise UnsupportedError(f"{module.name}: {reason}")


def refuse_dynamic(module: Module) -> None:
    """Raises UnsupportedError for parameters and results that are arrays of dynamic size, which C does not
    have.
    """
    entry = module.entry
    values = [*((f"parameter {p.name}", p) for p in entry.parameters), ("the result", entry.root)]
    for what, inst in values:
        for leaf in inst.shape.leaves():
            if isinstance(leaf, Shape) and leaf.is_dynamic:
                _no(
                    module,
                    f"{what} is {show(leaf)}, in {where(inst)}; a library takes and returns "
                    "arrays of fixed sizes only: axla.aot.compile makes it for several sizes with "
                    "args={rows: arguments}",
                )


def _group_size(inst: Instruction) -> int:
    """The size of the largest group of a collective; 1 without groups."""
    groups = getattr(inst.op, "replica_groups", None)
    pairs = getattr(inst.op, "source_target_pairs", None)
    sizes = [*groups.sizes] if groups is not None else []
    sizes += [2 for source, target in pairs.pairs if source != target] if pairs is not None else []
    return max(sizes, default=1)


def _refuse_call(module: Module, inst: Instruction, externals: Collection[str]) -> None:
    target = getattr(inst.op, "custom_call_target", "")
    if target in externals:
        version = getattr(inst.op, "api_version", None)
        if version not in (None, ApiVersion.ORIGINAL, ApiVersion.UNSPECIFIED):
            _no(module, f"{where(inst)} is of {version}; externals are called as API_VERSION_ORIGINAL")
        return
    if any(word in target for word in _CALLBACKS):
        _no(module, f"{where(inst)} calls back into Python ({target}); a library has none")
    if registered(target):
        reason = f"calls {target!r} of the process it runs in; a library has to stand alone"
        _no(module, f"{where(inst)} {reason}: externals=[{target!r}] makes it a function that its user links")
