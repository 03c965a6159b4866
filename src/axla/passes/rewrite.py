"""Rewriting by rules. The requirements on rules:

1. A rule keeps shape, element type, and every bit of the result that HLO defines (NaN stays NaN, -0.0 stays
   -0.0), unless it checks `fast_math()` first. `x + 0.0 => x` is wrong for x = -0.0, `x + -0.0 => x` is
   right.
2. It never makes the program worse: the result has fewer operations, or as many in a form that no rule turns
   back. So rewriting ends; after ten firings per instruction the driver fails and names the last rules.
3. Constants are on the right of commutative ops (`constant_to_the_right`), so no rule needs a mirrored twin.
4. One equation, one rule, one name, one test. The first line of its docstring is the equation. A rule of more
   than 25 lines must be a pass.
5. It looks only at operands, not at users of the root, changes no existing instruction, and returns an
   instruction of the root's computation that replaces the root, or None. It decides before it builds:
   instructions that it built without need are removed, but in strict mode (tests) it is an error to build and
   then return None.
6. Replacements are made by calling op values, `Transpose(perm)(x)`; they get the root's source location.

    @rule(Multiply)
    def multiply_one(product: Instruction, x: Instruction, one: Instruction) -> Rewritten:
        '''x * 1 => x'''
        return x if is_constant(one, 1) else None

    @rule(Negate, of=Negate)
    def negate_negate(root: Instruction, inner: Instruction) -> Rewritten:
        '''-(-x) => x'''
        return inner.operands[0]
"""

from __future__ import annotations

import functools
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from itertools import islice

from axla.core.dataclass import dataclass
from axla.core.errors import InternalError
from axla.core.shape import Shape
from axla.ir.graph import NO_EXTRA, Computation, Extra, Instruction, Module
from axla.ir.op import OPS, Op, is_own
from axla.ir.structure import Parameter
from axla.ir.traverse import callers, computations_callees_first, post_order

FIRINGS_PER_INSTRUCTION = 10
WIDE = 32  # number of operands above which a user is updated later, see `_Rewriter`
FREE_FIRINGS = 1000  # firings allowed in addition, as small computations may grow much (map bodies, loops)


Rewritten = Instruction | None
"""The result of a rule: the instruction that replaces the root, or None."""

Rewrite = Callable[..., Rewritten]
"""The function of a rule, which takes the root and the root's operands."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rewrite rule. If `function(root, *operands)` returns an instruction, it replaces the root.

    `equation` is the first line of the function's docstring. `family` says whether the rule also applies to
    an op class of another package. The function is called only if the op of the root's first operand is of
    the class `of`, and `where` holds for the root. `allows` says which bits of a result may change
    (requirement 1), and why: "order: ..." if sums and products are taken in another order, "zero: ..." if the
    sign of a zero may change, "rounding: ..." if the formula changes.
    """

    name: str
    function: Rewrite
    equation: str
    family: Callable[[type[Op]], bool] | None = None
    of: type[Op] | None = None
    where: Callable[[Instruction], bool] | None = None
    allows: str = ""


Rules = dict[type[Op], tuple[Rule, ...]]
RulesOf = Callable[[type[Op]], tuple[Rule, ...]]

RULES: dict[str, Rules] = {}
"""Pass name -> op class -> rules, in the order in which they are tried. `@rule` adds to it; rules of the
class `Op` are tried for every op.
"""

FOREIGN: list[tuple[str, Rule]] = []
"""Rules that other packages declared, as pairs (pass name, rule)."""


def has_foreign(passes: Container[str]) -> bool:
    """Whether one of these passes has rules of other packages. If so, the compiled code depends on these
    packages.
    """
    return any(
        made in rules for name, made in FOREIGN if name in passes for rules in RULES.get(name, {}).values()
    )


