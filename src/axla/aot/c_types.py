"""Element types in C and C++, and the block of declarations that every generated header begins with."""

from __future__ import annotations

from axla.core.dtypes import ALL, DType
from axla.core.status import FRAME_ERRORS
from axla.program.abi import RNG_SEED, c_frame

_PLAIN = {"pred": "bool", "f32": "float", "f64": "double"}
_COMPLEX = {"c64": "float", "c128": "double"}
_HALF = ("f16", "bf16")


def c_type(dtype: DType) -> str:
    """The C type of an element: `float`, `int8_t`, `axla_bf16`. It has the element's bytes in memory."""
    if dtype.is_integer:
        return f"{'u' if dtype.is_unsigned else ''}int{8 * dtype.itemsize}_t"
    return _PLAIN.get(dtype.name, f"axla_{dtype.name}")


def cpp_type(dtype: DType) -> str:
    """The C++ type of an element: that of C, but for complex numbers."""
    part = _COMPLEX.get(dtype.name)
    return f"::std::complex<{part}>" if part else c_type(dtype)


def is_bits(dtype: DType) -> bool:
    """Whether C has the element as a struct of its bits only, without a value."""
    return dtype.is_float and dtype.itemsize == 1


def number(dtype: DType, element: str) -> str:
    """The C expression of an element's value as a double; not for complex numbers and bits."""
    if dtype.name in _HALF:
        element = f"axla_{dtype.name}_to_float({element})"
    if dtype.is_signed and dtype.bits < 8:
        element = f"axla_{dtype.name}_to_int({element})"
    return f"(double){element}"


def literal(text: str) -> str:
    """A C string: of any text, without trigraphs, in ASCII."""
    out = []
    for byte in text.encode():
        char = chr(byte)
        out.append(
            "\\" + char
            if char in '"\\?'
            else char
            if 32 <= byte < 127
            else {10: "\\n"}.get(byte, f"\\{byte:03o}")
        )
    return f'"{"".join(out)}"'


def comment(text: str) -> str:
    """Text that can stand in a comment: of one line, and not its end."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line.replace("*/", "* /").replace("/*", "/ *").replace("??/", "?? /").rstrip("\\")


def shared_block() -> str:
    """The declarations that all headers have in common; they stand once however many headers are included."""
    seed = ", ".join(f"UINT64_C(0x{word:016X})" for word in RNG_SEED)
    return "\n\n".join([
        "#ifndef AXLA_AOT_H_1\n#define AXLA_AOT_H_1",
        "#include <stddef.h>\n#include <stdint.h>\n#ifdef __cplusplus\n"
        "#define AXLA_CAST(type, value) static_cast<type>(value)\n#else\n#include <stdbool.h>\n"
        "#define AXLA_CAST(type, value) ((type)(value))\n#endif",
        c_frame(),
        "/* The random state that S_run starts with: for rng_state of a frame. */",
        f"#define AXLA_RNG_SEED {{{seed}}}",
        *(_half(name) for name in _HALF),
        *(_complex(name, part) for name, part in _COMPLEX.items()),
        _bits(),
        _small_integers(),
        _CONVERSIONS,
        _errors(),
        "#endif /* AXLA_AOT_H_1 */",
    ])  # fmt: skip


def _half(name: str) -> str:
    return "\n".join([
        f"/* {name}: its bits; to and from float below. In C++ it is read and assigned like a float. */",
        f"typedef struct axla_{name} {{",
        "  uint16_t bits;",
        "#ifdef __cplusplus",
        "  inline operator float() const;",
        f"  inline axla_{name} &operator=(float value);",
        "#endif",
        f"}} axla_{name};",
    ])  # fmt: skip


def _complex(name: str, part: str) -> str:
    return f"typedef struct axla_{name} {{\n  {part} re, im;\n}} axla_{name};"


def _bits() -> str:
    names = [dtype.name for dtype in ALL if is_bits(dtype)]
    lines = [f"typedef struct axla_{name} {{ uint8_t bits; }} axla_{name};" for name in names]
    return "\n".join(["/* Floats of a byte or less: their bits. */", *lines])


def _small_integers() -> str:
    lines = [
        "/* Signed integers below a byte, int8_t: the value of the low bits. In results, the rest is 0. */"
    ]
    for dtype in ALL:
        if dtype.is_signed and dtype.bits < 8:
            mask, sign = (1 << dtype.bits) - 1, 1 << (dtype.bits - 1)
            value = f"((value & {mask}) ^ {sign}) - {sign}"
            lines.append(f"static inline int axla_{dtype.name}_to_int(int8_t value) {{ return {value}; }}")
    return "\n".join(lines)


def _errors() -> str:
    return "\n".join([
        "/* What an error code says that is not a message of a function's own. */",
        "static inline const char *axla_error(int32_t code) {",
        "  switch (code) {",
        '    case AXLA_OK: return "success";',
        *(f"    case {code}: return {literal(row.about)};" for code, row in FRAME_ERRORS.items()),
        '    default: return "unknown error";',
        "  }",
        "}",
    ])  # fmt: skip


_CONVERSIONS = """\
/* To float exactly; from float to the nearest, ties to even. A NaN stays a NaN. */
typedef union axla_float_bits {
  float value;
  uint32_t bits;
} axla_float_bits;

