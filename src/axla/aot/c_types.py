"""Element types in C and C++, and the declarations shared by all generated headers."""

from __future__ import annotations

from axla.core.dtypes import ALL, DType
from axla.core.status import FRAME_ERRORS
from axla.core.templates import fill
from axla.program.abi import RNG_SEED, c_frame

_PLAIN = {"pred": "bool", "f32": "float", "f64": "double"}
_COMPLEX = {"c64": "float", "c128": "double"}
_HALF = ("f16", "bf16")
_IN_STRINGS = (
    {byte: f"\\{byte:03o}" for byte in range(256)}
    | {byte: chr(byte) for byte in range(32, 127)}
    | {ord("\n"): "\\n", ord('"'): '\\"', ord("?"): "\\?", ord("\\"): "\\\\"}
)


def c_type(dtype: DType) -> str:
    """The C type of an element: `float`, `int8_t`, `axla_bf16`. It has the element's size in memory."""
    if dtype.is_integer:
        return f"{'u' if dtype.is_unsigned else ''}int{8 * dtype.itemsize}_t"
    return _PLAIN.get(dtype.name, f"axla_{dtype.name}")


def cpp_type(dtype: DType) -> str:
    """The C++ type of an element: the C type, except for complex numbers."""
    part = _COMPLEX.get(dtype.name)
    return f"::std::complex<{part}>" if part else c_type(dtype)


def is_bits(dtype: DType) -> bool:
    """Whether the C type of an element is a struct that has only the element's bits, and no numeric value."""
    return dtype.is_float and dtype.itemsize == 1


def number(dtype: DType, element: str) -> str:
    """The C expression of an element's value as a double; not for complex numbers and bit structs."""
    if dtype.name in _HALF:
        element = f"axla_{dtype.name}_to_float({element})"
    if dtype.is_signed and dtype.bits < 8:
        element = f"axla_{dtype.name}_to_int({element})"
    return f"(double){element}"


def literal(text: str) -> str:
    """A C string literal in ASCII for any text, without trigraphs."""
    return f'"{"".join(_IN_STRINGS[byte] for byte in text.encode())}"'


def comment(text: str) -> str:
    """Text made safe for a comment: a single line that does not end the comment."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line.replace("*/", "* /").replace("/*", "/ *").replace("??/", "?? /").rstrip("\\")


def shared_block() -> str:
    """The declarations that all headers share, guarded so that they appear once however many headers are
    included.
    """
    seed = ", ".join(f"UINT64_C(0x{word:016X})" for word in RNG_SEED)
    bits = [f"typedef struct axla_{d.name} {{ uint8_t bits; }} axla_{d.name};" for d in ALL if is_bits(d)]
    small = [_to_int(dtype) for dtype in ALL if dtype.is_signed and dtype.bits < 8]
    errors = [f"    case {code}: return {literal(row.about)};" for code, row in FRAME_ERRORS.items()]
    return fill("aot/axla_aot.h", FRAME=c_frame(), SEED=seed, BITS=bits, SMALL=small, ERRORS=errors)


def _to_int(dtype: DType) -> str:
    mask, sign = (1 << dtype.bits) - 1, 1 << (dtype.bits - 1)
    value = f"((value & {mask}) ^ {sign}) - {sign}"
    return f"static inline int axla_{dtype.name}_to_int(int8_t value) {{ return {value}; }}"


def shared_cpp_block() -> str:
    """The declarations that all C++ headers share: the base class and thread pools, in C++11 without
    exceptions and run-time types. Placed after `shared_block`, also guarded.
    """
    return fill("aot/axla_aot.hpp")