def rule(
    *classes: type[Op], group: str = "algsimp", family: Callable[[type[Op]], bool] | None = None,
    of: type[Op] | None = None, where: Callable[[Instruction], bool] | None = None, allows: str = "",
) -> Callable[[Rewrite], Rewrite]:  # fmt: skip
    """A decorator: declares a function of a root and its operands as a rule of the pass `group`. The rule
    applies to the op classes `classes` or, if `family` is given, to all op classes for which it holds. `of`,
    `where` and `allows`: see `Rule`.
    """

    def declare(function: Rewrite) -> Rewrite:
        equation = (function.__doc__ or "").strip().split("\n")[0]
        made = Rule(function.__name__, function, equation, family, of, where, allows)
        table = RULES.setdefault(group, {})
        if not function.__module__.startswith("axla."):
            FOREIGN.append((group, made))
        for cls in classes if family is None else [c for c in OPS.values() if is_own(c) and family(c)]:
            table[cls] = (*table.get(cls, ()), made)
        return function

    return declare


def rules_by_name() -> dict[str, Rule]:
    """Every rule of every pass, by name."""
    return {r.name: r for table in RULES.values() for rules in table.values() for r in rules}


@dataclass(slots=True)
class RuleSession:
    """The limits of rewriting in one run of a pipeline, and a record of the rules that fired."""

    fuel: int | None = None
    disabled: frozenset[str] = frozenset()
    fast_math: bool = False
    strict: bool = False
    exhausted: bool = False
    last: str = ""
    firings: Counter[str] = field(default_factory=Counter)
    # (rule, id of instruction) per firing, if an observer wants them
    fired: list[tuple[str, int]] | None = None
    _callers: dict[Computation, list[Instruction]] | None = None  # set only while rules are applied

    def callers_of(self, computation: Computation) -> list[Instruction]:
        """The instructions that call a computation. They are cached while rules are applied, since rules add
        no calls.
        """
        if self._callers is None:
            self._callers = callers(computation.module)
        return self._callers.get(computation, [])

    def forget(self) -> None:
        """Drops the cached callers of computations."""
        self._callers = None

    def may_fire(self, name: str, inst: Instruction) -> bool:
        """Records one rewrite of `inst` by the rule or pass `name`, and uses a unit of fuel for it. Returns
        False, without a record, if no fuel is left.
        """
        if self.fuel is not None:
            if self.fuel <= 0:
                self.exhausted = True
                return False
            self.fuel -= 1
            self.last = f"{name} at {inst!r} in {inst.computation.name}"
        self.firings[name] += 1
        if self.fired is not None:
            self.fired.append((name, inst.id))
        return True


_SESSION: ContextVar[RuleSession | None] = ContextVar("rewrite session", default=None)


@contextmanager
def rule_session(new: RuleSession) -> Iterator[None]:
    """Makes `new` the current session within the `with` block."""
    token = _SESSION.set(new)
    try:
        yield
    finally:
        _SESSION.reset(token)


def current_session() -> RuleSession:
    """The session of the running pipeline; a new one outside of a pipeline."""
    return _SESSION.get() or RuleSession()


def fast_math() -> bool:
    """Whether rules may treat floats as real numbers."""
    found = _SESSION.get()
    return found is not None and found.fast_math


def control_bound(computation: Computation) -> frozenset[Instruction]:
    """Instructions with control predecessors or successors, which rewriting must not move or replace."""
    if not computation.has_control_edges:
        return frozenset()
    found: list[Instruction] = []
    for inst in computation.instructions:
        extra = inst.extra
        if extra is not NO_EXTRA and extra.control_predecessors:
            found.append(inst)
            found.extend(extra.control_predecessors)
    return frozenset(found)


def sweep(
    computation: Computation, candidates: Iterable[Instruction],
    bound: Container[Instruction] | None = None, held: Container[Instruction] = (),
    effectful: Container[Computation] | None = None,
) -> None:  # fmt: skip
    """Removes the unused instructions among `candidates`, and operands that become unused. Instructions that
    call computations are removed only if `effectful`, the computations with effects, is given and contains
    none of them. Instructions in `bound` and `held` stay; `bound` are by default those with control edges.
    """
    bound = control_bound(computation) if bound is None else bound
    stack = list(candidates)
    root = computation.root if computation.has_root else None
    while stack:
        inst = stack.pop()
        stays = inst is root or inst in bound or inst in held
        if inst.users or stays or inst not in computation.instructions:
            continue
        op = inst.op
        if op.side_effect or type(op) is Parameter:
            continue
        if op.computation_fields and (effectful is None or any(c in effectful for c in op.computations())):
            continue
        operands = inst.operands
        computation.remove(inst)
        stack.extend(operands)


