"""Converts any program to sources: modules whose arguments and results have names.

A program is a Module, the result of a builder, the content of a file or its path, a JAX function, or the
result of `jax.export`. `Example` keeps the arrays given as arguments, for the self-test.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from axla.aot import graphs
from axla.aot.build import BuildSource, Example, Label
from axla.aot.config import configured, read_config
from axla.aot.names import derived
from axla.aot.options import DEFAULT, Options, opened
from axla.api import parse
from axla.comparison import array_leaves, parameter_leaves
from axla.core.errors import AxlaError, InvalidArgument, ParseError, UnsupportedError
from axla.core.shape import AnyShape, TupleShape, show
from axla.hlo import Tuple
from axla.ir.graph import Instruction, Module
from axla.ir.op import OPS
from axla.ir.verify import verify
from axla.stablehlo.names import names_in

# Generated names of instructions: opcodes, and names that JAX and printers make.
_MADE_UP = frozenset(
    {form for opcode in OPS for form in (opcode, opcode.replace("-", "_"))}
    | {"", "ROOT", "root", "dot_general", "convert_element_type", "broadcast_in_dim", "reduce_sum"}
)


def examples(program: Any, args: Any = None, options: Options = DEFAULT) -> tuple[Example, ...]:
    """Converts a program, or several, to the functions of a library.

    `program` may be {suffix: program}: several functions, with `args` {suffix: args}. `args` may be {rows:
    args}: the same function for several numbers of rows.
    """
    if isinstance(program, Mapping):
        return _several(program, args, options)
    if not isinstance(args, Mapping):
        return (example(program, args, options),)
    if not args or not all(isinstance(rows, int) and rows > 0 for rows in args):
        found = ", ".join(map(repr, args)) or "nothing"
        raise InvalidArgument(f"args: the keys of a mapping must be numbers of rows, found {found}")
    found = []
    for rows, given in args.items():
        one = example(program, given, options)
        found.append(replace(one, source=replace(one.source, suffix=str(rows), rows=rows)))
    _check_rows([one.source for one in found])
    return tuple(found)


def _check_rows(sources: Sequence[BuildSource]) -> None:
    """Raises InvalidArgument unless some dimension of the arguments is the number of rows, or a multiple of
    it, in all sources, and everything else is equal.
    """
    rows = [source.rows for source in sources]
    shapes = [[shape for _, shape in parameter_leaves(source.module)] for source in sources]
    fits, varies = len({tuple((s.dtype, s.rank) for s in some) for some in shapes}) == 1, False
    for sizes in zip(*([size for shape in some for size in shape.dims] for some in shapes), strict=False):
        grows = sizes[0] > 0 and len({size / row for size, row in zip(sizes, rows, strict=True)}) == 1
        varies |= grows and sizes[0] % rows[0] == 0
        fits &= grows or len(set(sizes)) == 1
    if not (fits and varies):
        texts = [", ".join(show(shape) for shape in some) for some in shapes]
        found = "; ".join(f"{row}: {text}" for row, text in zip(rows, texts, strict=True))
        raise InvalidArgument(f"args: wanted shapes that differ only in the rows, the keys; found {found}")


def _several(programs: Mapping[Any, Any], args: Any, options: Options) -> tuple[Example, ...]:
    if not programs:
        raise InvalidArgument("program: a mapping must have suffixes of functions as keys, found nothing")
    if args is not None and not isinstance(args, Mapping):
        wanted = f"a mapping with the keys of program, {', '.join(map(repr, programs))}"
        raise InvalidArgument(f"args: wanted {wanted}; found {type(args).__name__}")
    unknown = [key for key in args or () if key not in programs]
    if unknown:
        raise InvalidArgument(f"args: no program is called {unknown[0]!r}; there are {', '.join(programs)}")
    found = []
    for suffix, program in programs.items():
        if not isinstance(suffix, str):
            raise InvalidArgument(f"program: the suffix of a function must be a str, found {suffix!r}")
        one = example(program, (args or {}).get(suffix), options)
        found.append(replace(one, source=replace(one.source, suffix=suffix)))
    return tuple(found)


def example(program: Any, args: Any = None, options: Options = DEFAULT) -> Example:
    """Converts one program. `args`: example arguments of a JAX function; for other programs an array, or an
    object with a shape, for each parameter leaf.
    """
    if args is not None and not isinstance(args, list | tuple):
        raise InvalidArgument(f"args: wanted a tuple of arguments, found {type(args).__name__}")
    graph = graphs.opened_graph(program)
    if graph is not None:
        return graphs.example(graph, None if args is None else _leaves(args), options)
    module = _module(program, args, options)
    given = _arrays(module, args) if args is not None else None
    arguments, results = labels_of(module)
    found = Example(BuildSource(module, _labels(arguments, "arg"), _labels(results, "result")), given)
    if options.config is None:
        return found
    verify(module)
    return configured(found, read_config(options.config))


# Programs.


def _module(program: Any, args: Sequence[Any] | None, options: Options) -> Module:
    if not isinstance(program, Module | str | bytes | bytearray | os.PathLike) and not callable(program):
        program = getattr(program, "module", program)  # the module of a builder's computation
    if isinstance(program, Module):
        return _sized(program, args, options)
    program = opened(program)
    if isinstance(program, str | bytes | os.PathLike):
        return _parsed(program, args, options)
    if callable(program) or hasattr(program, "mlir_module_serialized"):
        return _of_jax(program, args, options)
    raise InvalidArgument(
        "program: wanted a Module, a builder's computation, the content of a program or its path, a JAX "
        f"function or jax.export.Exported; found {type(program).__name__}"
    )


def _parsed(program: str | bytes | os.PathLike[str], args: Sequence[Any] | None, options: Options) -> Module:
    try:
        module = parse(program)
    except (ParseError, UnsupportedError):
        content = Path(program).read_bytes() if isinstance(program, os.PathLike) else program
        if not isinstance(content, bytes) or not _may_be_export(content):
            raise
        try:  # a serialized jax.export has no magic bytes
            return _of_jax(content, args, options)
        except (AxlaError, ImportError):
            raise
        except Exception:
            pass  # it is not an export: the error of the parser is raised
        raise
    return _sized(module, args, options)


def _may_be_export(content: bytes) -> bool:
    """Whether bytes are neither text nor StableHLO bytecode, so that they may be an export."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return not content.startswith(b"ML\xefR")
    return b"\0" in content


