"""Writes the Rust module of a library: safe wrappers for the functions of its object, which take arrays by
reference.

`build.rs` links the archive. The module needs only the standard library.
"""

from __future__ import annotations

from axla.aot.c_types import comment
from axla.aot.library import CompiledLibrary, LibraryFunction, LibraryValue, Role
from axla.aot.weights import file_facts, weights_header
from axla.core.dtypes import DType
from axla.core.status import FIRST_MESSAGE, FRAME_ERRORS
from axla.core.templates import fill

_TYPES = {"pred": "bool", "f32": "f32", "f64": "f64", "c64": "[f32; 2]", "c128": "[f64; 2]"}


def build_script(library: CompiledLibrary) -> str:
    """The text of build.rs, for a Rust crate in the same folder as the library's archive, `P.a`."""
    return fill("aot/build.rs", PREFIX=library.prefix) + "\n"


def rust_type(dtype: DType) -> str:
    """The Rust type of an element. Small floats are their bits, complex numbers two floats."""
    if dtype.is_integer:
        return f"{'u' if dtype.is_unsigned else 'i'}{8 * dtype.itemsize}"
    return _TYPES.get(dtype.name, f"u{8 * dtype.itemsize}")


def module(library: CompiledLibrary) -> str:
    """The text of the Rust module, `P.rs`."""
    in_file = library.takes_weights
    parts = [fill(
        "aot/module.rs", NAME=str(library.name), TARGET=library.target.name, PREFIX=library.prefix,
        MODULE=library.prefix.lower(), ERRORS=errors(), FIRST=str(FIRST_MESSAGE),
    )]  # fmt: skip
    if in_file:
        sizes, digests = file_facts(library, weights_header(library))
        parts.append(fill("aot/weights.rs", PREFIX=library.prefix, **sizes, **digests))
    parts += [_function(function, in_file) for function in library.functions]
    return "\n\n".join([*parts, ""])


def errors() -> list[str]:
    """The messages for return codes, as arms of a match."""
    return [f"            {code} => {_text(row.about)}," for code, row in FRAME_ERRORS.items()]


def _text(text: str) -> str:
    """`text` as a string literal of Rust."""
    safe = "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else f"\\u{{{ord(c):x}}}" for c in text)
    return f'"{safe}"'


def _function(function: LibraryFunction, in_file: bool) -> str:
    values = (*function.arguments, *function.results)
    parameters = ["        weights: &Weights,"] * in_file
    parameters += [f"        {_parameter(value)}: {_array(value)}," for value in values]
    return fill(
        "aot/function.rs", NAME=comment(str(function.name)), SYMBOL=function.symbol,
        WORKSPACE=str(function.workspace_bytes), ARGS=_fields(function.arguments),
        RESULTS=_fields(function.results), ABOUT=map(_about, values), PARAMETERS=parameters,
        GIVEN=_pointers(function.arguments), MADE=_pointers(function.results),
        MEMORY=f"scratch: *mut c_void{', weights: *const c_void' * in_file}",
        SCRATCH=f"scratch{', weights.0.as_ptr() as *const c_void' * in_file}",
        MESSAGES=", ".join(map(_text, function.interface.messages)),
    )  # fmt: skip


def _parameter(value: LibraryValue) -> str:
    """The Rust name of a value. Arguments and results may have equal names, and `workspace` is reserved."""
    return f"{value.name}_{'out' if value.role is Role.RESULT else 'in'}"


def _array(value: LibraryValue) -> str:
    return f"&{'mut ' * value.is_written}[{rust_type(value.dtype)}; {value.count}]"


def _fields(values: tuple[LibraryValue, ...]) -> list[str]:
    return [
        f"        {v.name}: {'*mut' if v.is_written else '*const'} {rust_type(v.dtype)}," for v in values
    ] or ["        unused: *mut c_void,"]


def _pointers(values: tuple[LibraryValue, ...]) -> str:
    rows = [f"{v.name}: {_parameter(v)}.as_{'mut_' * v.is_written}ptr()" for v in values]
    return ", ".join(rows) or "unused: std::ptr::null_mut()"


def _about(value: LibraryValue) -> str:
    return f"    /// {_parameter(value)}: {value.type}, {value.role.value} {comment(value.label)}"
