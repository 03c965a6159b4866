"""The C++ header of a library, P.hpp: a class for each function, with the interface of tfcompile's classes.

The header is self-contained: it begins with the text of the C header, under the same include guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from axla.aot import header
from axla.aot.c_types import comment, cpp_type, literal, shared_cpp_block
from axla.aot.library import CompiledLibrary, LibraryFunction, LibraryValue, Role
from axla.aot.names import KEYWORDS, Name
from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument
from axla.core.templates import fill

# Names of the members of the base class and of every generated class.
_MEMBERS = frozenset({
    "AllocMode", "ArgShapeInfos", "ArgSize", "CompiledFunction", "Counts", "GetArgName",
    "GetResultName", "GetVariableName", "HasNameIndices", "LookupArgIndex", "LookupResultIndex",
    "LookupVariableIndex", "ResultShapeInfos", "Run", "StaticData", "arg_data", "arg_size", "args",
    "args_", "args_table", "data_", "error_", "error_msg", "fail", "find", "frame_",
    "hlo_profiling_enabled", "kNumArgs", "kNumResults", "kNumVariables", "leaves_", "leaves_table",
    "memory_", "move_from", "num_args", "num_results", "num_variables", "padded", "place", "profile_counters",
    "result_data", "result_size", "results", "results_", "results_table", "set_arg_data", "set_cancel",
    "set_error_msg", "set_parallel_for", "set_result_data", "set_rng_state", "set_thread_pool",
    "set_weights", "size_t", "spread",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Entry:
    """A value of a generated class: its position in a table of the class, and prefixes of its accessors."""

    value: LibraryValue
    table: str  # args_ or results_
    number: int
    stems: tuple[str, ...]  # arg0, arg_x

    @property
    def const(self) -> bool:
        """Whether the value must not be changed through accessors."""
        return self.value.role is Role.CONSTANT_VARIABLE


def write(library: CompiledLibrary) -> dict[str, str | bytes]:
    """The header file: {name: contents}. Raises InvalidArgument if a class has the name of one of its
    members.
    """
    guard = f"AXLA_{library.prefix}_HPP"
    parts = [
        header.text(library).rstrip("\n"),
        f"#ifndef {guard}\n#define {guard}",
        shared_cpp_block(),
        *(_namespaces(function.name, _class(function, library)) for function in library.functions),
        f"#endif /* {guard} */\n",
    ]
    return {f"{library.prefix}.hpp": "\n\n".join(parts)}


def _namespaces(name: Name, text: str) -> str:
    begin = [f"namespace {space} {{" for space in name.namespaces]
    end = [f"}}  // namespace {space}" for space in reversed(name.namespaces)]
    return "\n".join([*begin, "", text, "", *end])


def _class(function: LibraryFunction, library: CompiledLibrary) -> str:
    entries = _entries(function)
    members = _Members(entries)
    cls = function.name.cls
    accessors = [line for entry in entries for line in members.accessors(entry)]
    if cls in _MEMBERS or cls in members.taken:
        raise InvalidArgument(f"{function.name}: {cls} is a member of the C++ class; choose another name")
    given = [e for e in entries if e.table == "args_"]
    results = [e for e in entries if e.table == "results_"]
    variables = sum(e.value.role is not Role.ARGUMENT for e in given)
    symbol, weights = function.symbol, library.takes_weights
    different = dict.fromkeys(e.value.dims for e in entries if e.value.dims)
    shapes = {dims: f"shape{k}" for k, dims in enumerate(different)}
    declared = (f"{name}[] = {{{', '.join(map(str, dims))}}};" for dims, name in shapes.items())
    return fill(
        "aot/class.hpp", SIGNATURE=comment(function.signature), USAGE=_usage(function, entries), CLASS=cls,
        COUNTS=f"{len(given) - variables}, {variables}, {len(results)}", ACCESSORS=accessors,
        WEIGHTS=[fill("aot/class_weights.hpp", CLASS=cls)] if weights else (),
        SHAPES=[f"    static const int64_t {array}" for array in declared],
        GIVEN=_table(function, given, shapes), MADE=_table(function, results, shapes),
        NAME=literal(str(function.name)), SYMBOL=symbol, TAKES=str(weights).lower(),
        ARGCOUNT=str(len(given) or 1), RESULTCOUNT=str(len(results) or 1),
    )  # fmt: skip


def _entries(function: LibraryFunction) -> list[_Entry]:
    """The values of a class: arguments, variables, results. Accessors of variables have no number."""
    found = []
    plain = [a for a in function.arguments if a.role is Role.ARGUMENT]
    for number, value in enumerate((*plain, *function.variables)):
        word = _word(value)
        stems = (f"arg{number}", f"arg_{word}") if number < len(plain) else (f"var_{word}",)
        found.append(_Entry(value, "args_", number, stems))
    for number, value in enumerate(function.results):
        found.append(_Entry(value, "results_", number, (f"result{number}", f"result_{_word(value)}")))
    return found


def _word(value: LibraryValue) -> str:
    """The name of a value in method names: C keywords need no underscore there."""
    word = value.name.removesuffix("_")
    return word if word in KEYWORDS else value.name


def _usage(function: LibraryFunction, entries: Sequence[_Entry]) -> Iterable[str]:
    cls = function.name.qualified
    argument = next((e for e in entries if e.table == "args_"), None)
    result = next((e for e in entries if e.table == "results_"), None)
    yield f" *   {cls} f;"
    if argument is not None:
        yield f" *   std::copy(from, from + {argument.value.count}, f.{argument.stems[0]}_data());"
    yield " *   if (!f.Run()) std::cerr << f.error_msg();"
    if result is not None:
        first = ", ".join("0" for _ in result.value.dims)
        yield f" *   std::cout << f.{result.stems[0]}({first});"


def _table(
    function: LibraryFunction, entries: Sequence[_Entry], shapes: dict[tuple[int, ...], str]
) -> list[str]:
    """The rows of a ShapeInfo table, one for each entry, or a row of zeros, since C++ has no empty arrays.
    `shapes` has the name of the C++ array that holds the sizes of a shape.
    """
    leaf = {value.name: number for number, value in enumerate(function.arguments)}
    return [
        f"        {{{shapes.get(e.value.dims, 'nullptr')}, {len(e.value.dims)}, "
        f"{literal(e.value.dtype.name)}, {literal(_word(e.value))}, {e.value.bytes}u, {e.value.count}u, "
        f"{leaf[e.value.name] if e.table == 'args_' else e.number}}},"
        for e in entries
    ] or ["        {nullptr, 0, nullptr, nullptr, 0, 0, 0},"]


class _Members:
    """Writes the accessors of values, each name once. If two values could have an accessor with the same
    name, it belongs to the value of this name, or else to the first.
    """

    def __init__(self, entries: Sequence[_Entry]):
        self.taken = {stem for entry in entries for stem in entry.stems}

    def accessors(self, entry: _Entry) -> list[str]:
        """The text lines of a value's accessors, by its number and by its name."""
        value = entry.value
        about = f"{value.name}: {value.type}"
        if value.label != value.name:
            about += f", {value.label}"
        lines = [f"  /* {comment(about)} */"]
        for stem in entry.stems:
            lines += self._methods(entry, stem)
        return [*lines, ""]

    def _methods(self, entry: _Entry, stem: str) -> list[str]:
        kind = cpp_type(entry.value.dtype)
        place = f"{entry.table}[{entry.number}]"
        lines = []
        if self._free(f"set_{stem}_data"):
            given, source = "const void *data", "const_cast<void *>(data)"
            if entry.value.is_written:
                given, source = "void *data", "data"
            lines.append(f"  void set_{stem}_data({given}) {{ {place} = {source}; }}")
        if self._free(f"{stem}_data"):
            if not entry.const:
                lines.append(f"  {kind} *{stem}_data() {{ return static_cast<{kind} *>({place}); }}")
            lines.append(
                f"  const {kind} *{stem}_data() const {{ return static_cast<const {kind} *>({place}); }}"
            )
        lines += _indexed(entry, stem, entry.value.dims)
        if entry.value.dims == (1,):
            lines += _indexed(entry, stem, ())
        for suffix, number in (("size", entry.value.bytes), ("count", entry.value.count)):
            if self._free(f"{stem}_{suffix}"):
                lines.append(f"  static constexpr size_t {stem}_{suffix}() {{ return {number}u; }}")
        return lines

    def _free(self, name: str) -> bool:
        if name in self.taken:
            return False
        self.taken.add(name)
        return True


def _indexed(entry: _Entry, stem: str, dims: tuple[int, ...]) -> list[str]:
    """The text lines of accessors for one element, with an index for each dimension of `dims`. With the name
    `stem`, they are `stem(dim0, dim1)`, or `stem()` for a scalar.
    """
    kind, place = cpp_type(entry.value.dtype), f"{entry.table}[{entry.number}]"
    parameters = ", ".join(f"size_t dim{k}" for k in range(len(dims)))
    at = "0"
    if dims:
        at = "dim0"
        for k, size in enumerate(dims[1:], 1):
            at = f"{at} * {size}u + dim{k}" if k == 1 else f"({at}) * {size}u + dim{k}"
    lines = []
    for fixed, ending in (("const ", " const"),) if entry.const else (("", ""), ("const ", " const")):
        lines.append(f"  {fixed}{kind} &{stem}({parameters}){ending} {{")
        lines += [f'    AXLA_CHECK_INDEX("{stem}", {k}, dim{k}, {size}u);' for k, size in enumerate(dims)]
        lines += [f"    return static_cast<{fixed}{kind} *>({place})[{at}];", "  }"]
    return lines
