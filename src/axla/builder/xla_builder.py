"""`XlaBuilder` collects the ops of one computation; `XlaOp` is a value in it.

Every op is checked when it is added. A mistake raises an error with the line of the user's program, which is
also stored as metadata of the instruction. `build` returns the finished module and leaves the builder empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

from axla.builder.computation import XlaComputation, computation_of
from axla.builder.metadata import OpMetadata, location, user_line, user_place
from axla.builder.operators import Operators
from axla.builder.subgraph import constant_module, why_not_constant
from axla.builder.values import element_type, instance, integer, integers, items, text
from axla.core.dtypes import DType
from axla.core.errors import InvalidArgument, ShapeError
from axla.core.literal import Literal
from axla.core.regex import regex
from axla.core.shape import AnyShape, ProgramShape
from axla.core.shape_util import subshape
from axla.hlo.family import show
from axla.ir.clone import called_first, clone_computation
from axla.ir.graph import NO_EXTRA, Alias, Computation, Extra, Instruction, Module
from axla.ir.op import Op
from axla.ir.sharding import Sharding
from axla.ir.structure import Constant, Parameter
from axla.text.sharding import read_sharding

_NOT_A_NAME = regex(r"[^A-Za-z0-9_.\-]")


def _is_transferred(op: Op) -> bool:
    """Whether an op begins a transfer: an infeed, outfeed, send or recv, but not the `done` op of one."""
    return op.effect in ("infeed", "outfeed", "transfers") and op.ended_by is None


class XlaOp(Operators):
    """A value of the computation that `builder` builds. Python's operators for it are in `Operators`."""

    __slots__ = ("builder", "instruction")

    builder: XlaBuilder
    instruction: Instruction

    def __init__(self, builder: XlaBuilder, instruction: Instruction) -> None:
        self.builder = builder
        self.instruction = instruction

    @property
    def shape(self) -> AnyShape:
        """The shape of the value: an array shape, tuple shape or token."""
        return self.instruction.shape

    def __repr__(self) -> str:
        return f"XlaOp({self.instruction!r})"


