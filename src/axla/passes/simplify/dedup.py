"""Merges computations that are equal."""

from __future__ import annotations

from collections.abc import Hashable

from axla.ir.clone import numbered
from axla.ir.graph import NO_EXTRA, Computation, Module
from axla.ir.traverse import computations_callees_first
from axla.passes import rewrite


def computation_deduplicator(module: Module) -> None:
    """Merges computations with the same instructions. Instructions that call them become equal, too."""
    session = rewrite.current_session()
    looks: dict[Hashable, tuple[Computation, dict[Hashable, Computation]]] = {}
    kept: dict[Computation, Computation] = {}
    for computation in computations_callees_first(module):
        if kept:
            _call(computation, kept)
        if computation is module.entry:
            continue
        root = computation.root
        look = (len(computation.instructions), type(root.op), root.shape, len(computation.parameters))
        first, forms = looks.setdefault(look, (computation, {}))
        if first is computation:
            continue  # most are unique, and need no form
        forms = forms or {_form(first): first}
        form = _form(computation)
        same = forms.setdefault(form, computation)
        looks[look] = first, forms
        if (
            form is not None
            and same is not computation
            and session.may_fire("computation-deduplicator", root)
        ):
            kept[computation] = same
    for computation in kept:
        module.remove_computation(computation)


def _call(computation: Computation, kept: dict[Computation, Computation]) -> None:
    """Makes instructions that call removed computations call the equal ones that are kept."""
    for inst in computation.instructions:
        if inst.op.computation_fields and any(c in kept for c in inst.op.computations()):
            computation.set_op(inst, inst.op.with_computations(lambda c: kept.get(c, c)))


def _form(computation: Computation) -> Hashable:
    """A key that is equal for computations with the same instructions, whatever their names and order; None
    if control edges make the order matter.
    """
    numbers = numbered(computation)
    found: list[Hashable] = [computation.extra]
    for inst in numbers:
        extra = inst.extra
        if extra.control_predecessors:
            return None
        more = ()
        if extra is not NO_EXTRA:
            more = (extra.backend_config, extra.sharding, extra.frontend_attributes)
        found.append((inst.op, tuple([numbers[o] for o in inst.operands]), inst.shape, more))
    return tuple(found)
