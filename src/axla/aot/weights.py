"""Writes weights outside of the object: `P.weights`, and the C code that loads it and the values of
variables.

`P.weights` is a safetensors file whose data is the constants segment, so that it can be memory-mapped, and
read by other tools. The format allows no gaps: padding between tensors is an entry of bytes. `P_loader.c` and
`.h` open it, and set variables from any safetensors file, by name.
"""

from __future__ import annotations

from collections import Counter

from axla.aot.c_types import comment, literal
from axla.aot.library import CompiledLibrary, LibraryFunction
from axla.core.dtypes import U8
from axla.core.errors import InternalError
from axla.core.templates import fill
from axla.runtime.loader import digest_of
from axla.runtime.safetensors import TensorEntry, header, stored

FORMAT = "axla.weights.1"


def write(library: CompiledLibrary) -> dict[str, str | bytes]:
    """The files by name: `P.weights`, if the constants are in a file; and the loader, if constants or values
    of variables are loaded.
    """
    prefix = library.prefix
    found: dict[str, str | bytes] = {}
    head = b""
    if library.takes_weights:
        head = weights_header(library)
        found[f"{prefix}.weights"] = b"".join((head, library.constants))
    if library.has_loader:
        found[f"{prefix}_loader.h"] = _header(library)
        found[f"{prefix}_loader.c"] = _source(library, head)
    return found


def weights_header(library: CompiledLibrary) -> bytes:
    """The header of `P.weights`, before the constants."""
    about = {"format": FORMAT, "library": str(library.name), "digest": digest_of(library.constants)}
    if library.target.form.byte_order == "big":  # the data is used as it is; the format has no byte order
        about["byte_order"] = "big"
    return header(_entries(library), about)


def file_facts(library: CompiledLibrary, head: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """The facts about `P.weights` that loaders check, by name, with their values as text. Returns the sizes
    in bytes of the header `head` and of the data, and the digests of both.
    """
    data = library.constants
    return (
        {"HEADERSIZE": str(len(head)), "DATASIZE": str(len(data))},
        {"HEADERDIGEST": f"0x{digest_of(head)}", "DATADIGEST": f"0x{digest_of(data)}"},
    )


def _entries(library: CompiledLibrary) -> dict[str, TensorEntry]:
    """The tensors and the padding between them, in the order of offsets."""
    found: dict[str, TensorEntry] = {}
    at = 0

    def pad(to: int) -> None:
        if to != at:
            found[f"padding.{at}"] = TensorEntry(U8, (to - at,), at, to)

    for tensor in library.tensors:
        if tensor.offset < at:
            raise InternalError(f"{library.name}: tensor {tensor.name} overlaps the one before")
        pad(tensor.offset)
        at = tensor.offset + tensor.shape.byte_size
        name = tensor.name
        while name in found or name == "__metadata__" or name.startswith("padding."):
            name += "_"
        found[name] = TensorEntry(tensor.shape.dtype, tensor.shape.dims, tensor.offset, at)
    pad(len(library.constants))
    return found


def _header(library: CompiledLibrary) -> str:
    prefix = library.prefix
    lines = []
    if library.takes_weights:
        lines += [
            f"/* {prefix}.weights: `out->data` is the last argument of the functions of {prefix}.h. */",
            f"int32_t {prefix}_weights_open(const char *path, {prefix}_weights *out);",
            f"#define {prefix}_NUM_TENSORS {len(library.tensors)}",
            f"extern const axla_tensor {prefix}_tensors[{max(len(library.tensors), 1)}];",
        ]
    for function in library.functions:
        if function.variables:
            lines += [
                f"/* Sets the variables of `args` from a safetensors file: {_named(function)}. */",
                f"int32_t {function.symbol}_load_safetensors(const char *path, {function.symbol}_args *args,",
                f"    {prefix}_weights *out);",
            ]
    return fill("aot/loader.h", NAME=str(library.name), PREFIX=prefix, FUNCTIONS=lines) + "\n"


def _named(function: LibraryFunction) -> str:
    return comment(", ".join(f"{v.name} {v.type}" for v in function.variables))


def _source(library: CompiledLibrary, head: bytes) -> str:
    prefix = library.prefix
    parts = [fill("aot/loader.c", PREFIX=prefix)]
    if head:
        sizes, digests = file_facts(library, head)
        facts = {word: f"((size_t){size}u)" for word, size in sizes.items()}
        facts |= {word: f"UINT64_C({number})" for word, number in digests.items()}
        parts += [fill("aot/loader_weights.c", PREFIX=prefix, **facts), _tensors(library)]
    loaders = [_loader(library, function) for function in library.functions if function.variables]
    if loaders:
        parts += [fill("aot/loader_safetensors.c"), *loaders]
    return "\n\n".join(parts) + "\n"


def _dims(name: str, dims: tuple[int, ...]) -> tuple[list[str], str]:
    """The declaration of a C array `name` with the sizes of an array, and the expression for it in a table:
    no declaration and NULL for a scalar, since C has no empty arrays.
    """
    if not dims:
        return [], "NULL"
    return [f"static const int64_t {name}[] = {{{', '.join(map(str, dims))}}};"], name


def _tensors(library: CompiledLibrary) -> str:
    lines: list[str] = []
    rows: list[str] = []
    for k, tensor in enumerate(library.tensors):
        shape = tensor.shape
        declared, where = _dims(f"axla_dims_{k}", shape.dims)
        lines += declared
        names = f"{literal(tensor.name)}, {literal(shape.dtype.name)}"
        rows.append(f"  {{{names}, {where}, {shape.rank}, {tensor.offset}u, {shape.byte_size}u}},")
    rows = rows or ["  {NULL, NULL, NULL, 0, 0, 0},"]
    head = f"const axla_tensor {library.prefix}_tensors[{len(rows)}] = {{"
    return "\n".join([*lines, head, *rows, "};"])


def _loader(library: CompiledLibrary, function: LibraryFunction) -> str:
    variables = function.variables
    # A label that is also the name or label of another variable is not used.
    taken = Counter([value.name for value in variables] + [v.label for v in variables if v.label != v.name])
    lines: list[str] = []
    rows: list[str] = []
    for k, value in enumerate(variables):
        kept, dims = stored(value.dtype, value.dims)
        declared, where = _dims(f"dims{k}", dims)
        lines += [f"  {line}" for line in declared]
        label = value.label if taken[value.label] == 1 else value.name
        names = ", ".join(map(literal, (value.name, label, kept)))
        rows.append(f"    {{{names}, {where}, {len(dims)}, {value.bytes}u, {value.dtype.numpy.alignment}}},")
    return fill(
        "aot/load_variables.c", SYMBOL=function.symbol, PREFIX=library.prefix, COUNT=str(len(variables)),
        DIMS=lines, WANTED=rows,
        SET=[f"  args->{value.name} = found[{k}];" for k, value in enumerate(variables)],
    )  # fmt: skip
