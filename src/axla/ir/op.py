"""How an op is declared, and the table of all ops.

An op value is an opcode with attributes: a frozen dataclass instance. One class declares everything about an
op; parser, printer, builder, verifier, interpreter and code generator read the declaration.

    @op("transpose", operands="operand")
    class Transpose(Op):
        '''Permutes dimensions: dimension k of the result is dimension `dimensions[k]` of the operand.'''
        dimensions: tuple[int, ...]

        def infer(self, operand): ...      # result shape, or ShapeError by self.reject()
        def source(self, index): ...       # pure data movement: index of the result -> index of the operand
        def evaluate(self, operand): ...   # NumPy arrays in and out
        examples = [example(Shape(F32, (2, 3)), dimensions=(1, 0))]   # what tests and pages try

An op whose result shape does not follow from operands and attributes has a first field `shape: Shape`, which
the text form writes as the instruction's shape and not among the attributes.
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
"""Every op that is declared so far, by opcode. Filled by the `@op` decorator."""

FACTS = frozenset(Op.__annotations__) - {
    "opcode", "operand_names", "variadic", "optional", "attributes", "holds_shape", "computation_fields",
    "__dataclass_fields__", "ended_by", "examples",
}  # fmt: skip
"""The facts that a declaration may give of an op: see `Op`."""

ATTRIBUTE_TYPES: frozenset[Any] = frozenset({
    int, float, kinds.Single, bool, str, kinds.Word, kinds.RawText, AnyShape, Shape, Computation,
    tuple[int, ...], tuple[bool, ...], tuple[tuple[int, ...], ...], tuple[tuple[str, str], ...],
    tuple[AnyShape, ...], tuple[Computation, ...], tuple[kinds.Precision, ...], tuple[kinds.OutputAlias, ...],
    tuple[kinds.Sparsity, ...], kinds.Window, kinds.PaddingConfig, kinds.SliceDims, kinds.ConvDims,
    kinds.SourceTargetPairs, ReplicaGroups,
})  # fmt: skip
"""The types of attributes, beside the classes of enum.StrEnum, and `X | None` of each. `axla.text.attributes`
reads and writes them.
"""

ENTRY_POINTS = "axla.ops"
"""The group of the entry points of packages that declare ops. Name: the opcode; object: the class."""

_LOADING = locks.new_lock(threading.RLock)


def declared(opcode: str) -> type[Op] | None:
    """The op of this name: a declared one, or else that of an installed package, which is imported now. None
    where there is neither; UnsupportedError, which names op and package, for one that cannot be loaded.
    """
    found = OPS.get(opcode)
    if found is None and (entry := plugins.installed(ENTRY_POINTS).get(opcode)) is not None:
        found = _loaded(entry)
    return found


def _loaded(entry: EntryPoint) -> type[Op]:
    """The op of an entry point. If its module cannot be imported, the ops that the module declared are
    removed.
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
        raise UnsupportedError(f"{what}: {entry.value} is {found!r}, wanted what @op declares by that name")
    return found


def by_op(*functions: Callable[..., Any]) -> dict[type[Op], Any]:
    """Functions by the op in their name: `_reduce_window` is that of reduce-window."""
    return {OPS[name]: function for name, function in by_name("", *functions, between="-").items()}


def known() -> list[str]:
    """The opcodes of all ops, including those of installed packages, which are not loaded for this."""
    return sorted({*OPS, *plugins.installed(ENTRY_POINTS)})


def unknown(opcode: str) -> str:
    """The error message for an unknown opcode."""
    hint = "`axla ops` lists axla's, and those that installed packages add by entry points axla.ops"
    return f"{opcode[:60]!r} is not an opcode{did_you_mean(opcode, known())} ({hint})"


def is_own(op: type[Op]) -> bool:
    """Whether axla itself declares an op."""
    return package_of(op) == "axla"


def package_of(op: type) -> str:
    """The package that declares an op, or a kernel kind: `axla` for its own."""
    return op.__module__.partition(".")[0]


def attr(text: str = "", *, always: bool = False, required: bool = False, proto: str = "", **kw: Any) -> Any:
    """A dataclass field with properties for texts: `text`, its name there; `always`, printed even with its
    default value; `required`; `proto`, its name, or path, in protos.
    """
    return dataclasses.field(
        metadata={"text": text, "always": always, "required": required, "proto": proto}, **kw
    )


def attribute_type(type_: Any) -> Any:
    """The type of an attribute without `| None`; InvalidArgument where no attribute may be of that type."""
    if type_ in ATTRIBUTE_TYPES or (isinstance(type_, type) and issubclass(type_, enum.StrEnum)):
        return type_
    if isinstance(type_, types.UnionType) or typing.get_origin(type_) is typing.Union:
        inner = [t for t in typing.get_args(type_) if t is not type(None)]
        if len(inner) == 1:
            return attribute_type(inner[0])
    wanted = "wanted a type of axla.ir.op.ATTRIBUTE_TYPES, or a class of enum.StrEnum"
    raise InvalidArgument(f"there is no text form for attributes of type {type_}: {wanted}")


def example(*operands: AnyShape, **attributes: Any) -> OpExample:
    """An entry of `Op.examples`: shapes of operands for an op with these attributes."""
    return attributes, operands


OpClass = typing.TypeVar("OpClass", bound=type[Op])


@typing.dataclass_transform(frozen_default=True, field_specifiers=(attr, dataclasses.field))
def op(opcode: str, *, operands: str = "", **facts: Any) -> Callable[[OpClass], OpClass]:
    """Declares a class as the op `opcode`. `operands` names them: `"a b"`, `"*rest"` for any number, `"c?"`
    optional. `facts` override the defaults of `Op`: `expensive=True`.

    InvalidArgument, which begins with the opcode, for an invalid declaration: an unknown fact, an opcode that
    exists already, operands in another order, attributes without a text form.
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
    """The types of the fields of an op. Only these annotations are evaluated: `Op` and the families have many
    more, and there are many ops.
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
    """Raises InvalidArgument for an invalid declaration."""

    def refuse(why: str) -> NoReturn:
        raise InvalidArgument(f"op {opcode}: {why}")

    if not (isinstance(cls, type) and issubclass(cls, Op)):
        refuse(f"{cls!r} is not a subclass of axla.ir.op.Op")
    if not _OPCODE.fullmatch(opcode):
        refuse("an opcode is small letters and digits, with single hyphens between them")
    if opcode in OPS:
        refuse(f"it is declared already, by {OPS[opcode].__module__}")
    if not _OPERANDS.fullmatch(operands) or len({*operands.split()}) < len(operands.split()):
        refuse(f"operands are different names, then 'optional?', then '*rest', found {operands!r}")
    for fact in facts:
        if fact not in FACTS:
            refuse(f"there is no fact {fact}")
    if cls.infer is Op.infer:
        refuse("its class has no method infer")
    for name in cls.__dict__.get("__annotations__", {}).keys() & vars(Op).keys():
        refuse(f"{name} is not free as the name of an attribute")


def reject(label: str, message: str) -> NoReturn:
    """Raises ShapeError with the label of a constraint; ops use their own method `reject`."""
    raise ShapeError(f"{message}  [{label}]")