def resolved(inst: Instruction, forward: dict[Instruction, Instruction]) -> Instruction:
    """Follows the replacements `forward` from an instruction to the last one. Shortens the chain for later
    look-ups.
    """
    found = forward.get(inst)
    if found is None:
        return inst
    while (further := forward.get(found)) is not None:
        found = further
    while inst is not found:
        following = forward[inst]
        forward[inst] = found
        inst = following
    return found


def replace_all(computation: Computation, forward: dict[Instruction, Instruction]) -> None:
    """Replaces each key of `forward` by its value, which may be a key too, in all users. Each user is changed
    once, so it takes linear time.
    """
    for old, new in forward.items():
        if old.shape.logical is not new.shape.logical:
            raise InternalError(f"replace {old!r} with {new!r}: shapes differ")
    for user in dict.fromkeys(u for old in forward for u in old.users):
        computation.set_operands(user, [resolved(o, forward) for o in user.operands])
    if computation.root in forward:
        computation.set_root(resolved(computation.root, forward))


def rewrite(
    module: Module, rules: Mapping[type[Op], tuple[Rule, ...]], *, is_layout_sensitive: bool = False
) -> None:
    """Applies rules to all computations of a module until no rule fires."""
    session = current_session()

    @functools.cache
    def rules_of(cls: type[Op]) -> tuple[Rule, ...]:
        families = () if is_own(cls) else dict.fromkeys(r for found in rules.values() for r in found)
        more = [r for r in families if r.family and r.family(cls)]
        found = (*rules.get(cls, ()), *more, *rules.get(Op, ()))
        return tuple(r for r in found if r.name not in session.disabled)

    session.forget()
    for computation in computations_callees_first(module):
        if computation in module.computations and not session.exhausted:
            _Rewriter(computation, rules_of, session, is_layout_sensitive).run()
    session.forget()


