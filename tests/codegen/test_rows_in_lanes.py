"""Loops over short rows, each of which a lane computes whole: results are those of the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.kernels.loop import LoopPlan
from axla.lowering.pipeline import compile_program
from axla.target.machine import cpu_target

NORMALIZED = """HloModule m
c {{ a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] {opcode}(a, b) }}
ENTRY e {{ p = {kind}[{rows},{columns}] parameter(0)
  q = {kind}[{columns}] parameter(1)
  z = {kind}[] constant({start})
  m = {kind}[{rows}] reduce(p, z), dimensions={{1}}, to_apply=c
  b = {kind}[{rows},{columns}] broadcast(m), dimensions={{0}}
  d = {kind}[{rows},{columns}] {second}(p, b)
  t = {kind}[{rows}] reduce(d, z), dimensions={{1}}, to_apply=c
  u = {kind}[{rows},{columns}] broadcast(t), dimensions={{0}}
  w = {kind}[{rows},{columns}] broadcast(q), dimensions={{1}}
  v = {kind}[{rows},{columns}] {second}(u, w)
  ROOT x = {kind}[{rows},{columns}] {second}(v, d) }}"""

KINDS = {
    "f32": ("maximum", "-inf", "subtract"),
    "f64": ("add", "0", "subtract"),
    "bf16": ("maximum", "-inf", "add"),
    "s8": ("add", "0", "multiply"),
    "u64": ("maximum", "0", "xor"),
    "pred": ("or", "false", "xor"),
    "c64": ("add", "(0, 0)", "multiply"),
}


def arguments(module):
    rng = np.random.default_rng(5)
    for parameter in module.entry.parameters:
        dtype = parameter.shape.dtype
        whole = rng.integers(0 if dtype.is_pred or dtype.name[0] == "u" else -3, 2, parameter.shape.dims)
        yield whole.astype(dtype.numpy)


def plans(module):
    program = compile_program(module, cpu_target("x86-64-v3"))
    return [kernel.plan for kernel in program.kernels if isinstance(kernel.plan, LoopPlan)]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_length(kind):
    """Rows that fill vectors, that do not, and fewer rows than lanes; of whole numbers sums are exact."""
    opcode, start, second = KINDS[kind]
    for rows, columns in ((1, 8), (3, 5), (16, 2), (37, 7), (64, 4), (130, 3)):
        text = NORMALIZED.format(
            kind=kind, rows=rows, columns=columns, opcode=opcode, start=start, second=second
        )
        inputs = list(arguments(axla.parse(text)))
        want = axla.compile(axla.parse(text), backend="interpreter")(*inputs)
        got = axla.compile(axla.parse(text))(*inputs)
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want), err_msg=f"{rows} x {columns}")


def test_one_kernel_computes_the_elements_of_a_row_once():
    """The producer and the consumer of a reduce share a kernel, an expensive function of the elements
    too.
    """
    opcode, start, _ = KINDS["f32"]
    text = NORMALIZED.format(kind="f32", rows=4000, columns=7, opcode=opcode, start=start, second="atan2")
    (plan,) = plans(axla.parse(text))
    assert plan.by_rows
    assert plan.dims == (4000, 7)


def test_rows_that_share_memory_with_their_input():
    """An output that lies where its input lay: no row is computed twice."""
    text = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
c { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY e { p = f32[1003,3] parameter(0)
  z = f32[] constant(0)
  m = f32[1003] reduce(p, z), dimensions={1}, to_apply=c
  b = f32[1003,3] broadcast(m), dimensions={0}
  ROOT x = f32[1003,3] add(p, b) }"""
    x = np.arange(3009, dtype=np.float32).reshape(1003, 3)
    want = x + x.sum(axis=1, keepdims=True)
    executable = axla.compile(axla.parse(text), donate=[0])
    given = axla.device_put(x)
    np.testing.assert_array_equal(np.asarray(executable(given)), want)


@pytest.mark.parametrize("dims", [(3, 1, 3), (3, 3), (3, 1, 1, 5), (5, 1, 3, 1, 3), (2, 9), (7, 1, 11)])
@pytest.mark.parametrize("columns", [2, 3, 5])
def test_rows_counted_by_several_numbers(dims, columns):
    """The last vector begins within: the place of its first row is not that row's number."""
    shape, wider = (",".join(map(str, d)) for d in (dims, (*dims, columns)))
    text = f"""ENTRY e {{
  x = f32[{shape}] parameter(0)
  ROOT y = f32[{wider}] broadcast(x), dimensions={{{",".join(map(str, range(len(dims))))}}}
}}"""
    x = np.arange(np.prod(dims), dtype=np.float32).reshape(dims)
    [found] = axla.compile(axla.parse(text)).execute([x])
    assert np.array_equal(np.asarray(found), np.broadcast_to(x[..., None], (*dims, columns)))


@pytest.mark.parametrize("dims", ["12,1,4", "6,2,4", "3,1,1,4", "1,48,4", "7,3,5"])
def test_outer_products_of_many_vectors(dims):
    """Rows whose numbers have digits, with dimensions of size 1 between them."""
    sizes = dims.split(",")
    rank, last = len(sizes), sizes[-1]
    before = ",".join(map(str, range(rank - 1)))
    text = f"""HloModule m
ENTRY e {{ p = f32[{dims}] parameter(0)
  a = f32[{dims},{last}] broadcast(p), dimensions={{{before},{rank - 1}}}
  b = f32[{dims},{last}] broadcast(p), dimensions={{{before},{rank}}}
  ROOT m = f32[{dims},{last}] multiply(a, b) }}"""
    x = np.arange(np.prod(list(map(int, sizes))), dtype=np.float32).reshape(list(map(int, sizes)))
    np.testing.assert_array_equal(
        np.asarray(axla.compile(axla.parse(text))(x)), x[..., None] * x[..., None, :]
    )
