"""The Rust module of a library: the functions of its object behind safe ones, which take arrays by reference.

`build.rs` links the archive. The module needs the standard library and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

from axla.aot.c_types import comment
from axla.aot.library import Function, Library, Role, Value, Weights
from axla.aot.weights import digest, weights_header
from axla.core.dtypes import DType
from axla.core.status import FIRST_MESSAGE, FRAME_ERRORS

_TYPES = {"pred": "bool", "f32": "f32", "f64": "f64", "c64": "[f32; 2]", "c128": "[f64; 2]"}


def build_script(library: Library) -> str:
    """build.rs of a crate in whose folder the archive is."""
    name = f"{library.prefix}.a"
    return f"""\
// The build script of a crate whose folder has {name}; elsewhere, change `folder`.
fn main() {{
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:rustc-link-search=native={{folder}}");
    println!("cargo:rustc-link-lib=static:+verbatim={name}");
    println!("cargo:rerun-if-changed={name}");
}}
"""


def rust_type(dtype: DType) -> str:
    """The type of an element. Small floats are their bits, complex numbers two floats."""
    if dtype.is_integer:
        return f"{'u' if dtype.is_unsigned else 'i'}{8 * dtype.itemsize}"
    return _TYPES.get(dtype.name, f"u{8 * dtype.itemsize}")


def module(library: Library) -> str:
    """P.rs."""
    in_file = library.weights is Weights.FILE
    parts = [
        f"//! {library.name}, compiled by axla for {library.target.name}. In a crate with the build.rs:\n"
        f'//!\n//!     #[path = "{library.prefix}.rs"]\n//!     mod {library.prefix.lower()};\n//!\n'
        "//! Arrays are row-major. f16, bf16 and smaller floats are their bits, complex numbers [re, im].\n"
        "#![allow(dead_code, non_snake_case, non_upper_case_globals, clippy::all)]",
        "use std::ffi::c_void;",
        _COMMON.replace("ERRORS", _errors()),
    ]
    if in_file:
        head = weights_header(library)
        facts = {
            "HEADER_SIZE": str(len(head)), "HEADER_DIGEST": f"0x{digest(head):016x}",
            "DATA_SIZE": str(len(library.constants)), "DATA_DIGEST": f"0x{digest(library.constants):016x}",
        }  # fmt: skip
        text = _WEIGHTS.replace("PREFIX", library.prefix)
        for name, value in facts.items():
            text = text.replace(name, value)
        parts.append(text)
    parts += [_function(function, in_file) for function in library.functions]
    return "\n\n".join([*parts, ""])


def _errors() -> str:
    return "\n".join(f"            {code} => {_text(row.about)}," for code, row in FRAME_ERRORS.items())


def _text(text: str) -> str:
    """A string literal of Rust."""
    safe = "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else f"\\u{{{ord(c):x}}}" for c in text)
    return f'"{safe}"'


_COMMON = """\
/// What a run ended with, when it did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error {
    pub code: i32,
    pub message: &'static str,
}

