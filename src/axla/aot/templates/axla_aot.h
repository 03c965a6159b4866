#ifndef AXLA_AOT_H_1
#define AXLA_AOT_H_1

#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
#define AXLA_CAST(type, value) static_cast<type>(value)
#else
#include <stdbool.h>
#define AXLA_CAST(type, value) ((type)(value))
#endif

FILL_FRAME

/* The random state that S_run starts with: for rng_state of a frame. */

#define AXLA_RNG_SEED {FILL_SEED}

/* f16: its bits; to and from float below. In C++ it is read and assigned like a float. */
typedef struct axla_f16 {
  uint16_t bits;
#ifdef __cplusplus
  inline operator float() const;
  inline axla_f16 &operator=(float value);
#endif
} axla_f16;

/* bf16: its bits; to and from float below. In C++ it is read and assigned like a float. */
typedef struct axla_bf16 {
  uint16_t bits;
#ifdef __cplusplus
  inline operator float() const;
  inline axla_bf16 &operator=(float value);
#endif
} axla_bf16;

typedef struct axla_c64 {
  float re, im;
} axla_c64;

typedef struct axla_c128 {
  double re, im;
} axla_c128;

/* Floats of a byte or less: their bits. */
FILL_BITS

/* Signed integers below a byte, int8_t: the value of the low bits. In results, the rest is 0. */
FILL_SMALL

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
#endif

/* What an error code says that is not a message of a function's own. */
static inline const char *axla_error(int32_t code) {
  switch (code) {
    case AXLA_OK: return "success";
    FILL_ERRORS
    default: return "unknown error";
  }
}

#endif /* AXLA_AOT_H_1 */
