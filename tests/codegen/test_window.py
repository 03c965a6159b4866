"""Windows in generated code against the interpreter, edges and dilations of all kinds, on small integers."""

from __future__ import annotations

import random

import numpy as np
import pytest

import axla
from axla.core.dtypes import BY_NAME, DType
from axla.core.shape import Shape
from axla.hlo import Compare, Constant, ReduceWindow, Select, SelectAndScatter
from axla.hlo.window import places
from axla.ir.attributes import Direction, Window
from axla.ir.graph import Computation, Module
from axla.ir.op import OPS
from axla.ir.structure import Parameter, Tuple


def binary(module: Module, opcode: str, dtype: DType) -> Computation:
    made = module.add_computation(opcode)
    x, y = (made.add(Parameter(Shape(dtype), n)) for n in range(2))
    op = Compare(Direction.GE) if opcode == "compare" else OPS[opcode]()
    made.set_root(made.add(op, (x, y)))
    return made


def larger_and_sum(module: Module, dtype: DType) -> Computation:
    made = module.add_computation("both")
    a, b, c, d = (made.add(Parameter(Shape(dtype), n)) for n in range(4))
    chosen = Select()(Compare(Direction.GE)(a, c), a, c)
    made.set_root(made.add(Tuple(), (chosen, OPS["add"]()(b, d))))
    return made


def some_window(pick: random.Random, dims: list[int]) -> Window:
    def each(*choices: int) -> tuple[int, ...]:
        return tuple(pick.choice(choices) for _ in dims)

    size = tuple(pick.choice([1, 2, 3, 5, n]) for n in dims)
    if pick.random() < 0.2:  # all elements up to here
        return Window(size, low=tuple(n - 1 for n in size), high=(0,) * len(dims))
    low, high = each(0, 0, -1, 2), each(0, 0, -1, 3)
    return Window(size, each(1, 1, 2, 3), low, high, each(1, 1, 1, 2), each(1, 1, 2))


def check(module: Module, arguments: list[np.ndarray]) -> None:
    wanted = axla.compile(module, backend="interpreter").execute(arguments)
    for backend in ("cpu", "one-lane"):
        found = axla.compile(module, backend=backend).execute(arguments)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b), err_msg=backend)


@pytest.mark.parametrize("kind", ["one", "two", "select"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_windows_as_the_interpreter(kind, rank):
    pick, rng = random.Random(f"{kind}{rank}"), np.random.default_rng(rank)
    for _ in range(6):
        dtype = BY_NAME[pick.choice(["f32", "s32", "bf16", "u8"])]
        dims = [pick.randint(3, 20) for _ in range(rank)]
        window = some_window(pick, dims)
        module = Module("windows")
        entry = module.add_computation("main", entry=True)
        x = entry.add(Parameter(Shape(dtype, dims), 0))
        first = entry.add(Constant.of(np.asarray(pick.choice([0, 1])).astype(dtype.numpy), dtype))
        arguments = [rng.integers(0, 4, dims).astype(dtype.numpy)]
        if kind == "one":
            op = ReduceWindow(window, binary(module, pick.choice(["add", "maximum", "minimum"]), dtype))
            entry.set_root(entry.add(op, (x, first)))
        elif kind == "two":
            arguments.append(arguments[0][::-1].copy())
            y = entry.add(Parameter(Shape(dtype, dims), 1))
            op = ReduceWindow(window, larger_and_sum(module, dtype))
            entry.set_root(entry.add(op, (x, y, first, first)))
        else:
            op = SelectAndScatter(window, binary(module, "compare", dtype), binary(module, "add", dtype))
            found = places(op, tuple(dims), window)
            arguments.append(rng.integers(0, 4, found).astype(dtype.numpy))
            source = entry.add(Parameter(Shape(dtype, found), 1))
            entry.set_root(entry.add(op, (x, source, first)))
        check(module, arguments)