impl Error {
    fn of(code: i32, own: &[&'static str]) -> Error {
        let message = match code {
ERRORS
            _ => {
                let own = usize::try_from(code - FIRST_MESSAGE).ok().and_then(|k| own.get(k));
                own.copied().unwrap_or("unknown error")
            }
        };
        Error { code, message }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

impl std::error::Error for Error {}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Block([u8; 64]);

fn blocks(bytes: usize) -> Vec<Block> {
    vec![Block([0; 64]); bytes.div_ceil(64)]
}""".replace("FIRST_MESSAGE", str(FIRST_MESSAGE))

_WEIGHTS = """\
/// The constants of PREFIX.weights, which all functions read.
pub struct Weights(Vec<Block>);

impl Weights {
    /// Reads and checks the file.
    pub fn load(path: impl AsRef<std::path::Path>) -> std::io::Result<Weights> {
        let wrong = |what| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
        let bytes = std::fs::read(path)?;
        if bytes.len() != HEADER_SIZE + DATA_SIZE || digest(&bytes[..HEADER_SIZE]) != HEADER_DIGEST {
            return Err(wrong("not the weights of this library"));
        }
        if digest(&bytes[HEADER_SIZE..]) != DATA_DIGEST {
            return Err(wrong("the weights are damaged"));
        }
        let mut data = blocks(DATA_SIZE);
        for (block, from) in data.iter_mut().zip(bytes[HEADER_SIZE..].chunks(64)) {
            block.0[..from.len()].copy_from_slice(from);
        }
        Ok(Weights(data))
    }
}

fn digest(bytes: &[u8]) -> u64 {
    let mut sum = 0u64;
    for (i, word) in bytes.chunks_exact(8).enumerate() {
        let mut word = u64::from_le_bytes(word.try_into().unwrap());
        word = word.wrapping_add((i as u64 + 1).wrapping_mul(0x9E3779B97F4A7C15));
        word = (word ^ word >> 32).wrapping_mul(0xD6E8FEB86659FD93);
        sum = sum.wrapping_add(word ^ word >> 32);
    }
    sum
}"""


def _function(function: Function, in_file: bool) -> str:
    symbol = function.symbol
    values = [(v, "args", v.role is Role.VARIABLE) for v in function.arguments]
    values += [(v, "results", True) for v in function.results]
    messages = ", ".join(map(_text, function.interface.messages))
    weights = ", weights: *const c_void" * in_file
    lines = [
        f"/// {comment(str(function.name))}",
        f"pub mod {symbol} {{",
        "    use super::*;",
        "",
        f"    pub const WORKSPACE_SIZE: usize = {function.workspace_bytes};",
        *_struct("Args", function.arguments),
        *_struct("Results", function.results),
        '    extern "C" {',
        f"        fn {symbol}_run(args: *const Args, results: *const Results, scratch: *mut c_void{weights})",
        "            -> i32;",
        "    }",
        "",
        "    /// Scratch memory of one run at a time.",
        "    pub struct Workspace(Vec<Block>);",
        "",
        "    impl Workspace {",
        "        pub fn new() -> Workspace {",
        "            Workspace(blocks(WORKSPACE_SIZE))",
        "        }",
        "    }",
        "",
        *_documentation(values),
        "    pub fn run(",
        "        workspace: &mut Workspace,",
        *(["        weights: &Weights,"] * in_file),
        *(f"        {_parameter(v, place)}: {_array(v, written)}," for v, place, written in values),
        "    ) -> Result<(), Error> {",
        f"        let args = Args {{ {_fields(function.arguments, 'args')} }};",
        f"        let results = Results {{ {_fields(function.results, 'results')} }};",
        "        let scratch = workspace.0.as_mut_ptr() as *mut c_void;",
        "        // Arrays have the sizes that the code was compiled for; what it writes is borrowed alone.",
        f"        let code = unsafe {{ {symbol}_run(&args, &results, scratch{_given(in_file)}) }};",
        "        if code == 0 {",
        "            Ok(())",
        "        } else {",
        f"            Err(Error::of(code, &[{messages}]))",
        "        }",
        "    }",
        "}",
    ]
    return "\n".join(lines)


def _given(in_file: bool) -> str:
    return ", weights.0.as_ptr() as *const c_void" if in_file else ""


def _parameter(value: Value, place: str) -> str:
    """Arguments and results may have equal names, and `workspace` is one of ours."""
    return f"{value.name}_{'out' if place == 'results' else 'in'}"


def _array(value: Value, written: bool) -> str:
    return f"&{'mut ' * written}[{rust_type(value.dtype)}; {value.count}]"


def _struct(name: str, values: tuple[Value, ...]) -> Iterator[str]:
    yield "    #[repr(C)]"
    yield f"    struct {name} {{"
    for value in values:
        pointer = "*const" if value.role in (Role.ARGUMENT, Role.CONSTANT_VARIABLE) else "*mut"
        yield f"        {value.name}: {pointer} {rust_type(value.dtype)},"
    if not values:
        yield "        unused: *mut c_void,"
    yield "    }"


def _fields(values: tuple[Value, ...], place: str) -> str:
    rows = []
    for value in values:
        written = value.role not in (Role.ARGUMENT, Role.CONSTANT_VARIABLE)
        rows.append(f"{value.name}: {_parameter(value, place)}.as_{'mut_' * written}ptr()")
    return ", ".join(rows) or "unused: std::ptr::null_mut()"


def _documentation(values: list[tuple[Value, str, bool]]) -> Iterator[str]:
    for value, place, _ in values:
        shape, kind = value.type, value.role.value
        yield f"    /// {_parameter(value, place)}: {shape}, {kind} {comment(value.label)}"
