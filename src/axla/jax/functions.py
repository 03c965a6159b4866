"""Makes a Module from a JAX function, or from an export of `jax.export`."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.export
import jax.extend.core
import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from axla import api
from axla.backends.binding import bind
from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument, ParseError, UnsupportedError, missing
from axla.core.literal import Literal
from axla.core.shape import TOKEN
from axla.ir.graph import Instruction, Module, SourceLocation
from axla.ir.structure import Parameter
from axla.ir.typed import op_of
from axla.jax import private
from axla.stablehlo import mlir
from axla.stablehlo.importer.origin import source_location
from axla.stablehlo.importer.program import functions_of
from axla.stablehlo.modules import DynamicModule, entry_of, import_source, is_symbolic
from axla.stablehlo.names import NAMES, Names, names_in


@dataclass(frozen=True, slots=True)
class LoweredFunction:
    """A lowered function: its StableHLO bytecode, and the pytrees of its arguments and results.

    `kept` has the numbers of the argument leaves for which the bytecode has parameters. `leading` are the
    values of parameters before those: an export for several platforms takes the number of the platform.
    Without `x64`, arguments of 64-bit types are narrowed. `functions` are the host callbacks, `results` the
    types of the results in JAX. `constants` are large arrays that the function captures: they are the first
    parameters.
    """

    artifact: bytes
    names: Names
    in_tree: Any  # the pytree of (args, kwargs) without static arguments
    out_tree: Any
    kept: tuple[int, ...]
    leading: tuple[int, ...] = ()
    x64: bool = False
    functions: tuple[Callable[..., Any], ...] = ()
    results: tuple[Any, ...] = ()  # their types in JAX, if the function was traced
    constants: tuple[Any, ...] = ()


_JIT = ("static_argnums", "static_argnames", "donate_argnums")
LARGE = 1 << 14  # captured arrays of at least this many bytes are parameters, not constants of the bytecode
# The function that @main calls in an export for symbolic sizes or several platforms.
_WRAPPED = "_wrapped_jax_export_main"


class OpenModule(DynamicModule):
    """A module with symbolic sizes, for `axla.compile(module, arg_types=...)`. The specialised modules have
    the names of arguments and results, too.
    """

    __slots__ = ("program",)

    def __init__(self, source: mlir.Source, entry: str, program: LoweredFunction) -> None:
        super().__init__(source, entry)
        self.program = program
        self.set_config(frontend_attributes=((NAMES, _names_text(program)),))

    def specialize(
        self, arg_types: Sequence[Any] | None = None, dim_args: Sequence[int] | None = None
    ) -> Module:
        """Returns the module for arguments of these types, or with these sizes."""
        return _named(super().specialize(arg_types, (*self.program.leading, *(dim_args or ()))), self.program)


def to_module(
    fn: Any, *args: Any, static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None, donate_argnums: int | Sequence[int] | None = None,
    x64: bool | None = None, **kwargs: Any,
) -> Module:  # fmt: skip
    """The module of a JAX function for arguments like these: arrays, numbers, or `jax.ShapeDtypeStruct`.

    A jitted `fn` keeps its own static and donated arguments. An export of `jax.export` (an `Exported` or its
    serialized bytes) needs no arguments. Argument leaves that the function does not use remain parameters. A
    parameter is named after the path of its leaf; `names_of(module)` returns these paths. A module with
    symbolic sizes (`jax.export.symbolic_shape`) is compiled by `axla.compile` with `arg_types`. `x64` turns
    64-bit types on or off; by default the configuration of JAX decides.
    """
    options = static_argnums, static_argnames, donate_argnums
    return module_of(lowered(fn, args, kwargs, options, x64))


def names_of(module: Module) -> Names:
    """The names of arguments and results in a module of `to_module`, or of JAX's StableHLO. Raises
    InvalidArgument if the module has none.
    """
    found = names_in(module)
    if found is None:
        raise InvalidArgument(f"module {module.name} was not made from a JAX function: it has no {NAMES}")
    return found


def module_of(program: LoweredFunction) -> Module:
    """The module of a lowered function, with the names of arguments and results."""
    source = api.stablehlo(program.artifact)
    if source is None:
        raise ParseError("to_module: the program of the export is not StableHLO bytecode")
    entry = entry_of(source)
    program = replace(program, names=_said(source, entry, program))
    if is_symbolic(source, entry):
        return OpenModule(source, entry, program)
    module = import_source(source, entry, dim_args=program.leading or None)
    captured = zip(arrays_of(module), program.constants, strict=False)
    values = {op_of(p, Parameter).parameter_number: Literal.of(np.asarray(value)) for p, value in captured}
    if values:
        bind(module, values)
    return _named(module, program)


def _said(source: mlir.Source, entry: str, program: LoweredFunction) -> Names:
    """The names of arguments and results. `args[0]['w']` becomes `params['w']` if the locations in the
    program have the name of the function's parameter.
    """
    functions = functions_of(source)
    function = functions.get(_WRAPPED, functions[entry])
    arguments = list(program.names.arguments)
    locations = function.regions[0].blocks[0].locations or () if function.regions else ()
    for k, location in zip(program.kept, locations[len(locations) - len(program.kept) :], strict=False):
        place, found = arguments[k], source_location(location)
        inside = re.sub(r"^(args\[\d+\]|kwargs\['\w+'\])", "", place)
        name = found.op_name if found is not None else ""
        if inside != place and name.endswith(inside) and re.match(r"[A-Za-z_]\w*(\[|\.|$)", name):
            arguments[k] = name
    distinct = len(set(arguments)) == len(arguments)
    return replace(program.names, arguments=tuple(arguments)) if distinct else program.names


def _named(module: Module, program: LoweredFunction) -> Module:
    arguments = tuple(program.names.arguments[k] for k in program.kept)
    parameters = arrays_of(module)
    if len(parameters) != len(arguments):
        raise UnsupportedError(
            f"to_module: {len(parameters)} parameters for {len(arguments)} argument leaves: the program has "
            "arguments of its own"
        )
    module.rename([(p, identifier(name)) for p, name in zip(parameters, arguments, strict=True)], ())
    for parameter, name in zip(parameters, arguments, strict=True):
        place = parameter.extra.location or SourceLocation()
        module.entry.set_extra(parameter, replace(parameter.extra, location=replace(place, op_name=name)))
    others = [(n, v) for n, v in module.config.frontend_attributes if n != NAMES]
    module.set_config(frontend_attributes=tuple(sorted([*others, (NAMES, _names_text(program))])))
    return module


def arrays_of(module: Module) -> list[Instruction]:
    """The parameters of a module except tokens, which order effects and are not arguments."""
    return [p for p in module.entry.parameters if p.shape is not TOKEN]


def _names_text(program: LoweredFunction) -> str:
    return Names(tuple(program.names.arguments[k] for k in program.kept), program.names.results).text


def identifier(path: str) -> str:
    """Converts the path of a leaf to a name: `params['dense1']['kernel']` becomes `params_dense1_kernel`."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", path).strip("_")
    return name if name and not name[0].isdigit() else f"arg_{name}".rstrip("_")