class XlaBuilder:
    """Builds a computation op by op. A sub-builder builds a computation that ops of its parent can call.

    Only one thread at a time may use a builder.
    """

    def __init__(self, name: str, parent: XlaBuilder | None = None) -> None:
        self.name = text(name, "XlaBuilder: name")
        self.parent = parent
        self._metadata: OpMetadata | None = None
        self._next_metadata: OpMetadata | None = None
        self._sharding: Sharding | None = None
        self._frontend_attributes: tuple[tuple[str, str], ...] = ()
        self._extras: dict[tuple[str, int], Extra] = {}
        self._start()

    def _start(self) -> None:
        identifier = identifier_of(self.name)
        self._module = Module(identifier)
        self._entry = self._module.add_computation(identifier, entry=True)
        self._last: Instruction | None = None
        self._parameters: dict[int, Instruction] = {}
        self._embedded: dict[Computation, Computation] = {}
        self._transfers: list[Instruction] = []
        self._transferring: set[Computation] = set()
        self._aliases: list[Alias] = []
        self._donors: list[tuple[int, tuple[int, ...]]] = []

    # Adding ops.

    def add(
        self, op: Op, operands: Sequence[XlaOp] = (), *, shape: AnyShape | None = None, name: str = "",
        backend_config: str = "", after: Sequence[Instruction] = (),
    ) -> XlaOp:  # fmt: skip
        """Adds `op` and returns its value. Raises ShapeError if the op does not accept the operands. It runs
        after the instructions `after` and, if it calls a computation with transfers, after all earlier
        transfers.
        """
        instance(Op, op, "add: op")
        instructions = []
        for operand in items(operands, op.opcode):
            inst = _op(operand, op.opcode).instruction
            if operand.builder is not self or inst.computation is not self._entry:
                self._foreign(op.opcode, operand)
            instructions.append(inst)
        try:
            if shape is None:
                shape = op.infer(*[i.shape for i in instructions])
        except ShapeError as error:
            self.fail(op.opcode, operands, error.message)
        extra = self._extra()
        if backend_config:
            extra = replace(extra, backend_config=backend_config)
        transferring = any(called in self._transferring for called in op.computations())
        if transferring:
            after = self.take_transfers()
        if after:
            extra = replace(extra, control_predecessors=tuple(after))
        inst = self._entry.add(op, instructions, shape, name=name, extra=extra)
        if transferring or _is_transferred(op):
            self._transfers.append(inst)
        self._last = inst
        return XlaOp(self, inst)

    def take_transfers(self) -> list[Instruction]:
        """Returns the transfers, and calls of computations with transfers, that no later instruction depends
        on. The next transfer will depend on them, so they are no longer listed.
        """
        found, self._transfers = self._transfers, []
        return found

    def _foreign(self, opcode: str, operand: XlaOp) -> NoReturn:
        if operand.builder is self:
            raise InvalidArgument(
                f"{opcode}: operand {operand.instruction!r} belongs to a computation that builder "
                f"'{self.name}' "
                "has finished: its values cannot be used after build()"
            )
        raise InvalidArgument(
            f"{opcode}: operand {operand.instruction!r} belongs to builder '{operand.builder.name}', "
            f"wanted one of builder '{self.name}'"
        )

    def fail(self, what: str, operands: Sequence[XlaOp], message: str) -> NoReturn:
        """Raises ShapeError about the op `what`, with its operands and the line of the user's program."""
        listed = ", ".join(f"{show(o.shape)} %{o.instruction.name}" for o in operands)
        place = user_place()
        raise ShapeError(f"{what}({listed})\n  {message}" + (f"\n  at {place}" if place else "")) from None

    @contextmanager
    def keeping_result(self) -> Iterator[None]:
        """A context manager: instructions added inside do not become the result of the computation."""
        last = self._last
        yield
        self._last = last

    @contextmanager
    def checking(self, what: str, operands: Sequence[XlaOp]) -> Iterator[None]:
        """A context manager that adds the operands and the user's line to a ShapeError raised inside. `what`
        is the op.
        """
        try:
            yield
        except ShapeError as error:
            self.fail(what, operands, error.message)

    def _extra(self) -> Extra:
        key = user_line()
        if self._next_metadata is not None:
            extra = self._new_extra(self._next_metadata, *key)
            self._next_metadata = None
            return extra
        extra = self._extras.get(key, NO_EXTRA)
        if extra is NO_EXTRA:
            extra = self._extras[key] = self._new_extra(self._metadata, *key)
        return extra

    def _new_extra(self, metadata: OpMetadata | None, file: str, line: int) -> Extra:
        return Extra(location(metadata, file, line), self._sharding, self._frontend_attributes)

    def parameter(self, number: int, shape: AnyShape, name: str = "") -> XlaOp:
        """Adds parameter `number` of the computation."""
        number = integer(number, "parameter: number")
        name = text(name, f"parameter {number}: name")
        if number < 0:
            raise InvalidArgument(f"parameter: found the number {number}, wanted at least 0")
        if number in self._parameters:
            raise InvalidArgument(
                f"parameter: number {number} of builder '{self.name}' is already {self._parameters[number]!r}"
            )
        instance(AnyShape, shape, f"parameter {number}", "a shape")
        op = self.add(Parameter(shape, number), shape=shape, name=identifier_of(name) if name else "")
        self._parameters[number] = op.instruction
        return op

    def constant(self, value: object, dtype: DType | None = None) -> XlaOp:
        """Adds a constant: an array Literal, or any value that NumPy converts to an array. Tuple literals are
        refused.
        """
        try:
            literal = Literal.of(value, None if dtype is None else element_type(dtype, "constant: dtype"))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgument(f"constant: {error}") from None
        if literal.shape.is_tuple:
            message = "constant: found a tuple literal, wanted an array; make a Tuple of constants"
            raise InvalidArgument(message)
        return self.add(Constant(literal.shape, literal), shape=literal.shape)

    def callee(self, computation: object, what: str) -> Computation:
        """Copies a built computation into the module of this builder, unless it was copied before, and
        returns the copy. `what` names the argument in messages.
        """
        source = computation_of(computation, what)
        if source not in self._embedded:
            self._embedded[source] = clone_computation(source, self._module, mapping=self._embedded)
            inside = (i.op for c in called_first(source) for i in c.instructions)
            if any(_is_transferred(op) for op in inside):
                self._transferring.add(self._embedded[source])
        return self._embedded[source]

    # Properties of values and of the computation.

    def get_shape(self, op: XlaOp) -> AnyShape:
        """Returns the shape of a value of this builder."""
        return _op(op, "get_shape").shape

    def get_program_shape(self, root: XlaOp | None = None) -> ProgramShape:
        """The shapes of the parameters, and of the result of `build(root)`."""
        parameters = self._contiguous_parameters()
        shapes = tuple(p.shape for p in parameters)
        return ProgramShape(shapes, self._root(root).shape, tuple(p.name for p in parameters))

    def is_constant(self, op: XlaOp, random: bool = False) -> bool:
        """Whether a value depends on neither parameters nor ops with side effects. If `random`, the op `rng`
        is allowed.
        """
        return why_not_constant(_op(op, "is_constant").instruction, random) is None

    def build_constant_subgraph(self, op: XlaOp, random: bool = False) -> XlaComputation:
        """The program that computes a constant value; InvalidArgument if `op` is not constant. If `random`,
        the op `rng` is allowed.
        """
        reason = why_not_constant(_op(op, "build_constant_subgraph").instruction, random)
        if reason is not None:
            raise InvalidArgument(f"{op.instruction!r} is not a constant: it depends on {reason!r}")
        return XlaComputation(constant_module(op.instruction, f"{identifier_of(self.name)}_constant"))

    # Metadata, sharding and attributes of the next ops.

    def set_op_metadata(self, metadata: OpMetadata) -> None:
        """Sets the metadata of the ops added from now on. If it has no source line, the caller's line is
        used.
        """
        self._metadata = instance(OpMetadata, metadata, "set_op_metadata")
        self._extras.clear()

    def set_one_shot_op_metadata(self, metadata: OpMetadata) -> None:
        """Sets the metadata of the next op only."""
        self._next_metadata = instance(OpMetadata, metadata, "set_one_shot_op_metadata")

    def clear_op_metadata(self) -> None:
        """Ends the effect of `set_op_metadata`: ops added from now on have only their source line."""
        self._metadata = None
        self._extras.clear()

    def set_sharding(self, sharding: object) -> None:
        """Sets the sharding of the ops added from now on. `sharding` is HLO text, as inside sharding={...}.
        InvalidArgument if it is invalid.
        """
        self._sharding = read_sharding(str(sharding).strip().removeprefix("{").removesuffix("}"))
        self._extras.clear()

    def clear_sharding(self) -> None:
        """Ends the effect of `set_sharding` for ops added from now on."""
        self._sharding = None
        self._extras.clear()

    @property
    def sharding(self) -> str:
        """The sharding given to ops that are added, as HLO text; "" for none."""
        return str(self._sharding or "")

    def set_frontend_attributes(self, attributes: Mapping[str, str]) -> Mapping[str, str]:
        """Sets the frontend attributes of the ops added from now on, and returns the previous ones."""
        instance(Mapping, attributes, "set_frontend_attributes")
        before = dict(self._frontend_attributes)
        self._frontend_attributes = tuple(sorted((str(k), str(v)) for k, v in attributes.items()))
        self._extras.clear()
        return before

    def clear_frontend_attributes(self) -> None:
        """Ends the effect of `set_frontend_attributes` for ops added from now on."""
        self.set_frontend_attributes({})

    def set_instruction_frontend_attribute(self, op: XlaOp, key: str, value: str) -> None:
        """Adds a frontend attribute to an op that was already added."""
        inst = _op(op, "set_instruction_frontend_attribute").instruction
        what = "frontend attribute"
        attributes = dict(inst.extra.frontend_attributes) | {text(key, what): text(value, what)}
        changed = replace(inst.extra, frontend_attributes=tuple(sorted(attributes.items())))
        inst.computation.set_extra(inst, changed)

    def setup_alias(
        self, output_index: Sequence[int], param_number: int, param_index: Sequence[int], kind: str = "may"
    ) -> None:
        """Lets leaf `output_index` of the result share the memory of leaf `param_index` of a parameter. The
        indices are paths into tuples; `kind` is "may" or "must".
        """
        if text(kind, "setup_alias: kind") not in ("may", "must"):
            raise InvalidArgument(f"setup_alias: kind is {kind!r}, wanted 'may' or 'must'")
        number, index = integer(param_number, "setup_alias"), integers(param_index, "setup_alias")
        self._aliases.append(Alias(integers(output_index, "setup_alias"), number, index, kind == "must"))

    def add_buffer_donor(self, param_number: int, param_index: Sequence[int]) -> None:
        """Donates the memory of a leaf of a parameter to any result that fits in it. `param_index` is a path
        into tuples.
        """
        what = "add_buffer_donor"
        self._donors.append((integer(param_number, what), integers(param_index, what)))

    # Sub-builders, and the finished computation.

    def sub_builder(self, name: str) -> XlaBuilder:
        """Returns a builder for a computation that ops of this builder can call."""
        return XlaBuilder(name, parent=self)

    def build(self, root: XlaOp | None = None) -> XlaComputation:
        """Returns the computation with the result `root`, by default the op added last. The builder is empty
        afterwards.
        """
        result = self._root(root)
        self._contiguous_parameters()
        self._entry.set_root(result)
        module, entry = self._module, self._entry
        aliases, donors = self._checked_aliases(result), self._checked_donors()
        if aliases or donors:
            module.set_config(aliases=aliases, buffer_donors=donors)
        # XLA prints callees first and the entry last; the callees were already added in that order.
        module.order_computations(lambda computation: computation is entry)
        self._start()
        return XlaComputation(module)

    def _root(self, root: XlaOp | None) -> Instruction:
        if root is None:
            if self._last is None:
                message = f"build: builder '{self.name}' has no ops; a computation needs a result"
                raise InvalidArgument(message)
            return self._last
        if _op(root, "root").builder is not self or root.instruction.computation is not self._entry:
            self._foreign("build", root)
        return root.instruction

    def _contiguous_parameters(self) -> list[Instruction]:
        count = len(self._parameters)
        missing = [str(n) for n in range(count) if n not in self._parameters]
        if missing:
            raise InvalidArgument(
                f"build: builder '{self.name}' has parameters {sorted(self._parameters)}, "
                f"but not {', '.join(missing)}; parameters are numbered from 0 without gaps"
            )
        return [self._parameters[n] for n in range(count)]

    def _checked_aliases(self, root: Instruction) -> tuple[Alias, ...]:
        for alias in self._aliases:
            output = subshape(root.shape, alias.output)
            given = self._parameter_leaf("setup_alias", alias.parameter, alias.index)
            if output.logical is not given.logical:
                raise ShapeError(
                    f"setup_alias: output {list(alias.output)} is {show(output)}, "
                    f"but parameter {alias.parameter}{list(alias.index)} is {show(given)}"
                )
        return tuple(self._aliases)

    def _checked_donors(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        for number, index in self._donors:
            self._parameter_leaf("add_buffer_donor", number, index)
        return tuple(self._donors)

    def _parameter_leaf(self, what: str, number: int, index: tuple[int, ...]) -> AnyShape:
        if number not in self._parameters:
            message = f"{what}: parameter {number} does not exist; found {len(self._parameters)} parameters"
            raise InvalidArgument(message)
        return subshape(self._parameters[number].shape, index)

    # XLA's C++ and older Python spellings.
    Build = build
    GetShape = get_shape
    GetProgramShape = get_program_shape
    IsConstant = is_constant
    CreateSubBuilder = sub_builder
    SetOpMetadata = set_op_metadata
    ClearOpMetadata = clear_op_metadata
    SetSharding = set_sharding
    ClearSharding = clear_sharding
    SetUpAlias = setup_alias


def _op(value: object, what: str) -> XlaOp:
    return instance(XlaOp, value, what)


def identifier_of(name: str) -> str:
    """Converts a name to one that HLO text accepts: invalid characters become underscores."""
    cleaned = _NOT_A_NAME.sub("_", name)
    return cleaned if cleaned and not (cleaned[0].isdigit() or cleaned[0] in ".-") else f"_{cleaned}"
