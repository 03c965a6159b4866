"""Writes `P_report.txt`: sizes, memory and work of a library, for people; and `P.json`, for tools."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from axla.analysis.cost import cost
from axla.aot.library import CompiledLibrary, LibraryFunction, LibraryValue, Weights
from axla.aot.metadata import manifest
from axla.codegen.object_files import CodeSizes, sizes, symbols


def write(library: CompiledLibrary) -> dict[str, str | bytes]:
    """The files `P_report.txt` and `P.json`: {name: contents}."""
    prefix = library.prefix
    return {f"{prefix}_report.txt": text(library), f"{prefix}.json": manifest(library).to_json()}


def text(library: CompiledLibrary) -> str:
    """The text of the report."""
    return "\n".join([*_head(library), *_memory(library), *_work(library), *_symbols(library), ""])


def _head(library: CompiledLibrary) -> Iterator[str]:
    target = library.target
    yield f"{library.name} for {target.name}"
    about = f"CPU {target.cpu or 'of the triple'}, {8 * target.form.pointer_bytes}-bit addresses"
    yield f"  triple    {target.triple}, {about}{', big-endian' * (target.form.byte_order == 'big')}"
    features = (
        ", ".join(sorted(target.features, key=lambda name: (name[0] == "-", name))) or "those of the CPU"
    )
    yield from textwrap.wrap(
        features, 110, initial_indent="  features  ", subsequent_indent=" " * 12, break_on_hyphens=False
    )
    for function in library.functions:
        yield f"  {function.signature}"
    for rows, number in library.batches:
        yield f"  for {rows} rows: {library.functions[number].symbol}"


def _memory(library: CompiledLibrary) -> Iterator[str]:
    found = _code(library)
    constants = len(library.constants)
    yield "\nSizes in bytes"
    yield f"  code       {found.code:>14,}"
    yield f"  tables     {found.data:>14,}   read only, in {library.prefix}.o"
    yield f"  constants  {constants:>14,}   in {library.constants_place}"
    for function in library.functions:
        yield f"  {function.symbol}"
        yield f"    workspace  {function.workspace_bytes:>12,}"
        for what, values in _kinds(function):
            yield f"    {what:<10} {sum(v.bytes for v in values):>12,}   {', '.join(v.name for v in values)}"
    if (library.target.form.format, library.target.form.relocation) == ("elf", "static"):
        flash = found.code + found.data + (0 if library.takes_weights else constants)
        most = max(f.workspace_bytes + f.array_bytes for f in library.functions)
        yield "\nOn a microcontroller"
        yield f"  flash      {flash:>14,}   code, tables and constants"
        yield f"  RAM        {most:>14,}   workspace, arguments, variables, results; not the stack"


def _kinds(function: LibraryFunction) -> list[tuple[str, tuple[LibraryValue, ...]]]:
    kept = function.variables
    given = tuple(value for value in function.arguments if value not in kept)
    rows = [("arguments", given), ("variables", kept), ("results", function.results)]
    return [(what, values) for what, values in rows if values]


def _code(library: CompiledLibrary) -> CodeSizes:
    """The size of P.o without the constants segment, in bytes."""
    found = sizes(library.image)
    inside = len(library.constants) if library.weights is Weights.OBJECT else 0
    return CodeSizes(found.code, found.data - inside)


def _work(library: CompiledLibrary) -> Iterator[str]:
    yield "\nWork of one run, as XLA counts it, before optimization"
    for function in library.functions:
        found = cost(function.module)
        least = "" if found.exact else "   at least: how often a loop runs is not known"
        yield f"  {function.symbol}{least}"
        yield f"    operations             {found.operations:>16,}   a multiply-add is two"
        yield f"    transcendentals        {found.transcendentals:>16,}   exp, tanh and their like"
        yield f"    bytes accessed         {found.bytes:>16,}   operands and results of every operation"
        yield f"    arguments and results  {function.array_bytes:>16,}"


def _symbols(library: CompiledLibrary) -> Iterator[str]:
    found = symbols(library.image)
    yield "\nSymbols"
    yield f"  defined  {', '.join(sorted(found.defined))}"
    apart = f" ({library.prefix}_weights.o has it)" if library.weights is Weights.SEPARATE else ""
    if library.externals:
        yield f"  external {', '.join(library.externals)}   functions that you link"
    yield f"  needed   {', '.join(sorted(found.needed)) + apart if found.needed else 'none'}"