static inline float axla_bf16_to_float(axla_bf16 value) {
  const uint32_t bits = value.bits;
  axla_float_bits to;
  to.bits = bits << 16;
  return to.value;
}

static inline axla_bf16 axla_bf16_from_float(float value) {
  axla_float_bits from;
  axla_bf16 to;
  from.value = value;
  if ((from.bits & 0x7FFFFFFFu) > 0x7F800000u) from.bits |= 0x400000u;
  else from.bits += 0x7FFFu + (from.bits >> 16 & 1u);
  from.bits >>= 16;
  to.bits = from.bits & 0xFFFFu;
  return to;
}

static inline float axla_f16_to_float(axla_f16 value) {
  const uint32_t bits = value.bits, sign = (bits & 0x8000u) << 16, rest = bits & 0x7FFFu;
  axla_float_bits to;
  if (rest >= 0x7C00u) to.bits = 0x7F800000u | (rest & 0x3FFu) << 13; /* infinite or NaN */
  else if (rest >= 0x400u) to.bits = (rest << 13) + 0x38000000u;
  else { /* denormal: the fraction of 2^-14 */
    to.bits = (rest << 13) + 0x38800000u;
    to.value -= 6.103515625e-5f;
  }
  to.bits |= sign;
  return to.value;
}

static inline axla_f16 axla_f16_from_float(float value) {
  axla_float_bits from;
  axla_f16 to;
  uint32_t sign, rest, bits;
  from.value = value;
  sign = from.bits >> 16 & 0x8000u;
  rest = from.bits & 0x7FFFFFFFu;
  if (rest > 0x7F800000u) bits = 0x7E00u | (rest >> 13 & 0x3FFu);
  else if (rest >= 0x477FF000u) bits = 0x7C00u; /* from 65520 on: infinite */
  else if (rest >= 0x38800000u) bits = (rest - 0x38000000u + 0xFFFu + (rest >> 13 & 1u)) >> 13;
  else if (rest <= 0x33000000u) bits = 0; /* up to 2^-25 */
  else { /* denormal */
    const uint32_t shift = 126u - (rest >> 23), whole = (rest & 0x7FFFFFu) | 0x800000u;
    const uint32_t lost = whole & ((1u << shift) - 1u), half = 1u << (shift - 1u);
    bits = whole >> shift;
    if (lost > half || (lost == half && (bits & 1u))) ++bits;
  }
  to.bits = (sign | bits) & 0xFFFFu;
  return to;
}

#ifdef __cplusplus
inline axla_f16::operator float() const { return axla_f16_to_float(*this); }
inline axla_f16 &axla_f16::operator=(float value) { return *this = axla_f16_from_float(value); }
inline axla_bf16::operator float() const { return axla_bf16_to_float(*this); }
inline axla_bf16 &axla_bf16::operator=(float value) { return *this = axla_bf16_from_float(value); }
#endif"""
