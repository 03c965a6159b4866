"""The declaration of ops, and the table of all ops.

An op value is an opcode with attributes: an instance of a frozen dataclass. One class declares all of an op;
parser, printer, builder, verifier, interpreter and code generator read the declaration.

    @op("transpose", operands="operand")
    class Transpose(Op):
        '''Permutes dimensions: dimension k of the result is dimension `dimensions[k]` of the operand.'''
        dimensions: tuple[int, ...]

        def infer(self, operand): ...      # result shape, or ShapeError by self.reject()
        def source(self, index): ...       # pure data movement: index of the result -> index of the operand
        def evaluate(self, operand): ...   # takes and returns NumPy arrays
        examples = [example(Shape(F32, (2, 3)), dimensions=(1, 0))]   # for tests and pages

If the result shape does not follow from operands and attributes, the op has a first field `shape: Shape`. HLO
text has it as the shape of the instruction, not among the attributes.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import threading
import types
import typing
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

from axla.core import locks, plugins
from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument, ShapeError, UnsupportedError, did_you_mean
from axla.core.regex import ascii_regex
from axla.core.shape import AnyShape, Shape
from axla.core.tables import by_name
from axla.ir import attributes as kinds
from axla.ir.devices import ReplicaGroups
from axla.ir.graph import Attribute, Computation, Op, OpExample

if typing.TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OPS: dict[str, type[Op]] = {}
"""All ops that have been declared, by opcode. The decorator `@op` fills the table."""

FACTS = frozenset(Op.__annotations__) - {
    "opcode", "operand_names", "variadic", "optional", "attributes", "holds_shape", "computation_fields",
    "__dataclass_fields__", "ended_by", "examples",
}  # fmt: skip
"""The names of the facts about an op that a declaration may set; `Op` describes them."""

ATTRIBUTE_TYPES: frozenset[Any] = frozenset({
    int, float, kinds.Single, bool, str, kinds.Word, kinds.RawText, AnyShape, Shape, Computation,
    tuple[int, ...], tuple[bool, ...], tuple[tuple[int, ...], ...], tuple[tuple[str, str], ...],
    tuple[AnyShape, ...], tuple[Computation, ...], tuple[kinds.Precision, ...], tuple[kinds.OutputAlias, ...],
    tuple[kinds.Sparsity, ...], kinds.Window, kinds.PaddingConfig, kinds.SliceDims, kinds.ConvDims,
    kinds.SourceTargetPairs, ReplicaGroups,
})  # fmt: skip
"""The types that attributes may have, besides subclasses of enum.StrEnum, and `X | None` for each type X.
`axla.text.attributes` reads and writes them.
"""

ENTRY_POINTS = "axla.ops"
"""The group of entry points by which installed packages declare ops: opcode = class."""

_LOADING = locks.new_lock(threading.RLock)


def declared(opcode: str) -> type[Op] | None:
    """The class of the op with this opcode, or None. If no loaded module declares it, but an installed
    package does, the package is imported. UnsupportedError, with the op and the package, if that fails.
    """
    found = OPS.get(opcode)
    if found is None and (entry := plugins.installed(ENTRY_POINTS).get(opcode)) is not None:
        found = _loaded(entry)
    return found


def _loaded(entry: EntryPoint) -> type[Op]:
    """Loads the op class of an entry point. If its module cannot be imported, the ops that the module has
    already declared are removed.
    """
    package = f"the package {entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
    what = f"op {entry.name!r} of {package}"
    with _LOADING:
        before = set(OPS)
        try:
            with plugins.blamed(f"{what} cannot be loaded", passed=()):
                found = entry.load()
        finally:
            for opcode in [new for new in OPS.keys() - before if OPS[new].__module__ not in sys.modules]:
                del OPS[opcode]
    if OPS.get(entry.name) is not found:
        raise UnsupportedError(f"{what}: {entry.value} must be the class that @op declared, found {found!r}")
    return found


def by_op(*functions: Callable[..., Any]) -> dict[type[Op], Any]:
    """A table of functions by the op that their names spell: `_reduce_window` for reduce-window."""
    return {OPS[name]: function for name, function in by_name("", *functions, between="-").items()}


def known() -> list[str]:
    """The opcodes of all ops, including those of installed packages, which are not loaded by this call."""
    return sorted({*OPS, *plugins.installed(ENTRY_POINTS)})


def unknown(opcode: str) -> str:
    """The error message for an unknown opcode."""
    hint = "`axla ops` lists those of axla and of installed packages with entry points axla.ops"
    return f"{opcode[:60]!r} is not an opcode{did_you_mean(opcode, known())} ({hint})"


def is_own(op: type[Op]) -> bool:
    """Whether axla itself, not another package, declares an op."""
    return package_of(op) == "axla"


def package_of(op: type) -> str:
    """The name of the package that declares an op or a kernel kind: `axla` for those of axla itself."""
    return op.__module__.partition(".")[0]


def attr(text: str = "", *, always: bool = False, required: bool = False, proto: str = "", **kw: Any) -> Any:
    """A dataclass field for an attribute of an op. `text` is the attribute's name in HLO text, by default
    that of the field; `proto` is its name, or path, in protocol buffers. If `always`, the attribute is
    printed even if it has its default value; if `required`, HLO text must have it.
    """
    return dataclasses.field(
        metadata={"text": text, "always": always, "required": required, "proto": proto}, **kw
    )


def attribute_type(type_: Any) -> Any:
    """The type of an attribute without `| None`; InvalidArgument if attributes cannot have this type."""
    if type_ in ATTRIBUTE_TYPES or (isinstance(type_, type) and issubclass(type_, enum.StrEnum)):
        return type_
    if isinstance(type_, types.UnionType) or typing.get_origin(type_) is typing.Union:
        inner = [t for t in typing.get_args(type_) if t is not type(None)]
        if len(inner) == 1:
            return attribute_type(inner[0])
    wanted = "wanted a type of axla.ir.op.ATTRIBUTE_TYPES, or a class of enum.StrEnum"
    raise InvalidArgument(f"attributes of type {type_} have no text form: {wanted}")


def example(*operands: AnyShape, **attributes: Any) -> OpExample:
    """An entry of `Op.examples`: the shapes of the operands, and the attributes of the op."""
    return attributes, operands


OpClass = typing.TypeVar("OpClass", bound=type[Op])


@typing.dataclass_transform(frozen_default=True, field_specifiers=(attr, dataclasses.field))
def op(opcode: str, *, operands: str = "", **facts: Any) -> Callable[[OpClass], OpClass]:
    """A decorator that declares a class as the op `opcode`. `operands` names its operands: `"a b"`; `"c?"` is
    optional, `"*rest"` stands for any number. `facts` override the defaults in `Op`: `expensive=True`.

    InvalidArgument, with the opcode, for an invalid declaration: an unknown fact, an opcode that exists
    already, operand names in the wrong order, attributes without a text form.
    """

    def declare(cls: OpClass) -> OpClass:
        _check(cls, opcode, operands, facts)
        names = operands.split()
        cls.variadic = bool(names) and names[-1].startswith("*")
        cls.optional = sum(n.endswith("?") for n in names)
        cls.operand_names = tuple(n.strip("*?") for n in names)
        cls.opcode = opcode
        for fact, value in facts.items():
            setattr(cls, fact, value)
        made = dataclass(frozen=True)(cls)
        hints = _types(made)
        attributes, computations = [], []
        for field in dataclasses.fields(made):
            type_ = hints[field.name]
            if field.name == "shape":
                made.holds_shape = True
                continue
            if not is_own(made):
                attribute_type(type_)
            default = field.default
            if field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
            text = field.metadata.get("text") or field.name
            required = field.metadata.get("required", False)
            if required:
                default = dataclasses.MISSING
            always = required or field.metadata.get("always", False)
            proto = field.metadata.get("proto") or text
            attributes.append(Attribute(field.name, text, type_, default, always, proto))
            if "Computation" in str(type_):
                computations.append(field.name)
        made.attributes = tuple(attributes)
        made.computation_fields = tuple(computations)
        OPS[opcode] = made
        if made.ends is not None:
            made.ends.ended_by = made
        return made

    return declare


def _types(cls: type[Op]) -> dict[str, Any]:
    """The types of the fields of an op. Evaluates only the annotations of these fields, since `Op` and its
    families have many more, and there are many ops.
    """
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        told = base.__dict__.get("__annotations__", {})
        fields = SimpleNamespace(__annotations__={n: told[n] for n in told if n in cls.__dataclass_fields__})
        if fields.__annotations__:
            found |= typing.get_type_hints(fields, vars(sys.modules[base.__module__]), dict(vars(base)))
    return found


_OPCODE = ascii_regex(r"[a-z][a-z0-9]*+(?:-[a-z0-9]++)*+")
_OPERANDS = ascii_regex(r"(?:[a-z_]\w*+(?: |$))*+(?:[a-z_]\w*+\?(?: |$))*+(?:\*[a-z_]\w*+)?+")


def _check(cls: type, opcode: str, operands: str, facts: dict[str, Any]) -> None:
    """Raises InvalidArgument if a declaration is invalid."""

    def refuse(why: str) -> NoReturn:
        raise InvalidArgument(f"op {opcode}: {why}")

    if not (isinstance(cls, type) and issubclass(cls, Op)):
        refuse(f"{cls!r} is not a subclass of axla.ir.op.Op")
    if not _OPCODE.fullmatch(opcode):
        refuse("an opcode must be lower-case letters and digits, in words joined by hyphens")
    if opcode in OPS:
        refuse(f"the module {OPS[opcode].__module__} has already declared this opcode")
    if not _OPERANDS.fullmatch(operands) or len({*operands.split()}) < len(operands.split()):
        refuse(f"operands must be different names, then 'optional?', then '*rest', found {operands!r}")
    for fact in facts:
        if fact not in FACTS:
            refuse(f"{fact} is not a fact of ops")
    if cls.infer is Op.infer:
        refuse("the class has no method infer")
    for name in cls.__dict__.get("__annotations__", {}).keys() & vars(Op).keys():
        refuse(f"an attribute cannot be called {name}: Op uses the name")


def reject(label: str, message: str) -> NoReturn:
    """Raises ShapeError with the label of a rule. The code of an op calls its own method `reject`."""
    raise ShapeError(f"{message}  [{label}]")
