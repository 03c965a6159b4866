"""The interface of a kernel kind: a class that fusion, lowering and code generation use.

An object of the class is one recognised kernel: it refers to instructions of the kernel (its heroes); sizes
are those of the heroes. Class methods are used before a kernel exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pkgutil import resolve_name
from typing import Any, ClassVar, Self

import axla.hlo as hlo
from axla.core import locks
from axla.core.dataclass import dataclass
from axla.ir.attributes import FusionKind
from axla.ir.graph import Computation, Instruction
from axla.ir.op import Op
from axla.kernels.access import AccessKeys, KernelBody, Keys, elements, own_keys
from axla.kernels.plan import KernelTask, Plan
from axla.target.machine import Limits, Target

Form = tuple
"""The facts that a kernel in the making is built around: its kind, then what its heroes have in common."""


def is_costly(inst: Instruction) -> bool:
    """Whether an element is expensive to compute again: by a function, from scattered memory accesses..."""
    return inst.op.expensive or isinstance(inst.op, hlo.Gather | hlo.Map)


class Kind:
    """A kernel kind. `kinds.OWN` lists axla's; `kinds.register` adds one."""

    __slots__ = ()

    name: ClassVar[str]
    """The name of its kernels in messages and on the page of kinds."""
    heroes: ClassVar[tuple[type[Op], ...]] = ()
    """The ops that a kernel is built around: one without any of them is not asked about. Empty: all are."""
    planned: ClassVar[type[Plan] | None] = None
    """The class of its plans. None: its kernels are served as those of another kind."""
    emission: ClassVar[str] = ""
    """`module:function` of what writes its code, imported when that is first needed: see `emit`."""

    alone: ClassVar[bool] = False
    """Whether its hero shares a kernel with nothing."""
    joins: ClassVar[bool] = True
    """Whether its hero may go into the kernel of what reads it."""
    one_result: ClassVar[bool] = False
    several: ClassVar[bool] = False
    """Whether its hero may give several arrays, one by one to what reads them."""
    companions: ClassVar[bool] = False
    """Whether small values as large as its hero's result are computed beside it, not in registers."""
    side_by_side: ClassVar[bool] = False
    """Whether kernels of one form that read the same array are put together."""
    takes_epilogues: ClassVar[bool] = False
    """Whether work on the result of a dot may be a further result of a kernel."""
    overwrites: ClassVar[bool] = False
    """Whether results may lie where operands of the same size lie, that are read at the very same element."""
    fusion: ClassVar[FusionKind] = FusionKind.LOOP
    """OUTPUT: what follows its hero is best computed where the hero's result is stored."""

    # -- what fusion asks about an instruction whose op is one of `heroes` --

    @classmethod
    def form(cls, inst: Instruction, limits: Limits) -> Form | None:
        """The form of a kernel with `inst` as its hero; None where `inst` cannot be a hero."""
        return (cls, inst.id)

    @classmethod
    def operand_keys(cls, keys: AccessKeys, hero: Instruction) -> list[int]:
        """The keys under which a hero in the space of the roots reads its operands."""
        return own_keys(keys, hero)

    @classmethod
    def root_sizes(cls, form: Form) -> set[int] | None:
        """The number of elements that additional results must have; None: they have the shape of the
        first.
        """
        return None

    @classmethod
    def why_not_followed(cls, hero: Instruction, members: Iterable[Instruction]) -> str | None:
        """The reason why ops after the hero are not computed in its kernel; None where they are."""
        return None

    @classmethod
    def why_not_joined(cls, inst: Instruction, limits: Limits) -> str | None:
        """The reason why an instruction that is not a hero is not put into other kernels either."""
        return None

    @classmethod
    def why_not_results(cls, form: Form, hero: Instruction, sizes: set[int], limits: Limits) -> str | None:
        """The reason why a kernel with results of `sizes` elements cannot get this form."""
        own = elements(hero.shape)
        return None if sizes == {own} else f"the kernel's results do not all have its {own} elements"

    @classmethod
    def why_not_operand(cls, user: Instruction, numbers: Sequence[int], inst: Instruction) -> str | None:
        """The reason why `inst`, operands `numbers` of `user`, is not computed in the kernel of `user`."""
        return None

    @classmethod
    def why_not_read(cls, keys: AccessKeys, inst: Instruction, hero: Instruction, found: Keys) -> str | None:
        """The reason why a kernel does not compute `inst`, under the keys `found`, in addition to its
        hero.
        """
        return None

    @classmethod
    def written(cls, hero: Instruction) -> tuple[Instruction, ...]:
        """The operands whose memory the results must use, in order. A hero with such operands is the root."""
        return ()

    @classmethod
    def overwritten(cls, hero: Instruction, limits: Limits) -> tuple[Instruction, ...]:
        """The operands whose memory the results may use, in order, where they have no later use."""
        return ()

    # -- what dataflow and code generation ask --

    @classmethod
    def match(cls, body: KernelBody, limits: Limits) -> Self | None:
        """The kernel, if it is of this kind; else None."""
        raise NotImplementedError

    def served(self, computation: Computation, target: Target) -> Kind:
        """The kind that plans this kernel for a target."""
        return self

    def plan(self, task: KernelTask, target: Target) -> Plan:
        """The plan: how the kernel is called and cut into steps."""
        raise NotImplementedError

    def variants(self, task: KernelTask, target: Target) -> Iterator[Plan]:
        """Alternatives to `plan` that compute every element of the results by the same operations in the same
        order: tuning may choose any of them. A plan may occur twice.
        """
        return iter(())

    @classmethod
    def emit(cls, k: Any, plan: Any) -> None:
        """Writes the function of a phase, with a `codegen.kernel.KernelWriter`."""
        with locks.importing:
            emission = resolve_name(cls.emission)
        emission(k, plan)


@dataclass(frozen=True, slots=True)
class HeroKind(Kind):
    """A kernel of one instruction, its hero, whose operands are in memory."""

    hero: Instruction

    alone: ClassVar[bool] = True

    @classmethod
    def takes(cls, inst: Instruction, limits: Limits) -> bool:
        """Whether an instruction with an op of `heroes` is a kernel of this kind."""
        return True

    @classmethod
    def form(cls, inst: Instruction, limits: Limits) -> Form | None:
        """The form of an instruction that such kernels take; None for others."""
        return (cls, inst.id) if cls.alone and cls.takes(inst, limits) else None

    @classmethod
    def match(cls, body: KernelBody, limits: Limits) -> Self | None:
        """The kernel, if it has this one instruction."""
        inst = body.order[0]
        return cls(inst) if len(body.order) == 1 and cls.takes(inst, limits) else None
