"""Ops, instructions, computations, modules, and the only code that changes them.

The four refer to each other. Every mutator raises when it would break an invariant, and bumps `version` of
computation and module; caches remember the version they were made for. Nodes are compared by identity. Sets
are dicts, so that every order is deterministic.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar

from axla.core import notebook
from axla.core.dataclass import dataclass
from axla.core.errors import InternalError, ShapeError
from axla.core.shape import AnyShape, ProgramShape
from axla.ir.collectives import CollectiveKind
from axla.ir.names import NameTable
from axla.ir.sharding import Sharding


@dataclass(frozen=True, slots=True)
class Attribute:
    """A field of an op in its text form."""

    name: str  # the field
    text: str  # its name in HLO text
    type: Any  # picks the codec
    default: Any  # MISSING: must be given
    always: bool  # printed even when equal to the default
    proto: str  # where it is in the op's proto, a path of fields


OpExample = tuple[dict[str, Any], tuple[AnyShape, ...]]
"""A valid application of an op: attributes, and shapes of the operands."""


class Op:
    """An opcode and its attributes. Subclasses are declarations, made by `@op`: see the top of `op.py`."""

    __slots__ = ()

    opcode: ClassVar[str] = ""
    operand_names: ClassVar[tuple[str, ...]] = ()
    variadic: ClassVar[bool] = False  # the last operand name stands for any number
    optional: ClassVar[int] = 0  # how many of the last operands may be missing
    attributes: ClassVar[tuple[Attribute, ...]] = ()
    holds_shape: ClassVar[bool] = False  # the first field is the result shape
    computation_fields: ClassVar[tuple[str, ...]] = ()  # of type Computation or tuple[Computation, ...]

    __dataclass_fields__: ClassVar[dict[str, Any]]  # what `@op` makes of a subclass

    # Facts that passes read.
    elementwise: ClassVar[bool] = False  # result[i] depends on operands at [i] only
    commutative: ClassVar[bool] = False
    associative: ClassVar[bool] = False
    identity: ClassVar[Any] = None  # x op identity == x, as a Python number
    side_effect: ClassVar[bool] = False  # must not be removed, duplicated or reordered with its like
    expensive: ClassVar[bool] = False  # worth computing once rather than in every user
    transcendental: ClassVar[bool] = False  # a function whose results are approximations
    moves: ClassVar[bool] = False  # its elements are its operands', in other places
    keeps_order: ClassVar[bool] = False  # and in row-major order the same ones as its operand's
    passes_on: ClassVar[bool] = False  # its value is that of its first operand: nothing is computed
    structural: ClassVar[bool] = False  # names values or puts them together: nothing is computed
    free: ClassVar[bool] = False  # costs nothing, wherever and how often it is computed
    in_line: ClassVar[bool] = False  # one element of it can be computed where it is needed
    updates: ClassVar[bool] = False  # its results are its first operands with some elements changed, in place
    control: ClassVar[bool] = False  # runs the computations that it calls, on what they are called with
    reads_alike: ClassVar[bool] = False  # its arrays are of one size, and read at the same places
    reads_whole: ClassVar[bool] = False  # every element of its operands must be there
    mixes_floats: ClassVar[bool] = False  # its operands may be floats of different types
    effect: ClassVar[str] = ""  # the kind of its side effect, where backends may lack that
    in_order: ClassVar[bool] = False  # its effect is one of those that happen in one order
    collective: ClassVar[CollectiveKind | None] = (
        None  # what members of a group get of it, or of what it begins
    )
    message: ClassVar[str] = ""  # the part of its proto where attributes are looked for first
    ends: ClassVar[type[Op] | None] = None  # the op that begins what this one ends: copy-start for copy-done
    ended_by: ClassVar[type[Op] | None] = None  # the other way round; `@op` sets it
    examples: ClassVar[Sequence[OpExample]] = ()  # what `samples` gives: `op.example` makes them

    def infer(self, *operands: AnyShape) -> AnyShape:
        """The result shape; raises ShapeError for operands that the op does not accept."""
        raise InternalError(f"{self.opcode} does not declare infer")

    def reject(self, rule: str, message: str) -> NoReturn:
        """Raises ShapeError that begins with the opcode; the constraint's label is opcode and `rule`."""
        label = self.opcode.replace("-", "_")
        raise ShapeError(f"{self.opcode}: {message}  [{label}_{rule}]") from None

    def __call__(self, *operands: Instruction, shape: AnyShape | None = None) -> Instruction:
        """Adds an instruction that applies this op, in the computation of its operands."""
        return operands[0].computation.add(self, operands, shape)

    def operations(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """The number of operations, by the conventions of XLA's cost analysis: a product that is added counts
        two. For an op that applies a computation to elements: how often it does.
        """
        return 0

    def accessed(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """The number of bytes read and written: all operands and the result, or the parts that are needed."""
        return 0 if self.structural else sum(shape.array_bytes for shape in (*operands, result))

    def computations(self) -> tuple[Computation, ...]:
        """The computations this op calls, in the order of its fields."""
        found: list[Computation] = []
        for name in self.computation_fields:
            value = getattr(self, name)
            if isinstance(value, tuple):
                found.extend(value)
            elif value is not None:
                found.append(value)
        return tuple(found)

    def with_computations(self, change: Callable[[Computation], Computation]) -> Op:
        """The same op with `change(c)` in place of every called computation c."""
        new: dict[str, Any] = {}
        for name in self.computation_fields:
            value = getattr(self, name)
            if isinstance(value, tuple):
                new[name] = tuple(map(change, value))
            elif value is not None:
                new[name] = change(value)
        return replace(self, **new) if new else self

    @classmethod
    def samples(cls) -> list[tuple[Op, tuple[AnyShape, ...]]]:
        """Valid applications, for tests, fuzzers and docs: (op value, operand shapes)."""
        return [(cls(**attributes), operands) for attributes, operands in cls.examples]


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The origin of an instruction: HLO's metadata={...}. `more` keeps other entries as text."""

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    more: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        place = f"{self.source_file}:{self.source_line}" if self.source_file else ""
        return ", in ".join(part for part in (place, self.op_name) if part)


@dataclass(frozen=True, slots=True)
class Extra:
    """Optional facts of an instruction besides op and operands. None of them affects values."""

    location: SourceLocation | None = None
    sharding: Sharding | None = None
    frontend_attributes: tuple[tuple[str, str], ...] = ()
    backend_config: str = ""
    control_predecessors: tuple[Instruction, ...] = ()
    more: tuple[tuple[str, str], ...] = ()  # other attributes (statistics, original_value...), as text


NO_EXTRA = Extra()


def kernel_extra(inst: Instruction) -> Extra:
    """The facts that the copy of an instruction in a kernel keeps: location and backend config."""
    location, config = inst.extra.location, inst.extra.backend_config
    return Extra(location=location, backend_config=config) if location or config else NO_EXTRA


if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault  # as Python 3.13 has it

    OpT = TypeVarWithDefault("OpT", bound=Op, default=Op, covariant=True)
else:
    OpT = TypeVar("OpT")


class Instruction(Generic[OpT]):
    """An op applied to operands. Fields are assigned in this file only.

    `Instruction[Gather]` is one whose op is known to be a gather, `Instruction` one of any op.
    """

    __slots__ = ("op", "operands", "shape", "users", "computation", "id", "name", "extra", "__weakref__")

    op: OpT
    operands: tuple[Instruction, ...]
    shape: AnyShape
    users: dict[Instruction, None]
    computation: Computation
    id: int
    name: str
    extra: Extra

    @property
    def opcode(self) -> str:
        """The name of the op in HLO text."""
        return self.op.opcode

    def __repr__(self) -> str:
        operands = ", ".join(f"%{o.name}" for o in self.operands)
        return f"%{self.name} = {self.shape.to_string(layout=False)} {self.op.opcode}({operands})"


class Computation:
    """A function: parameters, instructions, a root. Created by `Module.add_computation`."""

    __slots__ = (
        "module", "name", "id", "instructions", "parameters", "_root", "version", "extra",
        "has_control_edges", "cached_order", "cached_order_version", "facts", "__weakref__",
    )  # fmt: skip

    module: Module
    name: str
    id: int
    instructions: dict[Instruction, None]
    parameters: list[Instruction]
    _root: Instruction | None
    version: int
    extra: Extra
    has_control_edges: bool  # there are some, or have been
    facts: dict[Hashable, tuple[int, Any]]  # what analyses found, with the version they found it for (`fact`)

    def fact(self, name: Hashable, find: Callable[[Computation], Any]) -> Any:
        """The result of `find` for the computation, cached until the computation changes."""
        found = self.facts.get(name)
        if found is None or found[0] != self.version:
            found = self.facts[name] = (self.version, find(self))
        return found[1]

    @property
    def root(self) -> Instruction:
        """The instruction whose value is returned; InternalError while none is set."""
        if self._root is None:
            raise InternalError(f"computation {self.name} has no root")
        return self._root

    @property
    def has_root(self) -> bool:
        """Whether the root is set: it is not while instructions are being added."""
        return self._root is not None

    @property
    def program_shape(self) -> ProgramShape:
        """The shapes and names of the parameters, and the shape of the result."""
        parameters = self.parameters
        return ProgramShape(
            tuple(p.shape for p in parameters), self.root.shape, tuple(p.name for p in parameters)
        )

    def add(
        self, op: Op, operands: Sequence[Instruction] = (), shape: AnyShape | None = None, *,
        name: str = "", stem: str = "", extra: Extra = NO_EXTRA,
    ) -> Instruction:  # fmt: skip
        """Adds a new instruction. Without `shape` the shape is inferred (and the operands checked).

        It is named `name`; by default a name is generated from `stem`, or the opcode, with a number.
        """
        operands = tuple(operands)
        for operand in operands:
            if operand.computation is not self:
                raise InternalError(
                    f"{op.opcode}: operand {operand!r} belongs to computation {operand.computation.name}"
                )
        if shape is None:
            shape = op.infer(*[o.shape for o in operands])
        inst = Instruction()
        inst.op = op
        inst.operands = operands
        inst.shape = shape
        inst.users = {}
        inst.computation = self
        inst.extra = extra
        self.has_control_edges |= extra is not NO_EXTRA and bool(extra.control_predecessors)
        module = self.module
        inst.id = module._new_id()
        inst.name = (
            module._instruction_names.claim(name)
            if name
            else module._instruction_names.fresh(stem or op.opcode)
        )
        for operand in operands:
            operand.users[inst] = None
        self.instructions[inst] = None
        if getattr(op, "parameter_number", None) is not None:
            # Parameters may come in any order in a text; gaps are an error that the verifier reports.
            insort(self.parameters, inst, key=lambda p: p.op.parameter_number)  # type: ignore[attr-defined]
        self._changed(structure=True)
        return inst

    def set_root(self, root: Instruction) -> None:
        """Makes an instruction of this computation its root."""
        if root.computation is not self:
            message = f"root {root!r} belongs to computation {root.computation.name}, not {self.name}"
            raise InternalError(message)
        self._root = root
        self._changed(structure=True)

    def set_operand(self, user: Instruction, number: int, new: Instruction) -> None:
        """Makes `new` operand `number` of `user`."""
        if new.computation is not self or user.computation is not self:
            raise InternalError(f"set_operand: {new!r} and {user!r} are not both in {self.name}")
        old = user.operands[number]
        if old is new:
            return
        user.operands = (*user.operands[:number], new, *user.operands[number + 1 :])
        if old not in user.operands:
            del old.users[user]
        new.users[user] = None
        self._changed(structure=True)

    def set_operands(self, user: Instruction, operands: Sequence[Instruction]) -> None:
        """Replaces all operands of `user`, whose number may change (with `set_op`, for called computations
        with other parameters).
        """
        for operand in operands:
            if operand.computation is not self:
                raise InternalError(f"set_operands: {operand!r} is not in {self.name}")
        for operand in user.operands:
            operand.users.pop(user, None)
        user.operands = tuple(operands)
        for operand in user.operands:
            operand.users[user] = None
        self._changed(structure=True)

    def set_op(self, inst: Instruction, op: Op, shape: AnyShape | None = None) -> None:
        """Gives `inst` another op value (and shape) with the same operands."""
        inst.op = op
        if shape is not None:
            inst.shape = shape
        self._changed(structure=True)

    def set_shape(self, inst: Instruction, shape: AnyShape) -> None:
        """Changes the layout of an instruction's shape, or its sizes if the op holds the shape."""
        inst.shape = shape
        if inst.op.holds_shape:
            inst.op = replace(inst.op, shape=shape)
        self._changed(structure=False)

    def set_extra(self, inst: Instruction, extra: Extra) -> None:
        """Replaces sharding, location, control predecessors and the like of an instruction."""
        inst.extra = extra
        self.has_control_edges |= bool(extra.control_predecessors)
        self._changed(structure=True)

    def set_own_extra(self, extra: Extra) -> None:
        """Changes the attributes of the computation itself (its execution thread)."""
        self.extra = extra
        self._changed(structure=False)

    def replace(self, old: Instruction, new: Instruction, users: Iterable[Instruction] | None = None) -> None:
        """Redirects users of `old` to `new`: those given (all by default, but not `new` itself), and the
        root.

        Shapes must agree up to layout. A rewrite passes the users that `old` had before `new` was built, so
        that `x => f(g(x))` makes no cycle.
        """
        if old.shape.logical is not new.shape.logical:
            raise InternalError(f"replace {old!r} with {new!r}: shapes differ")
        if new is old:
            return
        for user in list(old.users if users is None else users):
            if user is new:
                continue
            user.operands = tuple(new if o is old else o for o in user.operands)
            old.users.pop(user, None)
            new.users[user] = None
        if self._root is old:
            self._root = new
        self._changed(structure=True)

    def remove(self, inst: Instruction) -> None:
        """Removes an instruction without users."""
        if inst.users or inst is self._root:
            raise InternalError(f"remove {inst!r}: it is still used")
        for operand in inst.operands:
            operand.users.pop(inst, None)
        inst.operands = ()
        del self.instructions[inst]
        if getattr(inst.op, "parameter_number", None) is not None:
            self.parameters.remove(inst)
        self._changed(structure=True)

    def reorder(self, order: Sequence[Instruction]) -> None:
        """Changes the order in which the same instructions are listed; values do not depend on it."""
        if len(order) != len(self.instructions) or any(i not in self.instructions for i in order):
            raise InternalError(f"reorder {self.name}: not a permutation of its instructions")
        self.instructions = dict.fromkeys(order)
        self.cached_order_version = -1
        self.module.cached_order = (-1, ())

    def _changed(self, *, structure: bool) -> None:
        self.version += 1
        module = self.module
        module.version += 1
        if structure and module.schedule is not None:
            module.schedule.pop(self, None)

    def __repr__(self) -> str:
        return f"<computation {self.name}: {len(self.instructions)} instructions>"


@dataclass(frozen=True, slots=True)
class Alias:
    """Result leaf `output` may (or must) share memory with leaf `index` of parameter `parameter`."""

    output: tuple[int, ...]
    parameter: int
    index: tuple[int, ...]
    must: bool = False


@dataclass(frozen=True, slots=True)
class ModuleConfig:
    """The attributes of a module's header. `more` keeps others as text, in order."""

    entry_layout: ProgramShape | None = None  # entry_computation_layout, where it was written
    is_scheduled: bool = False
    aliases: tuple[Alias, ...] = ()
    buffer_donors: tuple[tuple[int, tuple[int, ...]], ...] = ()
    replica_count: int = 1
    num_partitions: int = 1
    frontend_attributes: tuple[tuple[str, str], ...] = ()
    more: tuple[tuple[str, str], ...] = field(default=())


class Module:
    """A program: computations, one of which is the entry. One thread at a time may use it."""

    __slots__ = (
        "name", "computations", "_entry", "config", "schedule", "version", "cached_order",
        "file", "lines", "_ids", "_instruction_names", "_computation_names", "__weakref__",
    )  # fmt: skip

    name: str
    file: str  # that was parsed, or ""
    lines: dict[int, int]  # in the text that was parsed, of instructions, by their ids
    computations: dict[Computation, None]
    config: ModuleConfig
    schedule: dict[Computation, tuple[Instruction, ...]] | None
    version: int
    printer: ClassVar[Callable[..., str]]  # `print_module`: axla.text puts it here

    def __init__(self, name: str, config: ModuleConfig | None = None):
        self.name = name
        self.computations = {}
        self._entry: Computation | None = None
        self.config = config or ModuleConfig()
        self.schedule = None
        self.version = 0
        self.cached_order: tuple[int, tuple[Computation, ...]] = (-1, ())  # a version, its callees first
        self.file = ""
        self.lines = {}
        self._ids = 0
        self._instruction_names = NameTable()
        self._computation_names = NameTable()

    @property
    def entry(self) -> Computation:
        """The computation that a run begins with; InternalError while none is set."""
        if self._entry is None:
            raise InternalError(f"module {self.name} has no entry computation")
        return self._entry

    @property
    def has_entry(self) -> bool:
        """Whether the entry is set: it is not while computations are being added."""
        return self._entry is not None

    def add_computation(self, name: str, *, entry: bool = False) -> Computation:
        """Adds a new, empty computation with a unique name."""
        computation = Computation()
        computation.module = self
        computation.name = self._computation_names.claim(name)
        computation.id = self._new_id()
        computation.instructions = {}
        computation.parameters = []
        computation._root = None
        computation.version = 0
        computation.extra = NO_EXTRA
        computation.has_control_edges = False
        computation.cached_order = ()
        computation.cached_order_version = -1
        computation.facts = {}
        self.computations[computation] = None
        self.version += 1
        if entry:
            self._entry = computation
        return computation

    def set_entry(self, computation: Computation) -> None:
        """Makes a computation of this module its entry."""
        if computation.module is not self:
            raise InternalError(f"entry {computation.name} belongs to another module")
        self._entry = computation
        self.version += 1

    def remove_computation(self, computation: Computation) -> None:
        """Removes a computation that nothing calls; the caller must make sure of that (dead code elimination
        counts callers).
        """
        if computation is self._entry:
            raise InternalError(f"remove the entry computation {computation.name}")
        del self.computations[computation]
        if self.schedule is not None:
            self.schedule.pop(computation, None)
        self.version += 1

    def rename(
        self, instructions: Sequence[tuple[Instruction, str]], computations: Sequence[tuple[Computation, str]]
    ) -> None:
        """Assigns these names, as far as they are free, as if everything had been added in this order."""
        for names, wanted in (
            (self._instruction_names, instructions),
            (self._computation_names, computations),
        ):
            for named, _ in wanted:
                names.release(named.name)
            for named, name in wanted:
                named.name = names.claim(name)
        self.version += 1

    def set_config(self, **changes: Any) -> None:
        """Changes attributes of the module's header."""
        self.config = replace(self.config, **changes)
        self.version += 1

    def set_schedule(self, schedule: dict[Computation, tuple[Instruction, ...]] | None) -> None:
        """Sets the order in which instructions run, by computation, or drops it."""
        self.schedule = schedule
        self.version += 1

    def order_computations(self, key: Callable[[Computation], Any]) -> None:
        """Sorts the computations by a key, for passes and for the text."""
        self.computations = dict.fromkeys(sorted(self.computations, key=key))
        self.version += 1

    def to_string(self, **options: Any) -> str:
        """HLO text, as XLA prints it."""
        return Module.printer(self, **options)

    def _repr_html_(self) -> str | None:
        return notebook.html(self)

    def _new_id(self) -> int:
        self._ids += 1
        return self._ids

    def __repr__(self) -> str:
        return f"<module {self.name}: {len(self.computations)} computations>"
