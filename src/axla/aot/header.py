"""The C header of a library, P.h: sizes, structs of arguments and results, the functions, error messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap

from axla.aot.c_types import c_type, comment, literal, shared_block
from axla.aot.door import ALIGNMENT
from axla.aot.library import Function, Library, Role, Value, Weights
from axla.core.status import FIRST_MESSAGE


def write(library: Library) -> dict[str, str | bytes]:
    """The header file."""
    return {f"{library.prefix}.h": text(library)}


def text(library: Library) -> str:
    """The header's text, which the header of C++ begins with."""
    guard = f"AXLA_{library.prefix}_H"
    parts = [
        _about(library),
        f"#ifndef {guard}\n#define {guard}",
        shared_block(),
    ]
    if library.weights is Weights.FILE:
        parts.append(
            f"/* Bytes of the constants in {library.prefix}.weights: the last argument of the functions. */\n"
            f"#define {library.prefix}_WEIGHTS_SIZE {len(library.constants)}u"
        )
    if library.externals:
        parts.append(_externals(library))
    parts += [_function(function, library) for function in library.functions]
    if library.batches:
        parts.append(_batches(library))
    return "\n\n".join([*parts, f"#endif /* {guard} */\n"])


def signature(function: Function) -> str:
    """`(z: f32[2,2]) = foo::MatMul(x: f32[2,3], y: f32[3,2])`."""

    def several(values: Sequence[Value]) -> str:
        return ", ".join(f"{value.name}: {value.type}" for value in values)

    return f"({several(function.results)}) = {function.name}({several(function.arguments)})"


def takes_weights(library: Library) -> bool:
    """Whether the functions' last argument is the address of the constants."""
    return library.weights is Weights.FILE


def _about(library: Library) -> str:
    target, prefix = library.target, library.prefix
    features = ", ".join(sorted(target.features))
    if len(target.features) > 8:
        features = f"as {prefix}_report.txt lists them"
    features = f", features {features}" if features else ""
    count = len(library.functions)
    lines = [
        f"{library.name}: {count} function{'s' * (count > 1)} compiled by axla for "
        f"{target.name} ({target.triple}, CPU {target.cpu}{features}).",
        "",
        *(signature(function) for function in library.functions),
        "",
        *_memory(library),
        "",
        *_paragraphs(_CALLING.replace("SYMBOL", library.functions[0].symbol)),
    ]
    if library.packed:
        lines += ["", *_paragraphs(_PACKED)]
    if library.weights is Weights.SEPARATE:
        lines += ["", f"Link {prefix}.o together with {prefix}_weights.o."]
    if takes_weights(library):
        lines += [
            "",
            f"The constants are in {prefix}.weights. Load them to an address that is a multiple "
            f"of {ALIGNMENT} with {prefix}_loader.c, and pass it as the last argument, or as the constants "
            "of a frame.",
        ]
    wrapped = (line for text in lines for line in _wrapped(comment(text)))
    return "\n".join(["/*", *(f" * {line}".rstrip() for line in wrapped), " */"])


