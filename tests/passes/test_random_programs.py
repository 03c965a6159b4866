"""Random small programs keep their values when they are simplified, whatever the order of instructions."""

import numpy as np
import pytest

from axla import hlo
from axla.core import flags
from axla.core.dtypes import F32, PRED, S32, U8
from axla.core.shape import Shape
from axla.hlo import (
    Broadcast,
    Compare,
    Concatenate,
    Convert,
    Dot,
    DynamicSlice,
    Iota,
    Pad,
    Reduce,
    Reshape,
    Reverse,
    Select,
    Slice,
    Transpose,
)  # fmt: skip
from axla.ir.attributes import Direction, PaddingConfig, SliceDims
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.structure import Constant, GetTupleElement, Parameter, Tuple
from axla.ir.verify import verify
from axla.passes import driver, pipelines
from axla.target.machine import cpu_target
from hlo_tests import same_values

UNARY = {F32: ("Negate", "Abs", "Floor", "Ceil"), S32: ("Negate", "Abs", "Not"), U8: ("Not",), PRED: ("Not",)}
BINARY = {
    F32: ("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum", "Power"),
    S32: ("Add", "Subtract", "Multiply", "Maximum", "Minimum", "And", "Or", "Xor", "ShiftLeft"),
    U8: ("Add", "Subtract", "Multiply", "Divide", "Remainder", "And", "Or", "Xor", "ShiftRightLogical"),
    PRED: ("And", "Or", "Xor"),
}
SPECIAL = {
    F32: (0.0, -0.0, 1.0, -1.0, 2.0, 8.0, np.inf, np.nan),
    S32: (0, 1, -1, 2, 7),
    U8: (0, 1, 2, 8, 255),
    PRED: (False, True),
}
DIMS = ((), (1,), (3,), (2, 3), (3, 1), (1, 2, 3), (0, 2))


