"""Element types of arrays: HLO name, NumPy type, width and kind.

Each `DType` exists once: compare with `is`. Types narrower than a byte take one byte per element in memory.
Tokens, opaque values and tuples are kinds of shape (`axla.core.shape`), not element types.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

# Kinds.
BOOLEAN, SIGNED, UNSIGNED, FLOAT, COMPLEX = "pred", "signed", "unsigned", "float", "complex"


class DType:
    """An element type: its HLO `name`, its width in `bits`, its `itemsize` in memory in bytes, and its `kind`
    (pred, signed, unsigned, float or complex).
    """

    __slots__ = (
        "name", "bits", "kind", "numpy", "itemsize", "is_float", "is_complex", "is_inexact", "is_signed",
        "is_unsigned", "is_integer", "is_pred", "_finfo",
    )  # fmt: skip

    name: str
    bits: int
    kind: str
    numpy: np.dtype
    itemsize: int

    def __init__(self, name: str, bits: int, kind: str, numpy_type: Any):
        self.name = name
        self.bits = bits
        self.kind = kind
        self.numpy = np.dtype(numpy_type)
        self.itemsize = self.numpy.itemsize
        self.is_float, self.is_complex = kind == FLOAT, kind == COMPLEX
        self.is_inexact = self.is_float or self.is_complex
        self.is_signed, self.is_unsigned = kind == SIGNED, kind == UNSIGNED
        self.is_integer = self.is_signed or self.is_unsigned
        self.is_pred = kind == BOOLEAN
        self._finfo: Any = None

    @property
    def real(self) -> DType:
        """The float type of the real and imaginary parts of a complex type; for other types, the type
        itself.
        """
        return {"c64": F32, "c128": F64}.get(self.name, self)

    @property
    def finfo(self) -> ml_dtypes.finfo:
        """The limits of a float type, or of the parts of a complex type, as `np.finfo` has them."""
        if self._finfo is None:
            self._finfo = ml_dtypes.finfo(self.real.numpy)
        return self._finfo

    @property
    def has_infinity(self) -> bool:
        """Whether a float type can represent infinity; f8e4m3fn and f4e2m1fn, for instance, cannot."""
        return self.is_float and bool(
            np.isinf(np.asarray(np.inf, np.float64).astype(self.numpy).astype(np.float64))
        )

    @property
    def has_zero(self) -> bool:
        """Whether the type can represent 0; f8e8m0fnu cannot, as its values are powers of two and NaN."""
        return self.name != "f8e8m0fnu"

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self):
        return (dtype, (self.name,))


def _ml(name: str) -> object:
    return getattr(ml_dtypes, name)


PRED = DType("pred", 8, BOOLEAN, np.bool_)
S2 = DType("s2", 2, SIGNED, _ml("int2"))
S4 = DType("s4", 4, SIGNED, _ml("int4"))
S8 = DType("s8", 8, SIGNED, np.int8)
S16 = DType("s16", 16, SIGNED, np.int16)
S32 = DType("s32", 32, SIGNED, np.int32)
S64 = DType("s64", 64, SIGNED, np.int64)
U2 = DType("u2", 2, UNSIGNED, _ml("uint2"))
U4 = DType("u4", 4, UNSIGNED, _ml("uint4"))
U8 = DType("u8", 8, UNSIGNED, np.uint8)
U16 = DType("u16", 16, UNSIGNED, np.uint16)
U32 = DType("u32", 32, UNSIGNED, np.uint32)
U64 = DType("u64", 64, UNSIGNED, np.uint64)
F16 = DType("f16", 16, FLOAT, np.float16)
BF16 = DType("bf16", 16, FLOAT, _ml("bfloat16"))
F32 = DType("f32", 32, FLOAT, np.float32)
F64 = DType("f64", 64, FLOAT, np.float64)
F8E5M2 = DType("f8e5m2", 8, FLOAT, _ml("float8_e5m2"))
F8E4M3 = DType("f8e4m3", 8, FLOAT, _ml("float8_e4m3"))
F8E4M3FN = DType("f8e4m3fn", 8, FLOAT, _ml("float8_e4m3fn"))
F8E4M3B11FNUZ = DType("f8e4m3b11fnuz", 8, FLOAT, _ml("float8_e4m3b11fnuz"))
F8E3M4 = DType("f8e3m4", 8, FLOAT, _ml("float8_e3m4"))
F8E5M2FNUZ = DType("f8e5m2fnuz", 8, FLOAT, _ml("float8_e5m2fnuz"))
F8E4M3FNUZ = DType("f8e4m3fnuz", 8, FLOAT, _ml("float8_e4m3fnuz"))
F8E8M0FNU = DType("f8e8m0fnu", 8, FLOAT, _ml("float8_e8m0fnu"))
F6E2M3FN = DType("f6e2m3fn", 6, FLOAT, _ml("float6_e2m3fn"))
F6E3M2FN = DType("f6e3m2fn", 6, FLOAT, _ml("float6_e3m2fn"))
F4E2M1FN = DType("f4e2m1fn", 4, FLOAT, _ml("float4_e2m1fn"))
C64 = DType("c64", 64, COMPLEX, np.complex64)
C128 = DType("c128", 128, COMPLEX, np.complex128)

if hasattr(ml_dtypes, "int1"):
    S1 = DType("s1", 1, SIGNED, _ml("int1"))
    U1 = DType("u1", 1, UNSIGNED, _ml("uint1"))

ALL = tuple(value for value in globals().values() if isinstance(value, DType))
BY_NAME: dict[str, DType] = {d.name: d for d in ALL}
_BY_NUMPY: dict[np.dtype, DType] = {d.numpy: d for d in ALL}


def dtype(name: str) -> DType:
    """The element type with an HLO name; KeyError for an unknown name."""
    return BY_NAME[name]


def from_numpy(numpy_type: Any) -> DType:
    """The element type for a NumPy or ml_dtypes type; TypeError if HLO has none."""
    if numpy_type is None:  # np.dtype(None) would be float64
        raise TypeError("None is not an element type")
    found = np.dtype(numpy_type)
    if found not in _BY_NUMPY:
        raise TypeError(f"NumPy dtype {found} has no HLO element type")
    return _BY_NUMPY[found]


def of_raw_items(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Restores the type of an array from a NumPy file. The file format does not know types such as bf16 and
    f8, so they are read as raw items. Raw items of the size of `dtype` are viewed as `dtype`; other arrays
    are returned unchanged.
    """
    raw = array.dtype.kind == "V" and array.dtype.itemsize == dtype.numpy.itemsize
    return array.view(dtype.numpy) if raw and array.dtype != dtype.numpy else array
