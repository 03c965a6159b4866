"""Writes C programs that come with a library: an example, a self-test with recorded calls, a benchmark.

They are C99 and need no heap when a function's memory is below 1 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from axla.analysis.coalesce import element_alignment
from axla.aot.c_types import c_type, comment, is_bits, literal, number
from axla.aot.library import CompiledLibrary, LibraryFunction, LibraryValue, Role, Weights
from axla.aot.recordings import Recording
from axla.comparison import NARROW, TOLERANCES
from axla.core.dtypes import DType
from axla.core.literal import bytes_in
from axla.core.templates import fill
from axla.target.machine import ALIGNMENT, aligned

STATIC = 1 << 20
"""The number of bytes from which the programs allocate memory on the heap."""

EMBEDDED = 64 << 10
"""The largest size in bytes of recordings that are part of the test program; larger ones are in a file."""

_SHOWN = 8  # elements of a result that the example prints
_PER_LINE = 20  # bytes of data
_KINDS = {"f32": "f", "f64": "d", "f16": "h", "bf16": "b"}  # the types that value() of the test converts
_TABLE = "0ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def write(library: CompiledLibrary, recordings: Sequence[Recording] = ()) -> dict[str, str | bytes]:
    """The files by name: example.c, P_test.c, P_benchmark.c; and P_test.bin when the recordings are large.

    There is one recording per function, in order. Without recordings, the test runs each function twice and
    compares the results.
    """
    prefix = library.prefix
    data = b"".join(_recorded(recording, library.target.form.byte_order) for recording in recordings)
    found: dict[str, str | bytes] = {
        "example.c": _example(library),
        f"{prefix}_test.c": _test(library, recordings, data),
        f"{prefix}_benchmark.c": _benchmark(library),
    }
    if _aside(library, data):
        found[f"{prefix}_test.bin"] = data
    return found


def _has_files(library: CompiledLibrary) -> bool:
    """Whether the target has an operating system, with files and a heap."""
    return library.target.form.relocation != "static"


def _aside(library: CompiledLibrary, data: bytes) -> bool:
    """Whether recordings are stored in a file beside the test program."""
    return len(data) > EMBEDDED and _has_files(library)


def _recorded(recording: Recording, byte_order: str) -> bytes:
    """The bytes of a recording in the order in which the test program reads them."""
    arrays = (*recording.arguments, *recording.results, *(v for v in recording.variables if v is not None))
    return b"".join(bytes_in(array, byte_order) for array in arrays)


def _memory(function: LibraryFunction) -> int:
    """The number of bytes of everything that a call needs, with space to align each array to a cache line."""
    sizes = [value.bytes for value in (*function.arguments, *function.results)]
    return sum(aligned(size + ALIGNMENT) for size in (*sizes, function.workspace_bytes))


def _head(template: str, library: CompiledLibrary) -> list[str]:
    """The beginning of the test or the benchmark: the text `template`, the weights, and the memory that the
    functions use in turn.
    """
    total = max(map(_memory, library.functions))
    start = fill("aot/arena_static.c")
    if total >= STATIC and _has_files(library):
        start = fill("aot/arena_heap.c", STATIC=start)
    arena = fill("aot/arena.c", BYTES=f"{total}u", START=start)
    return [template, *_weights(library), arena]


def _weights(library: CompiledLibrary) -> list[str]:
    return [fill("aot/weights.c", PREFIX=library.prefix)] if library.takes_weights else []


def _arrays(function: LibraryFunction, *kinds: str) -> Iterator[tuple[LibraryValue, str, str]]:
    """Yields the arguments ("arg") and results ("result") that `kinds` names, each with its C variable and
    the prefix of its macros.
    """
    for kind in kinds:
        for value in function.arguments if kind == "arg" else function.results:
            yield value, f"{kind}_{value.name}", f"{function.symbol}_{kind.upper()}_{value.name}"


def _value_pointers(function: LibraryFunction, *, least: bool = False) -> list[str]:
    """Statements that take memory for each argument and result, aligned to a cache line; with `least`,
    aligned only as far as the elements require.
    """
    lines = []
    for value, name, macro in _arrays(function, "arg", "result"):
        element, role = c_type(value.dtype), "v" if value.role is Role.VARIABLE else name[0]
        alignment = element_alignment(value.shape) if least else ALIGNMENT
        lines.append(f"  {element} *{name} = ({element} *)take('{role}', {macro}_SIZE, {alignment}u);")
    return lines


def _structs(function: LibraryFunction, args: str, results: str) -> list[str]:
    lines = [f"  {args}.{value.name} = arg_{value.name};" for value in function.arguments]
    lines += [f"  {results}.{value.name} = result_{value.name};" for value in function.results]
    lines += [f"  {args}.unused = NULL;"] * (not function.arguments)
    return lines + [f"  {results}.unused = NULL;"] * (not function.results)


def _fill(value: LibraryValue) -> list[str]:
    """Statements that fill an argument with small fixed numbers."""
    name, dtype = f"arg_{value.name}", value.dtype
    if not value.count:
        return ["  (void)i;"]  # the variable i is not used otherwise
    loop = f"  for (i = 0; i < {value.count}u; ++i)" if value.count != 1 else "  i = 0;"
    number = "0.25f * (float)(i % 7) - 0.5f"
    if dtype.is_complex:
        part = c_type(dtype.real)
        parts = f"{name}[i].re = ({part})({number}); {name}[i].im = ({part})(i % 2);"
        return [f"{loop} {{ {parts} }}"]
    if is_bits(dtype):
        return [f"{loop} {name}[i].bits = (uint8_t)(i % 8);"]
    if dtype.name in ("f16", "bf16"):
        return [f"{loop} {name}[i] = axla_{dtype.name}_from_float({number});"]
    if dtype.is_float:
        return [f"{loop} {name}[i] = {number};"]
    if dtype.is_pred:
        return [f"{loop} {name}[i] = i % 2 == 0;"]
    numbers = 3 if dtype.bits > 2 else 2 if dtype.bits == 2 or dtype.is_unsigned else 1
    return [f"{loop} {name}[i] = ({c_type(dtype)})(i % {numbers});"]


def _numbers(function: LibraryFunction) -> list[str]:
    """Statements that fill all arguments with small fixed numbers."""
    return [line for value in function.arguments for line in _fill(value)]


def _call(
    function: LibraryFunction, library: CompiledLibrary, args: str, results: str, workspace: str, *,
    test: bool = False,
) -> str:  # fmt: skip
    run = f"{function.symbol}_run"
    given = f"&{args}, &{results}, {workspace}{', weights' * library.takes_weights}"
    return f"AXLA_TEST_RUN({run}, {run}_frame, {given})" if test else f"{run}({given})"


# The example.


def _example(library: CompiledLibrary) -> str:
    prefix = library.prefix
    heap = any(_memory(function) >= STATIC for function in library.functions)
    parts = [f"{prefix}.o"] + [f"{prefix}_weights.o"] * (library.weights is Weights.SEPARATE)
    parts += [f"{prefix}_loader.c"] * library.takes_weights
    return "\n\n".join([
        fill("aot/example.c", NAME=str(library.name), PARTS=" ".join(parts), PREFIX=prefix),
        *([fill("aot/example_heap.c")] if heap else []),
        *_weights(library),
        *(_example_call(function, library) for function in library.functions),
        _main(library, [f"bad |= run_{function.symbol}();" for function in library.functions]),
    ])  # fmt: skip


def _example_call(function: LibraryFunction, library: CompiledLibrary) -> str:
    symbol = function.symbol
    heap = _memory(function) >= STATIC
    arrays = []
    for value, name, macro in _arrays(function, "arg", "result"):
        element = c_type(value.dtype)
        if heap:
            arrays.append(f"  {element} *{name} = ({element} *)allocate({macro}_SIZE);")
        else:
            arrays.append(f"  static {element} {name}[{f'{macro}_COUNT' if value.count else 1}];")
    if heap:
        arrays.append(f"  void *workspace = allocate({symbol}_WORKSPACE_SIZE);")
    else:
        arrays.append(f"  static unsigned char memory[{symbol}_WORKSPACE_SIZE + {symbol}_ALIGNMENT];")
        arrays.append("  void *workspace = aligned(memory);")
    shown = [(value, name) for value, name, _ in _arrays(function, "result", "arg") if value.is_written]
    return fill(
        "aot/example_function.c", SIGNATURE=comment(function.signature), SYMBOL=symbol, ARRAYS=arrays,
        COUNTER=_counter(function.arguments or function.results),
        STRUCTS=_structs(function, "args", "results"), NUMBERS=_numbers(function),
        CALL=_call(function, library, "args", "results", "workspace"),
        PRINT=[line for value, name in shown for line in _print(function, value, name)],
    )  # fmt: skip


def _counter(used: object) -> list[str]:
    return ["  size_t i;"] if used else []


def _print(function: LibraryFunction, value: LibraryValue, name: str) -> list[str]:
    """Statements that print the first elements of an array."""
    dtype = value.dtype
    if dtype.is_complex:
        form, what = " %g%+gi", f"(double){name}[i].re, (double){name}[i].im"
    elif is_bits(dtype):
        form, what = " 0x%02x", f"(unsigned){name}[i].bits"
    else:
        form, what = " %.9g" if dtype.is_integer else " %g", number(dtype, f"{name}[i]")
    head = literal(f"{function.symbol}: {value.name} {value.type} =")
    most = min(value.count, _SHOWN)
    return [
        f"  printf({head});",
        f'  for (i = 0; i < {most}u; ++i) printf("{form}", {what});' if most else "  (void)i;",
        f'  printf("{" ..." if value.count > most else ""}\\n");',
    ]


def _main(
    library: CompiledLibrary, calls: Sequence[str], *, begin: Sequence[str] = (), argv: bool = False
) -> str:
    """The text of the function main: it loads files, executes the statements `begin` and makes the calls; its
    status is 0 if all succeeded. `argv` is whether it has the arguments of the command line.
    """
    lines = ["int main(int argc, char **argv) {" if argv else "int main(void) {", "  int bad = 0;"]
    if library.takes_weights:
        lines.append("  if (!load_weights()) return 2;")
    lines += [f"  {line}" for line in (*begin, *calls)]
    return "\n".join([*lines, "  return bad;", "}", ""])


# The self-test.


def _test(library: CompiledLibrary, recordings: Sequence[Recording], data: bytes) -> str:
    prefix = library.prefix
    aside = _aside(library, data)
    body: list[str] = []
    tables: dict[DType, str] = {}  # 8-bit floats, which are compared by value
    for k, function in enumerate(library.functions):
        if recordings:
            body.append(_recorded_test(function, library, recordings[k], tables))
        else:
            body.append(_repeated_test(function, library))
    files = [fill("aot/test_refusal.c"), ""] if aside or library.takes_weights else []
    parts = _head(fill("aot/test.c", FILES=files, PREFIX=prefix), library)
    work = "\n".join(body)  # functions without arguments or results use fewer helpers
    if "get(" in work or "check(" in work:
        source = (
            fill("aot/test_file.c", PREFIX=prefix) if aside else fill("aot/test_data.c", DATA=_bytes(data))
        )
        parts += [source, *map(_float_table, tables, tables.values())]
    if "check(" in work:
        parts.append(fill("aot/test_check.c", TABLES=map(_table_case, tables.values())))
    if "hash(" in work:
        parts.append(fill("aot/test_hash.c"))
    parts += body
    begin = ["if (!start()) return 2;"]
    begin += ["if (!open_data(argc, argv)) return 2;"] * aside
    calls = [f"bad |= test_{function.symbol}();" for function in library.functions]
    calls.append('AXLA_TEST_PRINT(bad ? "FAILED\\n" : "PASSED\\n");')
    return "\n\n".join([*parts, _main(library, calls, begin=begin, argv=aside)])


def _recorded_test(
    function: LibraryFunction, library: CompiledLibrary, recording: Recording, tables: dict[DType, str]
) -> str:
    """The C text of a call with recorded arguments, and of the comparison of each result. `tables`: as in
    `_compared`.
    """
    arrays, found = _arrays(function, "result", "arg"), (*recording.results, *recording.variables)
    checks = [
        f"  bad |= {_compared(value, array, name, recording.exact, tables)}"
        for (value, name, _), array in zip(arrays, found, strict=True)
        if array is not None
    ]
    given = [f"  get({name}, {macro}_SIZE);" for _, name, macro in _arrays(function, "arg")]
    return fill("aot/test_recorded.c", **_of_test(function, library), GET=given, CHECKS=checks)


def _repeated_test(function: LibraryFunction, library: CompiledLibrary) -> str:
    """Two calls with the same arguments, which must compute the same bits."""
    arrays = _arrays(function, "result", "arg")
    return fill(
        "aot/test_repeated.c", **_of_test(function, library), COUNTER=_counter(function.arguments),
        NUMBERS=[f"  {line}" for line in _numbers(function)],
        HASHES=[f"    hashes[turn] = hash(hashes[turn], {name}, {macro}_SIZE);" for _, name, macro in arrays],
    )  # fmt: skip


def _of_test(function: LibraryFunction, library: CompiledLibrary) -> dict[str, str | list[str]]:
    return {
        "SYMBOL": function.symbol,
        "ARRAYS": _value_pointers(function, least=True),
        "ALIGNMENT": f"{ALIGNMENT}u",
        "STRUCTS": _structs(function, "args", "results"),
        "CALL": _call(function, library, "args", "results", "workspace", test=True),
    }


def _compared(
    value: LibraryValue, array: np.ndarray, name: str, exact: bool, tables: dict[DType, str]
) -> str:
    """The C call that compares the array `name` with the recorded one, for equal bits if `exact`, else within
    tolerances. Adds to `tables` a letter for each 8-bit float type that needs a table of its values.
    """
    dtype, count = value.dtype.real, value.count * (2 if value.dtype.is_complex else 1)
    relative = absolute = 0.0
    letter = _KINDS.get(dtype.name, "")
    if dtype.is_float and not letter:
        letter = tables.setdefault(dtype, _TABLE[len(tables) + 1])
    if dtype.is_float and not exact:
        relative, absolute = TOLERANCES.get(dtype.name, NARROW)
        absolute *= _scale(array)
    return (
        f"check({literal(value.name)}, '{letter or '0'}', {name}, {dtype.itemsize}u, {count}u, "
        f"{relative!r}, {absolute!r});"
    )


def _scale(array: np.ndarray) -> float:
    """The scale of absolute differences, as in `axla.comparison`."""
    parts = [np.real(array), np.imag(array)] if np.iscomplexobj(array) else [array]
    finite = np.concatenate([np.ravel(part).astype(np.float64) for part in parts])
    return max(1.0, float(np.abs(finite[np.isfinite(finite)]).max(initial=0.0)))


def _float_table(dtype: DType, letter: str) -> str:
    """A C table `values_LETTER` of all values of an 8-bit float type, as the bits of f32. Its index is the
    byte of the value.
    """
    every = np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy).astype(np.float32).view(np.uint32)
    rows = [every[k : k + 8] for k in range(0, len(every), 8)]
    lines = [", ".join(f"0x{word:08X}u" for word in row) + "," for row in rows]
    return "\n".join([f"static const uint32_t values_{letter}[] = {{ /* {dtype.name} */", *lines, "};"])


def _table_case(letter: str) -> str:
    return f"    case '{letter}': number.bits = values_{letter}[*(const unsigned char *)at]; break;"


def _bytes(data: bytes) -> list[str]:
    hexed = [f"0x{byte:02x}" for byte in data] or ["0"]
    rows = ["  " + ",".join(hexed[k : k + _PER_LINE]) for k in range(0, len(hexed), _PER_LINE)]
    return [",\n".join(rows)]


# The benchmark.


def _benchmark(library: CompiledLibrary) -> str:
    calls = [
        f'bad |= setup_{f.symbol}() || measure("{f.symbol}", run_{f.symbol}, {f.symbol}_error, seconds);'
        for f in library.functions
    ]
    begin = ["const double seconds = argc > 1 ? atof(argv[1]) : 1.0;", "if (!start()) return 2;"]
    return "\n\n".join([
        *_head(fill("aot/benchmark.c", PREFIX=library.prefix), library),
        fill("aot/benchmark_measure.c"),
        *(_setup(function, library) for function in library.functions),
        _main(library, calls, begin=begin, argv=True),
    ])  # fmt: skip


def _setup(function: LibraryFunction, library: CompiledLibrary) -> str:
    symbol = function.symbol
    args, results = f"args_{symbol}", f"results_{symbol}"
    return fill(
        "aot/benchmark_function.c", SYMBOL=symbol, COUNTER=_counter(function.arguments),
        ARRAYS=_value_pointers(function), ALIGNMENT=f"{ALIGNMENT}u",
        STRUCTS=_structs(function, args, results), NUMBERS=_numbers(function),
        CALL=_call(function, library, args, results, f"workspace_{symbol}"),
    )  # fmt: skip