def _of_jax(program: Any, args: Sequence[Any] | None, options: Options) -> Module:
    from axla.jax.functions import OpenModule, lowered, module_of
    from axla.stablehlo.modules import DynamicModule

    if callable(program) and args is None:
        wanted = "arguments like these: arrays or jax.ShapeDtypeStruct"
        raise InvalidArgument(f"args: a JAX function is compiled for {wanted}; found none")
    # An export has its own arguments; the given ones determine only its open sizes.
    found = lowered(program, args if callable(program) and args is not None else (), {})
    module = module_of(found)
    if not isinstance(module, DynamicModule):
        return _sized(module, None, options)
    leaves = None if callable(program) or args is None else _leaves(args)
    assert isinstance(module, OpenModule)
    return _sized(module, leaves, options)


def _sized(module: Module, args: Sequence[Any] | None, options: Options) -> Module:
    """The module with all sizes known: open sizes are taken from the options or from `args`. InvalidArgument
    names the arguments whose sizes stay open.
    """
    from axla.stablehlo.modules import DynamicModule

    if not isinstance(module, DynamicModule):
        if options.arg_types is not None or options.dim_args is not None:
            raise InvalidArgument(f"arg_types and dim_args: module {module.name} has no open sizes (`?`)")
        return module
    types = options.arg_types
    if types is None and args is not None:
        types = [None if a is None else _type_of(a) for a in args]
    if types is None and options.dim_args is None:
        _ = module.entry  # raises InvalidArgument that says what is open
    return module.specialize(types, options.dim_args)


def _type_of(given: Any) -> Any:
    if hasattr(given, "dtype") and hasattr(given, "shape"):  # an array, or a description of one
        return np.broadcast_to(np.zeros((), given.dtype), given.shape)
    return given


