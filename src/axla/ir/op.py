"""What an op is, and the table of all ops.

An op value is an opcode with attributes: a frozen dataclass instance. One class declares everything about an
op; parser, printer, builder, verifier, interpreter and code generator read the declaration.

    @op("transpose", operands="operand")
    class Transpose(Op):
        '''Permutes dimensions: dimension k of the result is dimension `dimensions[k]` of the operand.'''
        dimensions: tuple[int, ...]

        def infer(self, operand): ...      # result shape, or ShapeError through check()
        def source(self, index): ...       # pure data movement: index of the result -> index of the operand
        def evaluate(self, operand): ...   # NumPy arrays in and out

An op whose result shape does not follow from operands and attributes has a first field `shape: Shape`, which
the text form writes as the instruction's shape and not among the attributes.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from axla.core.errors import InternalError, ShapeError
from axla.core.shape import AnyShape

if TYPE_CHECKING:
    from axla.ir.graph import Computation, Instruction

OPS: dict[str, type[Op]] = {}
"""Every op, by opcode. Filled by the `@op` decorator."""


@dataclasses.dataclass(frozen=True, slots=True)
class Attribute:
    """A field of an op as the text form shows it."""

    name: str  # the field
    text: str  # its name in HLO text
    type: Any  # picks the codec
    default: Any  # MISSING: must be given
    always: bool  # printed even when equal to the default


class Op:
    """An opcode and its attributes. Subclasses are declarations, made by `@op`: see the top of this file."""

    __slots__ = ()

    opcode: ClassVar[str] = ""
    operand_names: ClassVar[tuple[str, ...]] = ()
    variadic: ClassVar[bool] = False  # the last operand name stands for any number
    optional: ClassVar[int] = 0  # how many of the last operands may be missing
    attributes: ClassVar[tuple[Attribute, ...]] = ()
    holds_shape: ClassVar[bool] = False  # the first field is the result shape
    computation_fields: ClassVar[
        tuple[str, ...]
    ] = ()  # fields of type Computation or tuple[Computation, ...]

    # Facts that passes read.
    elementwise: ClassVar[bool] = False  # result[i] depends on operands at [i] only
    commutative: ClassVar[bool] = False
    associative: ClassVar[bool] = False
    identity: ClassVar[Any] = None  # x op identity == x, as a Python number
    side_effect: ClassVar[bool] = False  # must not be removed, duplicated or reordered with its like
    expensive: ClassVar[bool] = False  # worth computing once rather than in every user

    def infer(self, *operands: AnyShape) -> AnyShape:
        """The result shape; raises ShapeError for operands that the op does not accept."""
        raise InternalError(f"{self.opcode} does not declare infer")

    def __call__(self, *operands: Instruction, shape: AnyShape | None = None) -> Instruction:
        """Adds an instruction applying this op to the computation of its operands."""
        return operands[0].computation.add(self, operands, shape)

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
        """The same op calling `change(c)` for every computation c."""
        new: dict[str, Any] = {}
        for name in self.computation_fields:
            value = getattr(self, name)
            if isinstance(value, tuple):
                new[name] = tuple(map(change, value))
            elif value is not None:
                new[name] = change(value)
        return dataclasses.replace(self, **new) if new else self  # type: ignore[type-var]

    @classmethod
    def samples(cls) -> list[tuple[Op, tuple[AnyShape, ...]]]:
        """Valid applications, for tests, fuzzers and docs: (op value, operand shapes)."""
        return []


def attr(text: str = "", *, always: bool = False, required: bool = False, **kw: Any) -> Any:
    """A dataclass field: with a text name of its own, printed though it has its default, or one that a text
    must have.
    """
    return dataclasses.field(metadata={"text": text, "always": always, "required": required}, **kw)


OpClass = typing.TypeVar("OpClass", bound=type[Op])


@typing.dataclass_transform(frozen_default=True, field_specifiers=(attr,))
@typing.dataclass_transform(frozen_default=True, field_specifiers=(attr, dataclasses.field))
def op(opcode: str, *, operands: str = "") -> Callable[[OpClass], OpClass]:
    """Declares a class as the op `opcode`. `operands` names them: `"a b"`, `"*rest"` for any number, `"c?"`
    optional.
    """

    def declare(cls: OpClass) -> OpClass:
        names = operands.split()
        cls.variadic = bool(names) and names[-1].startswith("*")
        cls.optional = sum(n.endswith("?") for n in names)
        cls.operand_names = tuple(n.strip("*?") for n in names)
        cls.opcode = opcode
        made = dataclasses.dataclass(frozen=True, repr=True)(cls)
        hints = typing.get_type_hints(cls, localns=_hint_names())
        attributes, computations = [], []
        for field in dataclasses.fields(made):  # type: ignore[arg-type]
            type_ = hints[field.name]
            if field.name == "shape":
                made.holds_shape = True
                continue
            default = field.default
            if field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
            text = field.metadata.get("text") or field.name
            required = field.metadata.get("required", False)
            if required:
                default = dataclasses.MISSING
            always = required or field.metadata.get("always", False)
            attributes.append(Attribute(field.name, text, type_, default, always))
            if "Computation" in str(type_):
                computations.append(field.name)
        made.attributes = tuple(attributes)
        made.computation_fields = tuple(computations)
        if opcode in OPS:
            raise InternalError(f"op {opcode} is declared twice")
        OPS[opcode] = made
        return made

    return declare


def _hint_names() -> dict[str, Any]:
    from axla.ir.graph import Computation

    return {"Computation": Computation}


def check(condition: object, label: str, message: str) -> None:
    """Raises ShapeError with the constraint's label when it does not hold."""
    if not condition:
        raise ShapeError(f"{message}  [{label}]")


def reject(label: str, message: str) -> NoReturn:
    """`check(False, ...)`, for messages that are worth building only when the check has failed."""
    raise ShapeError(f"{message}  [{label}]")
