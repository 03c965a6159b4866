"""The C header of a library, P.h: sizes, structs of arguments and results, the functions, error messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap

from axla.aot.c_types import c_type, comment, literal, shared_block
from axla.aot.exported_functions import ALIGNMENT
from axla.aot.library import CompiledLibrary, LibraryFunction, LibraryValue, Role, Weights
from axla.core.status import FIRST_MESSAGE
from axla.core.templates import fill


def write(library: CompiledLibrary) -> dict[str, str | bytes]:
    """The header file: {name: contents}."""
    return {f"{library.prefix}.h": text(library)}


def text(library: CompiledLibrary) -> str:
    """The text of the header, with which the C++ header begins."""
    guard = f"AXLA_{library.prefix}_H"
    parts = [_about(library), f"#ifndef {guard}\n#define {guard}", shared_block()]
    if library.takes_weights:
        parts.append(
            f"/* Bytes of the constants in {library.prefix}.weights: the last argument of the functions. */\n"
            f"#define {library.prefix}_WEIGHTS_SIZE {len(library.constants)}u"
        )
    if library.externals:
        functions = [f"void {name}(void *out, void **in);" for name in library.externals]
        parts.append(fill("aot/externals.h", EXTERNALS=functions))
    parts += [_function(function, library) for function in library.functions]
    if library.batches:
        parts.append(_batches(library))
    return "\n\n".join([*parts, f"#endif /* {guard} */\n"])


def _about(library: CompiledLibrary) -> str:
    target, prefix = library.target, library.prefix
    features = ", ".join(sorted(target.features))
    if len(target.features) > 8:
        features = f"as {prefix}_report.txt lists them"
    features = f", features {features}" if features else ""
    count = len(library.functions)
    lines = [
        f"{library.name}: {count} function{'s' * (count > 1)} compiled by axla for "
        f"{target.name} ({target.triple}, CPU {target.cpu or 'of the triple'}{features}).",
        "",
        *(function.signature for function in library.functions),
        "",
        *_memory(library),
        "",
        *_paragraphs(fill("aot/calling.txt", SYMBOL=library.functions[0].symbol)),
    ]
    if library.packed:
        lines += ["", *_paragraphs(fill("aot/packed.txt"))]
    if library.weights is Weights.SEPARATE:
        lines += ["", f"Link {prefix}.o together with {prefix}_weights.o."]
    if library.takes_weights:
        lines += [
            "",
            f"The constants are in {prefix}.weights. Load them to an address that is a multiple "
            f"of {ALIGNMENT} with {prefix}_loader.c, and pass it as the last argument, or as the constants "
            "of a frame.",
        ]
    wrapped = (line for text in lines for line in _wrapped(comment(text)))
    return "\n".join(["/*", *(f" * {line}".rstrip() for line in wrapped), " */"])


def _wrapped(line: str) -> list[str]:
    """Breaks a line of a comment at spaces."""
    indent = "  " * line.startswith(" ") + "  " * line.startswith("(")
    return wrap(line, 106, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


def _paragraphs(text: str) -> list[str]:
    """Lines for `_wrapped`: each paragraph becomes one line; indented lines are kept."""
    return re.sub(r"(?<!\n)(?<!,)\n(?=[^\n ])", " ", text).splitlines()


def _memory(library: CompiledLibrary) -> list[str]:
    lines = ["Memory in bytes:"]
    for function in library.functions:
        arguments = sum(value.bytes for value in function.arguments)
        results = sum(value.bytes for value in function.results)
        lines.append(
            f"  {function.symbol}: arguments {arguments}, results {results}, "
            f"workspace {function.workspace_bytes}"
        )
    return [*lines, f"  constants, in {library.constants_place}: {len(library.constants)}"]


def _function(function: LibraryFunction, library: CompiledLibrary) -> str:
    symbol, arguments, results = function.symbol, function.arguments, function.results
    sizes = [line for value in arguments for line in _sizes(f"{symbol}_ARG", value)]
    sizes += [line for value in results for line in _sizes(f"{symbol}_RESULT", value)]
    return fill(
        "aot/function.h", NAME=str(function.name), SYMBOL=symbol, ARGCOUNT=str(len(arguments)),
        RESULTCOUNT=str(len(results)), WORKSPACE=f"{function.workspace_bytes}u", ALIGNMENT=str(ALIGNMENT),
        SIZES=sizes, ARGS=_fields(arguments), RESULTS=_fields(results),
        MEMORY=_memory_parameters(library), ERROR=_messages(function),
    )  # fmt: skip


def _memory_parameters(library: CompiledLibrary) -> str:
    return f"void *workspace{', const void *weights' * library.takes_weights}"


def _sizes(prefix: str, value: LibraryValue) -> list[str]:
    return [
        f"#define {prefix}_{value.name}_SIZE {value.bytes}u",
        f"#define {prefix}_{value.name}_COUNT {value.count}u",
    ]


def _fields(values: Sequence[LibraryValue]) -> list[str]:
    lines = []
    for value in values:
        const = "" if value.is_written else "const "
        about = value.type
        if value.label != value.name:
            about += f": {value.label}"
        if value.role in (Role.VARIABLE, Role.CONSTANT_VARIABLE):
            about += f" ({value.role.value})"
        lines.append(f"  {const}{c_type(value.dtype)} *{value.name}; /* {comment(about)} */")
    return lines or ["  void *unused;"]


def _messages(function: LibraryFunction) -> list[str]:
    own = [
        f"    case {FIRST_MESSAGE + number}: return {literal(message)};"
        for number, message in enumerate(function.interface.messages)
    ]
    head = f"static inline const char *{function.symbol}_error(int32_t code)"
    if not own:
        return [f"{head} {{ return axla_error(code); }}"]
    return [f"{head} {{", "  switch (code) {", *own, "    default: return axla_error(code);", "  }", "}"]


def _batches(library: CompiledLibrary) -> str:
    """The text of the C functions that take a number of rows, and call the function compiled for this
    number.
    """
    functions = [(rows, library.functions[number]) for rows, number in library.batches]
    given = ", weights" * library.takes_weights
    calls = []
    for rows, function in functions:
        symbol = function.symbol
        table = f"AXLA_CAST(const {symbol}_args *, all), AXLA_CAST(const {symbol}_results *, into)"
        calls.append(f"  if (rows == {rows}) return {symbol}_run({table}, workspace{given});")
    return fill(
        "aot/batches.h", PREFIX=library.prefix, FIRST=functions[0][1].symbol,
        ROOM=f"{max(function.workspace_bytes for _, function in functions)}u",
        MEMORY=_memory_parameters(library), CALLS=calls,
    )  # fmt: skip