class Generator:
    """Adds random instructions to a computation; all small, all right."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.module = Module(f"random{seed}")
        self.combiners = {
            d: self.combiner("Or" if d is PRED else name, d)
            for d in BINARY
            for name in ("Maximum" if d is F32 else "Add",)
        }
        self.entry = self.module.add_computation("e", entry=True)
        self.values: list[Instruction] = []

    def combiner(self, name: str, dtype) -> Computation:
        body = self.module.add_computation(f"{name}_{dtype}")
        a, b = (body.add(Parameter(Shape(dtype), n)) for n in range(2))
        body.set_root(getattr(hlo, name)()(a, b))
        return body

    def pick(self, options):
        return options[int(self.random.integers(len(options)))]

    def make(self, size: int) -> Module:
        dtypes = tuple(BINARY)
        for number in range(3):
            self.values.append(self.entry.add(Parameter(Shape(self.pick(dtypes), self.pick(DIMS)), number)))
        for _ in range(size):
            value = getattr(self, self.pick(self.KINDS))(self.pick(self.values[-8:]))
            if value is not None and value.shape.size <= 64:
                self.values.append(value)
        results = [v for v in self.values if not v.users][:6]
        self.entry.set_root(self.entry.add(Tuple(), results))
        return self.module

    KINDS = (
        "unary", "binary", "binary", "binary", "compare", "convert", "broadcast", "reshape", "transpose",
        "reverse", "slice", "pad", "concatenate", "dynamic_slice", "reduce", "dot", "iota", "tuple",
    )  # fmt: skip

    def constant(self, shape: Shape) -> Instruction:
        if self.random.random() < 0.7:
            scalar = self.entry.add(Constant.of(self.pick(SPECIAL[shape.dtype]), shape.dtype))
            return Broadcast(shape, ())(scalar) if shape.rank else scalar
        values = self.random.choice(SPECIAL[shape.dtype], shape.dims)
        return self.entry.add(Constant.of(np.asarray(values), shape.dtype))

    def like(self, x: Instruction) -> Instruction:
        """Another value of the same shape."""
        same = [v for v in self.values if v.shape is x.shape]
        return self.constant(x.shape) if self.random.random() < 0.5 else self.pick(same)

    def unary(self, x):
        return getattr(hlo, self.pick(UNARY[x.shape.dtype]))()(x)

    def binary(self, x):
        operands = [x, self.like(x)]
        self.random.shuffle(operands)
        return getattr(hlo, self.pick(BINARY[x.shape.dtype]))()(*operands)

    def compare(self, x):
        y = self.like(x)
        test = Compare(self.pick(tuple(Direction)))(x, y)
        return Select()(test, x, y) if self.random.random() < 0.5 else test

    def convert(self, x):
        return Convert(Shape(self.pick(tuple(BINARY)), x.shape.dims))(x)

    def broadcast(self, x):
        at = int(self.random.integers(x.shape.rank + 1))
        dims = (*x.shape.dims[:at], int(self.random.integers(1, 4)), *x.shape.dims[at:])
        return Broadcast(Shape(x.shape.dtype, dims), tuple(d for d in range(len(dims)) if d != at))(x)

    def reshape(self, x):
        dims = list(x.shape.dims)
        choice = self.random.random()
        if choice < 0.3:
            dims = [x.shape.size]
        elif choice < 0.6:
            dims = [d for d in dims if d != 1]
        else:
            dims.insert(int(self.random.integers(len(dims) + 1)), 1)
        return Reshape(Shape(x.shape.dtype, dims))(x)

    def transpose(self, x):
        return Transpose(tuple(int(d) for d in self.random.permutation(x.shape.rank)))(x)

    def reverse(self, x):
        return Reverse(tuple(d for d in range(x.shape.rank) if self.random.random() < 0.5))(x)

    def slice(self, x):
        bounds = [sorted(int(i) for i in self.random.integers(0, n + 1, 2)) for n in x.shape.dims]
        if self.random.random() < 0.5:
            bounds = [(0, n) for n in x.shape.dims]
        strides = tuple(int(s) for s in self.random.integers(1, 3, x.shape.rank))
        return Slice(SliceDims(tuple(a for a, _ in bounds), tuple(b for _, b in bounds), strides))(x)

    def pad(self, x):
        def edges(low):
            return tuple(int(i) for i in self.random.integers(low, 2, x.shape.rank))

        low, high, inner = edges(-1), edges(-1), edges(0)
        sizes = [
            n + a + b + max(0, n - 1) * c for n, a, b, c in zip(x.shape.dims, low, high, inner, strict=True)
        ]
        if min(sizes, default=0) < 0:
            return None
        return Pad(PaddingConfig(low, high, inner))(x, self.constant(Shape(x.shape.dtype)))

    def concatenate(self, x):
        if not x.shape.rank:
            return None
        return Concatenate((int(self.random.integers(x.shape.rank)),))(*[self.like(x) for _ in range(2)], x)

    def dynamic_slice(self, x):
        sizes = tuple(int(self.random.integers(0, n + 1)) for n in x.shape.dims)
        starts = [self.entry.add(Constant.of(int(self.random.integers(-2, 4)), S32)) for _ in sizes]
        return DynamicSlice(sizes)(x, *starts)

    def reduce(self, x):
        dimensions = tuple(d for d in range(x.shape.rank) if self.random.random() < 0.5)
        return Reduce(dimensions, self.combiners[x.shape.dtype])(x, self.constant(Shape(x.shape.dtype)))

    def dot(self, x):
        if x.shape.dtype is not S32 or not x.shape.rank:
            return None
        d = int(self.random.integers(x.shape.rank))
        y = self.transpose(self.like(x))
        match = [e for e in range(y.shape.rank) if y.shape.dims[e] == x.shape.dims[d]]
        op = Dot.of(x.shape, y.shape, lhs_contracting_dims=(d,), rhs_contracting_dims=(self.pick(match),))
        return op(x, y)

    def iota(self, x):
        if not x.shape.rank or x.shape.dtype is PRED:
            return None
        return self.entry.add(Iota(x.shape, int(self.random.integers(x.shape.rank))))

    def tuple(self, x):
        return GetTupleElement(1)(Tuple()(self.pick(self.values), x))


@pytest.mark.parametrize("block", range(8))
def test_simplification_keeps_values(block):
    for seed in range(block * 25, block * 25 + 25):
        before, module = Generator(seed).make(25), Generator(seed).make(25)
        verify(before)
        # x * x is exact where NumPy's power is an ulp off.
        with flags.override(verify=True, shuffle=seed, disable_hlo_passes=("power_two",)):
            driver.run(module, (*pipelines.IMPORT, *pipelines.SIMPLIFY, *pipelines.LOWER), cpu_target())
        try:
            same_values(before, module, seed)
        except AssertionError as error:
            raise AssertionError(
                f"seed {seed}: {error}\n{before.to_string()}\nbecame\n{module.to_string()}"
            ) from None
