"""The interface of a kernel kind: a class that fusion, lowering and code generation use.

An object of the class is one recognised kernel. It refers to instructions of the kernel (its heroes), and has
their sizes. Class methods are used before a kernel exists.
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
"""The key of a kernel that fusion is building: its kind, then what its heroes must have in common."""


def is_costly(inst: Instruction) -> bool:
    """Whether an element is expensive to compute again: a function, or scattered memory accesses."""
    return inst.op.expensive or isinstance(inst.op, hlo.Gather | hlo.Map)


class Kind:
    """A kernel kind. `kinds.OWN` lists axla's; `kinds.register` adds one."""

    __slots__ = ()

    name: ClassVar[str]
    """The name of its kernels in messages and on the page of kinds."""
    heroes: ClassVar[tuple[type[Op], ...]] = ()
    """The ops that its kernels are built around: `match` is called only where there is one. Empty: always."""
    planned: ClassVar[type[Plan] | None] = None
    """The class of its plans. None: `served` returns another kind for each of its kernels."""
    emission: ClassVar[str] = ""
    """The function that writes its code, as `module:function`; imported when first needed: see `emit`."""

    alone: ClassVar[bool] = False
    """Whether its hero is the only instruction of its kernels."""
    joins: ClassVar[bool] = True
    """Whether its hero may be fused into the kernel of one of its users."""
    one_result: ClassVar[bool] = False
    several: ClassVar[bool] = False
    """Whether its hero may have several results, which users read through get-tuple-elements."""
    companions: ClassVar[bool] = False
    """Whether small values of the size of the hero's result are computed in its kernel, not in registers."""
    side_by_side: ClassVar[bool] = False
    """Whether kernels of the same form that read the same array are merged."""
    takes_epilogues: ClassVar[bool] = False
    """Whether an op that reads the result of a dot may become a further result of its kernels. If not, the op
    is left to the kernel of the dot.
    """
    overwrites: ClassVar[bool] = False
    """Whether a result may share memory with an operand of which only the element that is being written is
    read.
    """
    fusion: ClassVar[FusionKind] = FusionKind.LOOP
    """The kind of its fusions. OUTPUT: users of its hero are computed where the hero's result is stored."""

    # -- decisions of fusion about an instruction whose op is one of `heroes` --

    @classmethod
    def form(cls, inst: Instruction, limits: Limits) -> Form | None:
        """The form of a kernel with `inst` as its hero; None if `inst` cannot be a hero."""
        return (cls, inst.id)

    @classmethod
    def operand_keys(cls, keys: AccessKeys, hero: Instruction) -> list[int]:
        """The keys under which a hero, evaluated in the index space of the roots, reads its operands."""
        return own_keys(keys, hero)

    @classmethod
    def root_sizes(cls, form: Form) -> set[int] | None:
        """The numbers of elements that additional results may have; None: those must have the shape of the
        first result.
        """
        return None

    @classmethod
    def why_not_followed(cls, hero: Instruction, members: Iterable[Instruction]) -> str | None:
        """The reason why the ops `members` after the hero are not computed in its kernel; None if they
        are.
        """
        return None

    @classmethod
    def why_not_joined(cls, inst: Instruction, limits: Limits) -> str | None:
        """The reason why an instruction that cannot be a hero is not put into other kernels either; None if
        it may be.
        """
        return None

    @classmethod
    def why_not_results(cls, form: Form, hero: Instruction, sizes: set[int], limits: Limits) -> str | None:
        """The reason why a kernel with results of `sizes` elements cannot get this form; None if it can."""
        own = elements(hero.shape)
        return None if sizes == {own} else f"the kernel's results do not all have its {own} elements"

    @classmethod
    def why_not_operand(cls, user: Instruction, numbers: Sequence[int], inst: Instruction) -> str | None:
        """The reason why `inst`, operands `numbers` of `user`, is not computed in the kernel of `user`; None
        if it is.
        """
        return None

    @classmethod
    def why_not_read(cls, keys: AccessKeys, inst: Instruction, hero: Instruction, found: Keys) -> str | None:
        """The reason why a kernel does not compute `inst`, under the keys `found`, in addition to its hero;
        None if it does.
        """
        return None

    @classmethod
    def written(cls, hero: Instruction) -> tuple[Instruction, ...]:
        """The operands whose memory the results must use, in the order of the results. A hero with such
        operands is the root.
        """
        return ()

    @classmethod
    def overwritten(cls, hero: Instruction, limits: Limits) -> tuple[Instruction, ...]:
        """The operands whose memory the results may use, in the order of the results, if they have no later
        use.
        """
        return ()

    # -- matching, planning and code generation --

    @classmethod
    def match(cls, body: KernelBody, limits: Limits) -> Self | None:
        """The kernel of this kind with this body; None if the body does not fit."""
        raise NotImplementedError

    def served(self, computation: Computation, target: Target) -> Kind:
        """The kind that plans this kernel for a target."""
        return self

    def plan(self, task: KernelTask, target: Target) -> Plan:
        """The plan: how the kernel is called and cut into steps."""
        raise NotImplementedError

    def variants(self, task: KernelTask, target: Target) -> Iterator[Plan]:
        """Yields other plans that compute every element by the same operations in the same order: tuning may
        choose any of them. A plan may occur twice.
        """
        return iter(())

    @classmethod
    def emit(cls, k: Any, plan: Any) -> None:
        """Writes the functions of the phases of a plan with `k`, a `codegen.kernel.KernelWriter`."""
        with locks.importing:
            emission = resolve_name(cls.emission)
        emission(k, plan)


@dataclass(frozen=True, slots=True)
class HeroKind(Kind):
    """A kind whose kernels have one instruction, the hero, with operands in memory."""

    hero: Instruction

    alone: ClassVar[bool] = True

    @classmethod
    def takes(cls, inst: Instruction, limits: Limits) -> bool:
        """Whether an instruction whose op is among `heroes` can be a kernel of this kind."""
        return True

    @classmethod
    def form(cls, inst: Instruction, limits: Limits) -> Form | None:
        """The form of an instruction that is a kernel of this kind; None for other instructions."""
        return (cls, inst.id) if cls.alone and cls.takes(inst, limits) else None

    @classmethod
    def match(cls, body: KernelBody, limits: Limits) -> Self | None:
        """The kernel of this kind, if the body is one instruction that it takes; else None."""
        inst = body.order[0]
        return cls(inst) if len(body.order) == 1 and cls.takes(inst, limits) else None