def _leaves(args: Sequence[Any]) -> list[Any]:
    """The leaves of lists, tuples and dicts, in JAX's order."""
    leaves: list[Any] = []
    stack = list(reversed(args))
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping):
            try:
                stack.extend(item[key] for key in sorted(item, reverse=True))
            except TypeError:  # keys that cannot be sorted, which JAX refuses, too
                stack.extend(reversed(list(item.values())))
        elif isinstance(item, list | tuple):
            stack.extend(reversed(item))
        elif item is not None:
            leaves.append(item)
    return leaves


def _arrays(module: Module, args: Sequence[Any]) -> tuple[np.ndarray, ...] | None:
    """The arguments as an array per parameter leaf; None if one of them is only a description of an array, or
    does not fit its parameter.
    """
    leaves = _leaves(args)
    shapes = [shape for _, shape in parameter_leaves(module)]
    if len(leaves) != len(shapes):
        return None
    found = []
    for leaf, shape in zip(leaves, shapes, strict=True):
        if not isinstance(leaf, bool | int | float | complex) and not hasattr(leaf, "__array__"):
            return None
        try:
            array = np.asarray(leaf)
        except TypeError:  # an array of keys of jax.random
            return None
        if array.shape != shape.dims or not np.can_cast(array.dtype, shape.dtype.numpy, "same_kind"):
            return None
        found.append(np.array(array, shape.dtype.numpy))
    return tuple(found)


# Names.


def labels_of(module: Module) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The origins of parameter leaves and of result leaves: paths in the trees of a JAX function, or HLO
    names; "" for results without a name.
    """
    from_jax = _jax_names(module)
    if from_jax is not None:
        return from_jax
    places = []
    for parameter in module.entry.parameters:
        leaves = array_leaves(parameter.shape)
        name = _place(parameter) or parameter.name
        alone = not isinstance(parameter.shape, TupleShape)
        places += [name] if alone else [f"{name}[{k}]" for k in range(len(leaves))]
    return tuple(places), _result_labels(module.entry.root)


def _jax_names(module: Module) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    names = names_in(module)
    if names is None:
        return None
    fits = len(names.arguments) == len(parameter_leaves(module))
    fits &= len(names.results) == len(array_leaves(module.entry.root.shape))
    return (names.arguments, names.results) if fits else None


def _place(parameter: Instruction) -> str:
    """The op_name of a parameter, where JAX writes the path of the argument."""
    location = parameter.extra.location
    return location.op_name if location is not None else ""


def _result_labels(root: Instruction) -> tuple[str, ...]:
    """The names of the elements of the root tuple, or of a root that is an array. All names are "" unless the
    user chose all of them and they differ.
    """
    values: list[tuple[Instruction | None, AnyShape]] = [(root, root.shape)]
    while any(v is not None and isinstance(v.op, Tuple) for v, _ in values):
        flat: list[tuple[Instruction | None, AnyShape]] = []
        for value, shape in values:
            if value is not None and isinstance(value.op, Tuple):
                flat += [(o, o.shape) for o in value.operands]
            else:
                flat.append((value, shape))
        values = flat
    labels: list[str] = []
    for value, shape in values:
        count = len(array_leaves(shape))
        chosen = value is not None and count == 1 and not isinstance(shape, TupleShape) and _is_chosen(value)
        labels += [value.name if chosen and value is not None else ""] * count
    return tuple(labels) if all(labels) and len(set(labels)) == len(labels) else ("",) * len(labels)


def _is_chosen(inst: Instruction) -> bool:
    """Whether a user chose the name of an instruction: it is more than the opcode, a number, or a name that
    compilers generate.
    """
    stem = re.sub(r"[.\d]+$", "", inst.name)
    return stem not in _MADE_UP


def _labels(places: Sequence[str], default: str) -> tuple[Label, ...]:
    names = derived([_readable(place, default) for place in places], default)
    return tuple(Label(name, place or name) for name, place in zip(names, places, strict=True))


def _readable(place: str, default: str) -> str:
    """A path without uninformative parts: the first word `args`, `kwargs` or `result`, and the number after a
    name from XLA. With the default `arg`, `args[0]['w']` becomes arg0['w'].
    """
    bare = re.sub(r"^(args|kwargs|result)(?=\[|\.|$)", "", place)
    if bare != place:
        return re.sub(r"^\[(\d+)\]", rf"{default}\1", bare)
    return re.sub(r"(?<=\w)\.\d+$", "", place)