def _wrapped(line: str) -> list[str]:
    """Lines of a comment that breaks at spaces."""
    indent = "  " * line.startswith(" ") + "  " * line.startswith("(")
    return wrap(line, 106, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


def _paragraphs(text: str) -> list[str]:
    """Lines for `_wrapped`: paragraphs are one line each, and lines that are set in stay."""
    return re.sub(r"(?<!\n)(?<!,)\n(?=[^\n ])", " ", text).splitlines()


def _memory(library: Library) -> list[str]:
    lines = ["Memory in bytes:"]
    for function in library.functions:
        arguments = sum(value.bytes for value in function.arguments)
        results = sum(value.bytes for value in function.results)
        lines.append(
            f"  {function.symbol}: arguments {arguments}, results {results}, "
            f"workspace {function.workspace_bytes}"
        )
    return [*lines, f"  constants, in {library.constants_place}: {len(library.constants)}"]


_CALLING = """\
How to call: fill in SYMBOL_args and SYMBOL_results with addresses of row-major arrays, which are yours; give
a workspace of SYMBOL_WORKSPACE_SIZE bytes; call SYMBOL_run. It gives AXLA_OK (0), or a code for SYMBOL_error.

Alignment: arrays to their elements; workspace and constants to 64 bytes. A workspace of 0 bytes may be NULL.
Results share no memory with arguments, the workspace or each other. An argument that is not const is a
variable: it is read, and its new value is written in its place.

Threads: nothing is kept between calls and no memory is allocated. Calls may run at the same time, each with a
workspace, results and variables of its own. A call runs on the thread that makes it, unless it is made
through SYMBOL_run_frame with axla_frame.parallel_for set: that is given a kernel, args, a count and a
grain, and runs
  kernel(frame, args, 0, grain), kernel(frame, args, grain, 2 * grain), ... up to count,
in any order and on any threads; it returns when all have ended, 0 or the code of the lowest range that
failed. How work is split never depends on the number of threads, so results are the same bits with
any number.
axla_frame.pool is for what parallel_for needs.

The frame: set all of it to zero, then version to AXLA_FRAME_VERSION, and arguments, results and workspace.
Zero means the default for all else. cancel: address of a flag; once it is not 0, the run ends soon with
AXLA_CANCELLED. rng_state: the state of random numbers, which each run moves on; begin with AXLA_RNG_SEED, as
SYMBOL_run always does. A frame is used by one call at a time."""


_PACKED = """\
Packed arrays of s4 and u4 have two elements a byte, in row-major order: element 0 in the low four bits of
byte 0, element 1 in the high four. Behind an odd number of elements the high bits are 0 in results, and do
not count in arguments."""


def _externals(library: Library) -> str:
    return "\n".join([
        "/* Functions that the library calls and that you link. `in` has the addresses of the operands,",
        "`out` is the address of the result; of a tuple, of an array with the addresses of its elements. */",
        "#ifdef __cplusplus", 'extern "C" {', "#endif",
        *(f"void {name}(void *out, void **in);" for name in library.externals),
        "#ifdef __cplusplus", "}", "#endif",
    ])  # fmt: skip


def _function(function: Function, library: Library) -> str:
    symbol, weights = function.symbol, ", const void *weights" * takes_weights(library)
    return "\n".join([
        f"/* {function.name} */",
        f"#define {symbol}_NUM_ARGS {len(function.arguments)}",
        f"#define {symbol}_NUM_RESULTS {len(function.results)}",
        f"#define {symbol}_WORKSPACE_SIZE {function.workspace_bytes}u",
        f"#define {symbol}_ALIGNMENT {ALIGNMENT}",
        *(line for value in function.arguments for line in _sizes(f"{symbol}_ARG", value)),
        *(line for value in function.results for line in _sizes(f"{symbol}_RESULT", value)),
        "",
        *_struct(f"{symbol}_args", function.arguments),
        *_struct(f"{symbol}_results", function.results),
        "",
        "#ifdef __cplusplus", 'extern "C" {', "#endif",
        f"int32_t {symbol}_run(const {symbol}_args *args, const {symbol}_results *results,",
        f"    void *workspace{weights});",
        f"int32_t {symbol}_run_frame(axla_frame *frame);",
        "#ifdef __cplusplus", "}", "#endif",
        "",
        *_messages(function),
    ])  # fmt: skip


def _sizes(prefix: str, value: Value) -> list[str]:
    return [
        f"#define {prefix}_{value.name}_SIZE {value.bytes}u",
        f"#define {prefix}_{value.name}_COUNT {value.count}u",
    ]


def _struct(name: str, values: Sequence[Value]) -> list[str]:
    lines = [f"typedef struct {name} {{"]
    for value in values:
        const = "const " if value.role in (Role.ARGUMENT, Role.CONSTANT_VARIABLE) else ""
        about = value.type
        if value.label != value.name:
            about += f": {value.label}"
        if value.role in (Role.VARIABLE, Role.CONSTANT_VARIABLE):
            about += f" ({value.role.value})"
        lines.append(f"  {const}{c_type(value.dtype)} *{value.name}; /* {comment(about)} */")
    if not values:
        lines.append("  void *unused;")
    return [*lines, f"}} {name};"]


def _messages(function: Function) -> list[str]:
    own = [
        f"    case {FIRST_MESSAGE + number}: return {literal(message)};"
        for number, message in enumerate(function.interface.messages)
    ]
    head = f"static inline const char *{function.symbol}_error(int32_t code)"
    if not own:
        return [f"{head} {{ return axla_error(code); }}"]
    return [f"{head} {{", "  switch (code) {", *own, "    default: return axla_error(code);", "  }", "}"]


def _batches(library: Library) -> str:
    """A function that takes the number of rows, and calls the one that was compiled for it."""
    prefix = library.prefix
    functions = [(rows, library.functions[number]) for rows, number in library.batches]
    first = functions[0][1].symbol
    room = max(function.workspace_bytes for _, function in functions)
    weights, given = (", const void *weights", ", weights") if takes_weights(library) else ("", "")
    lines = [
        "/* The function compiled for a number of rows; AXLA_NO_BATCH when there is none. Arrays have that",
        " * many rows; the workspace is for the largest. */",
        f"#define {prefix}_BATCH_WORKSPACE_SIZE {room}u",
        f"typedef {first}_args {prefix}_batch_args;",
        f"typedef {first}_results {prefix}_batch_results;",
        f"static inline int32_t {prefix}_run_batch(int64_t rows, const {prefix}_batch_args *args,",
        f"    const {prefix}_batch_results *results, void *workspace{weights}) {{",
        "  const void *all = args, *into = results;",
    ]
    for rows, function in functions:
        symbol = function.symbol
        table = f"AXLA_CAST(const {symbol}_args *, all), AXLA_CAST(const {symbol}_results *, into)"
        lines.append(f"  if (rows == {rows}) return {symbol}_run({table}, workspace{given});")
    return "\n".join([*lines, "  return AXLA_NO_BATCH;", "}"])
