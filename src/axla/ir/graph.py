"""Ops, instructions, computations and modules, and the only code that changes them.

The four refer to each other. A function that changes one raises an error instead of breaking an invariant,
and increments `version` of the computation and the module; caches store the version that they were made for.
Objects are compared by identity. Dicts serve as sets, so that every order is deterministic.
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
    """A field of an op, with its form in texts."""

    name: str  # name of the field
    text: str  # its name in HLO text
    type: Any  # selects the codec that reads and writes it
    default: Any  # MISSING: the text must have the attribute
    always: bool  # printed even when equal to the default
    proto: str  # path of fields to it in the op's protocol buffer


OpExample = tuple[dict[str, Any], tuple[AnyShape, ...]]
"""A valid application of an op: its attributes, and the shapes of its operands."""


class Op:
    """An opcode and its attributes. The decorator `@op` makes subclasses from declarations: see the top of
    `op.py`.
    """

    __slots__ = ()

    opcode: ClassVar[str] = ""
    operand_names: ClassVar[tuple[str, ...]] = ()
    variadic: ClassVar[bool] = False  # the last operand name stands for any number of operands
    optional: ClassVar[int] = 0  # number of operands, from the end, that may be missing
    attributes: ClassVar[tuple[Attribute, ...]] = ()
    holds_shape: ClassVar[bool] = False  # the first field, `shape`, is the result shape
    computation_fields: ClassVar[tuple[str, ...]] = ()  # Computation or tuple[Computation, ...]

    __dataclass_fields__: ClassVar[dict[str, Any]]  # `@op` makes a dataclass of each subclass

    # Facts that passes read.
    elementwise: ClassVar[bool] = False  # result[i] depends on operands at [i] only
    commutative: ClassVar[bool] = False
    associative: ClassVar[bool] = False
    identity: ClassVar[Any] = None  # x op identity == x, as a Python number
    side_effect: ClassVar[bool] = False  # must not be removed, duplicated, or reordered within an `effect`
    expensive: ClassVar[bool] = False  # worth computing once rather than in every user
    transcendental: ClassVar[bool] = False  # a function whose results are approximations
    moves: ClassVar[bool] = False  # its elements are those of its operands, at other indices
    keeps_order: ClassVar[bool] = False  # its elements are those of its operand in the same row-major order
    passes_on: ClassVar[bool] = False  # its value is that of its first operand: nothing is computed
    structural: ClassVar[bool] = False  # only names values or combines them into tuples: nothing is computed
    free: ClassVar[bool] = False  # costs nothing, so that it may be computed anywhere, any number of times
    in_line: ClassVar[bool] = False  # one element can be computed by itself, where a user needs it
    updates: ClassVar[bool] = False  # its results are its first operands with elements replaced, in place
    control: ClassVar[bool] = False  # calls computations on its operands as a whole: loops, branches, calls
    reads_alike: ClassVar[bool] = False  # its operands have equal dims, and are read at the same indices
    reads_whole: ClassVar[bool] = False  # reads every element of its operands, also beyond dynamic sizes
    mixes_floats: ClassVar[bool] = False  # its operands may be floats of different types
    effect: ClassVar[str] = ""  # the kind of its side effect, if backends may not support it
    in_order: ClassVar[bool] = False  # its effect must keep its order among the effects of the program
    collective: ClassVar[CollectiveKind | None] = None  # how its results depend on operands
    message: ClassVar[str] = ""  # the message of its protocol buffer that has its attributes
    ends: ClassVar[type[Op] | None] = None  # for a done: the op that starts: copy-start for copy-done
    ended_by: ClassVar[type[Op] | None] = None  # for a start: the op that is its done; `@op` sets it
    examples: ClassVar[Sequence[OpExample]] = ()  # what `samples` returns; made by `op.example`

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the shape of the result; ShapeError for operands that the op does not accept."""
        raise InternalError(f"{self.opcode} does not declare infer")

    def reject(self, rule: str, message: str) -> NoReturn:
        """Raises ShapeError. The message begins with the opcode and ends with a label: the opcode and
        `rule`.
        """
        label = self.opcode.replace("-", "_")
        raise ShapeError(f"{self.opcode}: {message}  [{label}_{rule}]") from None

    def __call__(self, *operands: Instruction, shape: AnyShape | None = None) -> Instruction:
        """Adds an instruction that applies this op to the computation of its operands."""
        return operands[0].computation.add(self, operands, shape)

    def operations(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts operations as XLA's cost analysis does: a multiplication with an addition counts two. For an
        op that applies a computation to elements, counts the applications.
        """
        return 0

    def accessed(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts the bytes read and written: all operands and the result, or the parts of them that the op
        needs.
        """
        return 0 if self.structural else sum(shape.array_bytes for shape in (*operands, result))

    def computations(self) -> tuple[Computation, ...]:
        """The computations that this op calls, in the order of its fields."""
        found: list[Computation] = []
        for name in self.computation_fields:
            value = getattr(self, name)
            if isinstance(value, tuple):
                found.extend(value)
            elif value is not None:
                found.append(value)
        return tuple(found)

    def with_computations(self, change: Callable[[Computation], Computation]) -> Op:
        """The op with each called computation c replaced by `change(c)`."""
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
        """Valid applications (op, operand shapes), for tests, fuzzers and documentation."""
        return [(cls(**attributes), operands) for attributes, operands in cls.examples]


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The source of an instruction, which HLO text has as metadata={...}. `more` holds the entries of the
    metadata that have no field here, as text.
    """

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
    """Facts about an instruction that do not affect its value: location, sharding, attributes for frontends
    and backends, control predecessors.
    """

    location: SourceLocation | None = None
    sharding: Sharding | None = None
    frontend_attributes: tuple[tuple[str, str], ...] = ()
    backend_config: str = ""
    control_predecessors: tuple[Instruction, ...] = ()
    more: tuple[tuple[str, str], ...] = ()  # other attributes (statistics, original_value...), as text


NO_EXTRA = Extra()


def kernel_extra(inst: Instruction) -> Extra:
    """The facts that a copy of an instruction in a kernel keeps: location and backend config."""
    location, config = inst.extra.location, inst.extra.backend_config
    return Extra(location=location, backend_config=config) if location or config else NO_EXTRA


if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault  # as Python 3.13 has it

    OpT = TypeVarWithDefault("OpT", bound=Op, default=Op, covariant=True)
else:
    OpT = TypeVar("OpT")


class Instruction(Generic[OpT]):
    """An op applied to operands. Only this file assigns to its fields.

    `Instruction[Gather]` is the type of instructions whose op is a gather, `Instruction` that of any
    instruction.
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
        """The opcode of the op, as HLO text has it."""
        return self.op.opcode

    def __repr__(self) -> str:
        operands = ", ".join(f"%{o.name}" for o in self.operands)
        return f"%{self.name} = {self.shape.to_string(layout=False)} {self.op.opcode}({operands})"


class Computation:
    """A function: parameters, instructions, and a root. `Module.add_computation` creates it."""

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
    has_control_edges: bool  # whether an instruction has, or once had, control predecessors
    facts: dict[Hashable, tuple[int, Any]]  # results of analyses and the version they were made for (`fact`)

    def fact(self, name: Hashable, find: Callable[[Computation], Any]) -> Any:
        """The result of `find` for the computation, cached under `name` until the computation changes."""
        found = self.facts.get(name)
        if found is None or found[0] != self.version:
            found = self.facts[name] = (self.version, find(self))
        return found[1]

    @property
    def root(self) -> Instruction:
        """The instruction whose value the computation returns; InternalError if none has been set."""
        if self._root is None:
            raise InternalError(f"computation {self.name} has no root")
        return self._root

    @property
    def has_root(self) -> bool:
        """Whether a root has been set; none is set while instructions are being added."""
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
        """Adds a new instruction. Without `shape`, the op infers the shape and checks the operands.

        The name is `name`, or else generated: `stem`, by default the opcode, with a number. `extra` has facts
        that do not affect the value.
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
            # A text may have parameters in any order; gaps in the numbers are an error that the verifier
            # reports.
            insort(self.parameters, inst, key=lambda p: p.op.parameter_number)  # type: ignore[attr-defined]
        self._changed(structure=True)
        return inst

    def set_root(self, root: Instruction) -> None:
        """Makes `root`, an instruction of this computation, its root."""
        if root.computation is not self:
            message = f"root {root!r} belongs to computation {root.computation.name}, not {self.name}"
            raise InternalError(message)
        self._root = root
        self._changed(structure=True)

    def set_operand(self, user: Instruction, number: int, new: Instruction) -> None:
        """Makes `new` operand number `number` of `user`."""
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
        """Replaces all operands of `user`; their number may change, if `set_op` then sets an op that takes
        that number.
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
        """Replaces the op of `inst`, and its shape if one is given; the operands stay."""
        inst.op = op
        if shape is not None:
            inst.shape = shape
        self._changed(structure=True)

    def set_shape(self, inst: Instruction, shape: AnyShape) -> None:
        """Changes the layout of an instruction's shape, or its sizes if the op has a field `shape`."""
        inst.shape = shape
        if inst.op.holds_shape:
            inst.op = replace(inst.op, shape=shape)
        self._changed(structure=False)

    def set_extra(self, inst: Instruction, extra: Extra) -> None:
        """Replaces the facts about an instruction that do not affect its value: sharding, location, control
        predecessors...
        """
        inst.extra = extra
        self.has_control_edges |= bool(extra.control_predecessors)
        self._changed(structure=True)

    def set_own_extra(self, extra: Extra) -> None:
        """Replaces the attributes of the computation itself, such as its execution thread."""
        self.extra = extra
        self._changed(structure=False)

    def replace(self, old: Instruction, new: Instruction, users: Iterable[Instruction] | None = None) -> None:
        """Makes `users` of `old` (by default all, except `new` itself) use `new` instead. If `old` is the
        root, `new` becomes the root.

        The shapes must agree up to layout. A rewrite passes the users that `old` had before `new` was built,
        so that `x => f(g(x))` makes no cycle.
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
        """Removes an instruction that has no users and is not the root."""
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
        """Changes the order in which the instructions are listed, which does not affect values."""
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
    """Says that leaf `output` of the result may (or must) share memory with leaf `index` of a parameter."""

    output: tuple[int, ...]
    parameter: int
    index: tuple[int, ...]
    must: bool = False


@dataclass(frozen=True, slots=True)
class ModuleConfig:
    """The attributes in the header of a module. `more` holds the attributes that have no field here, as text,
    in order.
    """

    entry_layout: ProgramShape | None = None  # entry_computation_layout, if the text has it
    is_scheduled: bool = False
    aliases: tuple[Alias, ...] = ()
    buffer_donors: tuple[tuple[int, tuple[int, ...]], ...] = ()
    replica_count: int = 1
    num_partitions: int = 1
    frontend_attributes: tuple[tuple[str, str], ...] = ()
    more: tuple[tuple[str, str], ...] = field(default=())


class Module:
    """A program: computations, one of which is the entry. Only one thread at a time may use it."""

    __slots__ = (
        "name", "computations", "_entry", "config", "schedule", "version", "cached_order",
        "file", "lines", "_ids", "_instruction_names", "_computation_names", "__weakref__",
    )  # fmt: skip

    name: str
    file: str  # the file from which it was parsed, or ""
    lines: dict[int, int]  # instruction id -> its line in the text that was parsed
    computations: dict[Computation, None]
    config: ModuleConfig
    schedule: dict[Computation, tuple[Instruction, ...]] | None
    version: int
    printer: ClassVar[Callable[..., str]]  # the function `print_module`, which axla.text assigns

    def __init__(self, name: str, config: ModuleConfig | None = None):
        self.name = name
        self.computations = {}
        self._entry: Computation | None = None
        self.config = config or ModuleConfig()
        self.schedule = None
        self.version = 0
        self.cached_order: tuple[int, tuple[Computation, ...]] = (-1, ())  # a version and its callees first
        self.file = ""
        self.lines = {}
        self._ids = 0
        self._instruction_names = NameTable()
        self._computation_names = NameTable()

    @property
    def entry(self) -> Computation:
        """The computation with which a run begins; InternalError if none has been set."""
        if self._entry is None:
            raise InternalError(f"module {self.name} has no entry computation")
        return self._entry

    @property
    def has_entry(self) -> bool:
        """Whether an entry has been set; none is set while computations are being added."""
        return self._entry is not None

    def add_computation(self, name: str, *, entry: bool = False) -> Computation:
        """Adds a new, empty computation, as the entry if `entry`. Its name is `name`, with a number if that
        is in use.
        """
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
        """Removes a computation. The caller must make sure that no instruction calls it."""
        if computation is self._entry:
            raise InternalError(f"remove the entry computation {computation.name}")
        del self.computations[computation]
        if self.schedule is not None:
            self.schedule.pop(computation, None)
        self.version += 1

    def rename(
        self, instructions: Sequence[tuple[Instruction, str]], computations: Sequence[tuple[Computation, str]]
    ) -> None:
        """Renames the given instructions and computations. A name that is in use gets a number, as if the
        instructions and computations had been added in the given order.
        """
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
        """Replaces attributes in the header of the module."""
        self.config = replace(self.config, **changes)
        self.version += 1

    def set_schedule(self, schedule: dict[Computation, tuple[Instruction, ...]] | None) -> None:
        """Sets the schedule of each computation, the order in which its instructions run, or removes all with
        None.
        """
        self.schedule = schedule
        self.version += 1

    def order_computations(self, key: Callable[[Computation], Any]) -> None:
        """Sorts the computations by `key`. Passes and the text then use this order."""
        self.computations = dict.fromkeys(sorted(self.computations, key=key))
        self.version += 1

    def to_string(self, **options: Any) -> str:
        """The module as HLO text, as XLA prints it."""
        return Module.printer(self, **options)

    def _repr_html_(self) -> str | None:
        return notebook.html(self)

    def _new_id(self) -> int:
        self._ids += 1
        return self._ids

    def __repr__(self) -> str:
        return f"<module {self.name}: {len(self.computations)} computations>"