class _Rewriter:
    """Rewrites one computation with a worklist."""

    def __init__(self, computation: Computation, rules_of: RulesOf, session: RuleSession, sensitive: bool):
        self.computation = computation
        self.rules_of = rules_of
        self.session = session
        self.layout_sensitive = sensitive
        self.bound = control_bound(computation)
        # Replacing one operand takes time proportional to the number of operands. So users with many operands
        # (`wide`) are changed later, all their operands at once; until then `forward` maps operands to their
        # replacements, and `held` has the replacements, which must not be removed.
        self.wide: dict[Instruction, None] = {}
        self.forward: dict[Instruction, Instruction] = {}
        self.held: dict[Instruction, None] = {}
        self.dynamic = {
            i for i in computation.instructions if type(i.shape) is Shape and True in i.shape.dynamic
        }
        self.work: deque[Instruction] = deque(post_order(computation))
        self.queued: set[Instruction] = set(self.work)
        self.limit = FIRINGS_PER_INSTRUCTION * len(self.work) + FREE_FIRINGS
        self.recent: deque[str] = deque(maxlen=8)

    def run(self) -> None:
        work, queued, rules_of = self.work, self.queued, self.rules_of
        instructions = self.computation.instructions
        while work:
            inst = work.popleft()
            queued.discard(inst)
            if inst in self.wide:
                self.catch_up(inst)
            rules = rules_of(type(inst.op))
            if not rules or inst not in instructions or inst in self.bound:
                continue
            if not inst.users and inst is not self.computation.root and inst not in self.held:
                continue  # dead: rewriting it would gain nothing
            if self.dynamic and self.dynamic.intersection((inst, *inst.operands)):
                continue  # rules do not know the run-time sizes of dynamic dimensions
            for candidate in rules:
                if self.apply(candidate, inst):
                    break
            if self.session.exhausted:
                break
        for user in list(self.wide):
            self.catch_up(user)
        sweep(self.computation, self.held, self.bound)

    def catch_up(self, user: Instruction) -> None:
        """Replaces the operands of `user` that rules have replaced. For users with many operands this is done
        late, for several operands at once.
        """
        del self.wide[user]
        if user in self.computation.instructions:
            before = user.operands
            self.computation.set_operands(user, [resolved(o, self.forward) for o in before])
            self.clean(o for o in before if o in self.forward)

    def clean(self, candidates: Iterable[Instruction]) -> None:
        sweep(self.computation, candidates, self.bound, self.held)

    def apply(self, candidate: Rule, old: Instruction) -> bool:
        """Applies a rule if it matches; returns whether `old` was replaced."""
        if candidate.of is not None and not isinstance(old.operands[0].op, candidate.of):
            return False
        if candidate.where is not None and not candidate.where(old):
            return False
        computation = self.computation
        instructions = computation.instructions
        before = len(instructions)
        new = candidate.function(old, *old.operands)
        count = len(instructions) - before
        made = list(islice(reversed(instructions), count)) if count else []
        if new is None or new is old:
            if made:
                self.clean(made)
                if self.session.strict:
                    message = f"rule {candidate.name} built instructions at {old!r} but returned None"
                    raise InternalError(message)
            return False
        if not self.fits(candidate, old, new, made) or not self.session.may_fire(candidate.name, old):
            self.clean(made)
            return False
        self.describe(old, new, made)
        own = set(made)
        users = [u for u in old.users if u not in own]
        operands = old.operands
        self.replace(old, new, users)
        self.clean((old, *made))
        self.enqueue(reversed(made))
        self.enqueue((new, *users))
        self.enqueue(o for o in operands if o in instructions)
        self.recent.append(candidate.name)
        self.limit -= 1
        if self.limit < 0:
            message = f"rewriting {computation.name} does not end; the last rules: {', '.join(self.recent)}"
            raise InternalError(message)
        return True

    def replace(self, old: Instruction, new: Instruction, users: list[Instruction]) -> None:
        """Makes users of `old` use `new`; users with many operands are updated later, all operands at
        once.
        """
        wide = [u for u in users if len(u.operands) > WIDE]
        if wide or old in self.held:
            self.wide.update(dict.fromkeys(wide))
            self.forward[old] = new
            self.held.pop(old, None)
            self.held[new] = None
        self.computation.replace(old, new, [u for u in users if len(u.operands) <= WIDE] if wide else users)

    def fits(self, candidate: Rule, old: Instruction, new: Instruction, made: list[Instruction]) -> bool:
        """Whether `new` can replace the root `old`. If `new` is in `made`, the instructions that the rule has
        built, it gets the layout of `old`. Raises InternalError if the shapes differ in more than the layout.
        """
        if old.shape.logical is not new.shape.logical:
            raise InternalError(f"rule {candidate.name}: {old!r} cannot become {new!r}: shapes differ")
        if new.shape is old.shape:
            return True
        if new in made:  # built by this rule, so its layout may be changed
            self.computation.set_shape(new, old.shape)
            return True
        # An existing value in another layout may replace the root if layouts are assigned later. It may not
        # if the root is that of the computation, whose layout callers see, or if a user depends on the order
        # of bytes in memory.
        if self.layout_sensitive or old is self.computation.root:
            return False
        return not any(user.op.opcode == "bitcast" for user in old.users)

    def describe(self, old: Instruction, new: Instruction, made: list[Instruction]) -> None:
        """Gives the instructions `made` by a rule the source location of the root `old`. The replacement
        `new` also gets the root's sharding and other extra attributes.
        """
        if old.extra is NO_EXTRA:
            return
        location = Extra(location=old.extra.location)
        for inst in made:
            if inst.extra is NO_EXTRA:
                extra = (
                    replace(old.extra, control_predecessors=(), backend_config="")
                    if inst is new
                    else location
                )
                self.computation.set_extra(inst, extra)

    def enqueue(self, instructions: Iterable[Instruction]) -> None:
        for inst in instructions:
            if inst not in self.queued:
                self.queued.add(inst)
                self.work.append(inst)
