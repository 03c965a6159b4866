"""Converts sources to modules: first rewrites open sizes and quantized types, then imports the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from axla.core.collector import collector_paused
from axla.core.errors import InvalidArgument, choices
from axla.ir.graph import Computation, Module
from axla.stablehlo import mlir
from axla.stablehlo.importer import RULES
from axla.stablehlo.importer.program import Importer, functions_of
from axla.stablehlo.quantized import without_quantized
from axla.stablehlo.sizes import is_open
from axla.stablehlo.specialize import specialize
from axla.stablehlo.text import print_source, type_text


def entry_of(source: mlir.Source, entry: str = "") -> str:
    """The name of a program's entry function: `entry` if it is given, else `main`, or the only function.
    Raises InvalidArgument if there is no such function.
    """
    names = functions_of(source)
    if not entry:
        entry = "main" if "main" in names or len(names) != 1 else next(iter(names))
    if entry not in names:
        raise InvalidArgument(f"there is no function @{entry}; {choices(names, entry)}")
    return entry


def import_source(
    source: mlir.Source, entry: str = "", *, arg_types: Sequence[Any] | None = None,
    dim_args: Sequence[int] | None = None,
) -> Module:  # fmt: skip
    """Converts a source to a module. `entry` is the entry function, by default `main` or the only one;
    `arg_types` and `dim_args` are the types and values of its arguments, as `specialize` takes them.

    Raises VerifyError for a program that breaks a rule, and UnsupportedError for one that HLO cannot express,
    both with the operation and its position.
    """
    entry = entry_of(source, entry)
    with collector_paused():
        source = without_quantized(specialize(source, entry, arg_types, dim_args))
        return Importer(source, RULES).run(entry)


def type_of(source: mlir.Source, entry: str) -> mlir.FunctionType:
    """The type of a function; without a type, a function has no arguments and results."""
    function = functions_of(source).get(entry)
    type_ = function.attributes.get("function_type") if function is not None else None
    return type_ if isinstance(type_, mlir.FunctionType) else mlir.FunctionType((), ())


def is_symbolic(source: mlir.Source, entry: str) -> bool:
    """Whether the type of a function has open sizes, for which compilation needs values."""
    type_ = type_of(source, entry)
    return any(map(is_open, (*type_.inputs, *type_.results)))


def example(type_: mlir.Type) -> str:
    """The text of an example for messages: the type with 2 in place of open sizes."""
    if isinstance(type_, mlir.TensorType):
        sizes = (2,) if type_.shape is None else tuple(2 if d is None else d for d in type_.shape)
        type_ = mlir.TensorType(sizes, type_.element)
    return type_text(type_)


class DynamicModule(Module):
    """A program with unknown sizes: `axla.compile(module, arg_types=...)` provides them.

    It has no computations; a use of them raises an error that names the unknown sizes. The source is not
    changed.
    """

    __slots__ = ("source", "entry_name")

    def __init__(self, source: mlir.Source, entry: str) -> None:
        super().__init__(entry)
        self.source = source
        self.entry_name = entry

    @property
    def entry(self) -> Computation:
        """Raises InvalidArgument, since there is no entry before the sizes are known."""
        raise InvalidArgument(f"the sizes of {self.signature} are not known: {self.wanted()}")

    def wanted(self) -> str:
        """A message with the open sizes, and how to provide them."""
        type_ = type_of(self.source, self.entry_name)
        names = [f"argument {n} is {type_text(t)}" for n, t in enumerate(type_.inputs) if is_open(t)]
        if not names:  # only sizes of results are open
            names = [f"result {n} is {type_text(t)}" for n, t in enumerate(type_.results) if is_open(t)]
            return (
                f"{', '.join(names)}; give the first arguments as dim_args=[...] to axla.compile or "
                "axla.parse, --dim-args=... to a command"
            )
        examples = [example(t) if is_open(t) else None for t in type_.inputs]
        listed = ",".join(e or "_" for e in examples)
        return (
            f"{', '.join(names)}; give arg_types={examples} to axla.compile or axla.parse, "
            f"--arg-types='{listed}' to a command"
        )

    @property
    def signature(self) -> str:
        """The type of the entry function in MLIR's notation."""
        return f"@{self.entry_name}{type_text(type_of(self.source, self.entry_name))}"

    def specialize(
        self, arg_types: Sequence[Any] | None = None, dim_args: Sequence[int] | None = None
    ) -> Module:
        """Returns the module for certain types and values of arguments; see the function `specialize`."""
        return import_source(self.source, self.entry_name, arg_types=arg_types, dim_args=dim_args)

    def to_string(self, **options: Any) -> str:
        """The source as MLIR text, since HLO text has no `?`."""
        return print_source(self.source)

    def __repr__(self) -> str:
        return f"<module {self.signature}, sizes not known>"