def lowered(
    fn: Any, args: Sequence[Any], kwargs: dict[str, Any], given: Sequence[Any] = (), x64: bool | None = None
) -> LoweredFunction:
    """Lowers a function, or reads an export or its bytes. `given` has the values of the options in `_JIT`,
    None for options that are not set.
    """
    options = {name: value for name, value in zip(_JIT, given, strict=False) if value is not None}
    if isinstance(fn, bytes | bytearray):
        fn = _deserialized(bytes(fn))
    if isinstance(fn, jax.export.Exported):
        if args or kwargs or options:
            raise InvalidArgument("to_module: an export has its own arguments and options, found more")
        return _exported(fn)
    if not callable(fn):
        raise InvalidArgument(
            f"to_module: wanted a function, jax.export.Exported or its bytes, found {type(fn).__name__}"
        )
    with contextlib.nullcontext() if x64 is None else jax.enable_x64(x64):
        return traced(jitted(fn, options), args, kwargs)


def jitted(fn: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Applies `jax.jit` to a function; a jitted function without options is returned as it is."""
    if options or not isinstance(fn, private.PjitFunction):
        return jax.jit(fn, keep_unused=True, **options)
    return fn


def _deserialized(data: bytes) -> Any:
    try:
        return jax.export.deserialize(bytearray(data))
    except ImportError as error:
        raise UnsupportedError(
            f"{missing('to_module: a serialized export', 'flatbuffers', 'jax')}; "
            "exported.mlir_module_serialized is bytecode, which axla.parse takes without it"
        ) from error
    except Exception as error:  # flatbuffers reads offsets from any bytes, so any exception may follow
        raise ParseError(f"to_module: the bytes are not an export that this JAX reads, {error}") from None


def _exported(exported: Any) -> LoweredFunction:
    paths = _paths(exported.in_tree)
    arguments = tuple(path.removeprefix("[0]") if path.startswith("[0]") else path[3:] for path in paths)
    names = Names(
        tuple(
            f"args{a}" if p.startswith("[0]") else f"kwargs{a}" for a, p in zip(arguments, paths, strict=True)
        ),
        tuple(f"result{path}" for path in _paths(exported.out_tree)),
    )
    kept, platforms = tuple(exported.module_kept_var_idx), exported.platforms
    if not set(kept) <= set(range(len(arguments))):
        raise ParseError(f"to_module: the export keeps arguments {kept} of {len(arguments)}")
    leading = (platforms.index("cpu") if "cpu" in platforms else 0,) if len(platforms) > 1 else ()
    return LoweredFunction(
        exported.mlir_module_serialized, names, exported.in_tree, exported.out_tree, kept, leading, _x64()
    )


def _x64() -> bool:
    """Whether JAX uses 64-bit types now."""
    return bool(getattr(jax.config, "jax_enable_x64"))  # noqa: B009 - set when JAX is imported


def _paths(tree: Any) -> list[str]:
    """The paths of the leaves of a pytree, such as `[0]['w']`."""
    whole = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(whole)[0]]


def traced(jitted: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> LoweredFunction:
    """Traces and lowers a function that `jax.jit` returned, for arguments like these."""
    traced: Any = jitted.trace(*args, **kwargs)
    leaves = jax.tree_util.tree_leaves(traced.args_info)
    debug = traced.jaxpr.jaxpr.debug_info
    out_tree = jax.tree_util.tree_structure(traced.out_info)
    arguments = tuple(debug.arg_names or ())
    if len(arguments) != len(leaves):
        arguments = tuple(f"args[{n}]" for n in range(len(leaves)))
    results = tuple(debug.result_paths or ())
    if len(results) != out_tree.num_leaves:
        results = tuple(f"result{path}" for path in _paths(out_tree))
    names = Names(arguments, results)
    in_tree, kept = jax.tree_util.tree_structure(traced.args_info), tuple(range(len(leaves)))
    if any(not isinstance(size, int) for leaf in leaves for size in leaf.shape):
        exported = jax.export.export(jitted, platforms=("cpu",))(*args, **kwargs)  # type: ignore[arg-type]
        return replace(_exported(exported), names=names)
    constants = tuple(value for value in traced.jaxpr.consts if _is_large(value))
    lowered = None if constants else traced.lower(lowering_platforms=("cpu",))
    if lowered is None or _arguments(lowered.compiler_ir("stablehlo")) != len(leaves):
        lowered = _with_all(traced, leaves)
    return LoweredFunction(
        _bytecode(lowered.compiler_ir("stablehlo")), names, in_tree, out_tree, kept, x64=_x64(),
        functions=private.callbacks_of(lowered), results=tuple(traced.jaxpr.out_avals), constants=constants,
    )  # fmt: skip


def _is_large(value: Any) -> bool:
    """Whether a captured array becomes a parameter: as text or bytecode it would be copied many times."""
    plain = not jax.numpy.issubdtype(getattr(value, "dtype", bool), jax.dtypes.extended)
    return plain and getattr(value, "nbytes", 0) >= LARGE


def _with_all(traced: Any, leaves: Sequence[Any]) -> Any:
    """Lowers a traced function again, so that it keeps unused arguments and takes the large arrays that it
    captures as its first arguments.
    """
    closed = traced.jaxpr
    variables = list(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    large = [(variable, value) for variable, value in variables if _is_large(value)]
    small = [(variable, value) for variable, value in variables if not _is_large(value)]
    jaxpr = closed.jaxpr.replace(
        constvars=[variable for variable, _ in small],
        invars=[*(variable for variable, _ in large), *closed.jaxpr.invars],
        debug_info=closed.jaxpr.debug_info._replace(arg_names=None),
    )  # fmt: skip
    donated = tuple(len(large) + n for n, leaf in enumerate(leaves) if leaf.donated)
    whole = jax.extend.core.jaxpr_as_fun(closed.replace(jaxpr=jaxpr, consts=[value for _, value in small]))

    def flat(*values: Any) -> Any:
        return whole(*values)

    flat.__name__ = getattr(traced, "fun_name", "main")  # the name of the module
    jitted = jax.jit(flat, keep_unused=True, donate_argnums=donated)
    given = (*(value for _, value in large), *leaves)
    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in given]
    return jitted.trace(*shapes).lower(lowering_platforms=("cpu",))


def _arguments(module: Any) -> int:
    functions = (o for o in module.body.operations if o.operation.name == "func.func")
    for function in functions:
        if ir.StringAttr(function.attributes["sym_name"]).value == "main":
            return sum(not str(a.type).endswith("token") for a in function.arguments)
    return -1


def _bytecode(module: Any) -> bytes:
    """Serializes an MLIR module to portable bytecode, which has constants as bytes. It serializes a copy,
    since serialization changes a module and JAX keeps the original.
    """
    plain = io.BytesIO()
    module.operation.write_bytecode(plain)
    with module.context:
        copy = ir.Module.parse(plain.getvalue())
    version = stablehlo.get_current_version()
    return stablehlo.serialize_portable_artifact(copy, version, allow_other_dialects=True)
