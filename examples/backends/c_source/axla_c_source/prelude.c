/* What every program begins with: the meaning of XLA's operations where C's operators have another. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>

/* Not 0 where a run is to end: another thread writes it. */
typedef const volatile int32_t Stop;

/* The bits of x, of type A, as a B of the same size. */
#define BITS(A, B, x) (((union { A a; B b; }){x}).b)

/* An index moved into 0..high. */
#define CLAMP(v, high) ((v) < 0 ? 0 : (v) > (high) ? (int64_t)(high) : (int64_t)(v))

/* NaN wins, and +0 is larger than -0. */
#define MAXIMUM(x, y) ((x) != (x) || (x) > (y) || ((x) == (y) && !signbit(x)) ? (x) : (y))
#define MINIMUM(x, y) ((x) != (x) || (x) < (y) || ((x) == (y) && signbit(x)) ? (x) : (y))

/* Integers: by zero all bits are one; the smallest number by -1 is itself (-fwrapv). */
#define DIVIDE(x, y) ((y) == 0 ? -1 : (y) == -1 ? -(x) : (x) / (y))
#define REMAINDER(x, y) ((y) == 0 ? (x) : (y) == -1 ? 0 : (x) % (y))

/* A float as an integer of type T: cut towards zero, the nearest one where it is out of range, NaN is 0. */
#define INTEGER(T, x, low, high, digits) \
  ((x) != (x) ? 0 : (x) <= (low) ? (T)(low) : (x) >= (high) ? (T)(UINT64_MAX >> (64 - (digits))) : (T)(x))

/* Integers that are ordered as all floats are: -NaN, -inf, ..., -0, 0, ..., inf, NaN. */
#define ORDER_32(x) (BITS(float, int32_t, x) ^ (BITS(float, int32_t, x) < 0 ? INT32_MAX : 0))
#define ORDER_64(x) (BITS(double, int64_t, x) ^ (BITS(double, int64_t, x) < 0 ? INT64_MAX : 0))

static int ones(uint64_t x) {
  int n = 0;
  for (; x; x &= x - 1) n++;
  return n;
}

static int leading_zeros(uint64_t x, int bits) {
  while (x) x >>= 1, bits--;
  return bits;
}

/* The upper half of a product. */
static uint64_t upper_unsigned(uint64_t x, uint64_t y, int bits) {
  if (bits < 64) return x * y >> bits;
  uint64_t low = (uint32_t)x * (y & UINT32_MAX), middle = (x >> 32) * (uint32_t)y + (low >> 32);
  uint64_t other = (uint32_t)x * (y >> 32) + (uint32_t)middle;
  return (x >> 32) * (y >> 32) + (middle >> 32) + (other >> 32);
}

static int64_t upper_signed(int64_t x, int64_t y, int bits) {
  if (bits < 64) return x * y >> bits;
  return upper_unsigned(x, y, 64) - (x < 0 ? y : 0) - (y < 0 ? x : 0);
}

/* As XLA does it: six bits of the exponent count; to a negative power all but 1 and -1 are 0. */
static int64_t power_integer(int64_t x, int64_t y) {
  int64_t result = 1, factor = x;
  if (y < 0) return x == 1 ? 1 : x != -1 ? 0 : y & 1 ? -1 : 1;
  for (int bit = 0; bit < 6; bit++, factor *= factor)
    if (y >> bit & 1) result *= factor;
  return result;
}

/* The bits of a float of `m` bits of mantissa and `e` of exponent, rounded to even to `to_m` and `to_e`. */
static uint64_t reduced(uint64_t x, int m, int e, int to_m, int to_e) {
  uint64_t sign = x & (uint64_t)1 << (m + e), inf = (((uint64_t)1 << e) - 1) << m;
  if ((x ^ sign) > inf) return to_m ? x : sign | inf;
  if (to_m < m) {
    uint64_t cut = (uint64_t)1 << (m - to_m);
    x = (x + cut / 2 - 1 + (x >> (m - to_m) & 1)) & -cut;
  }
  if (to_e >= e) return x;
  int64_t found = (x & inf) >> m, bias = ((int64_t)1 << (e - 1)) - 1, reach = ((int64_t)1 << (to_e - 1)) - 1;
  return found > bias + reach ? sign | inf : found <= bias - reach ? sign : x;
}

#define REDUCED_32(x, to_m, to_e) BITS(uint32_t, float, reduced(BITS(float, uint32_t, x), 23, 8, to_m, to_e))
#define REDUCED_64(x, to_m, to_e) BITS(uint64_t, double, reduced(BITS(double, uint64_t, x), 52, 11, to_m, to_e))

