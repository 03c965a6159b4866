"""Memory accesses of thread blocks: transposes and reductions, whole and with edges, on the machine that
executes PTX. Inputs are whole numbers, so that results are those of the interpreter in any order; what warps
touch is counted.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_nvptx import SM90, SMALL, Emitted, arguments, kernel_of, softmax

import axla
from axla.codegen import llvm
from axla.program.kernels import output_shapes
from ptx.machine import Kernels
from ptx.memory import Memory
from ptx.traffic import SECTOR, Traffic


def reduces(kind: str, dims: str, at: str, result: str, opcode: str = "add", start: str = "1") -> str:
    return f"""HloModule m
c {{ a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] {opcode}(a, b) }}
ENTRY e {{ p = {kind}[{dims}] parameter(0)
  z = {kind}[] constant({start})
  ROOT r = {kind}[{result}] reduce(p, z), dimensions={{{at}}}, to_apply=c }}"""


def transposed(kind: str, dims: str, permutation: str, result: str) -> str:
    return f"""HloModule m
ENTRY e {{ p = {kind}[{dims}] parameter(0)
  ROOT t = {kind}[{result}] transpose(p), dimensions={{{permutation}}} }}"""


TWO_TRANSPOSES = """HloModule m
ENTRY e { p = f32[70,45] parameter(0)
  q = bf16[70,45] parameter(1)
  b = f32[70] parameter(2)
  n = f32[70,45] negate(p)
  t = f32[45,70] transpose(n), dimensions={1,0}
  u = bf16[45,70] transpose(q), dimensions={1,0}
  w = f32[45,70] convert(u)
  s = f32[45,70] add(t, w)
  c = f32[45,70] broadcast(b), dimensions={1}
  ROOT r = f32[45,70] multiply(s, c) }"""

MOMENTS = """HloModule m
f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
g { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = f64[] maximum(a, b) }
ENTRY e { p = f32[701,21] parameter(0)
  z = f32[] constant(0)
  x = f32[701,21] abs(p)
  w = f64[701,21] convert(p)
  n = f64[] constant(-inf)
  s = f32[21] reduce(x, z), dimensions={0}, to_apply=f
  m = f64[21] reduce(w, n), dimensions={0}, to_apply=g
  k = f64[21] convert(s)
  ROOT r = f64[21] divide(k, m) }"""


def centred(kind: str, rows: int, columns: int) -> str:
    """x - max(x), and x + sum(x), by rows."""
    full, row = f"{kind}[{rows},{columns}]", f"{kind}[{rows}]"
    return f"""HloModule m
f {{ a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] maximum(a, b) }}
g {{ a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] add(a, b) }}
ENTRY e {{ p = {full} parameter(0)
  q = {kind}[{columns}] parameter(1)
  l = {kind}[] constant(-100)
  z = {kind}[] constant(0)
  m = {row} reduce(p, l), dimensions={{1}}, to_apply=f
  mb = {full} broadcast(m), dimensions={{0}}
  d = {full} subtract(p, mb)
  s = {row} reduce(d, z), dimensions={{1}}, to_apply=g
  sb = {full} broadcast(s), dimensions={{0}}
  qb = {full} broadcast(q), dimensions={{1}}
  t = {full} subtract(d, qb)
  u = {full} add(t, sb)
  ROOT both = ({full}, {row}) tuple(u, s) }}"""


def in_order(rows: int, columns: int) -> str:
    """Square roots of x - first(x), divided by a sum that forgets; by rows. Both reductions are in order."""
    full, row = f"f32[{rows},{columns}]", f"f32[{rows}]"
    return f"""HloModule m
first {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  z = f32[] constant(0)
  n = pred[] compare(a, z), direction=EQ
  ROOT r = f32[] select(n, b, a) }}
forgets {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  h = f32[] constant(0.75)
  m = f32[] multiply(a, h)
  ROOT r = f32[] add(m, b) }}
ENTRY e {{ p = {full} parameter(0)
  z = f32[] constant(0)
  m = {row} reduce(p, z), dimensions={{1}}, to_apply=first
  mb = {full} broadcast(m), dimensions={{0}}
  d = {full} subtract(p, mb)
  a = {full} abs(d)
  x = {full} sqrt(a)
  s = {row} reduce(x, z), dimensions={{1}}, to_apply=forgets
  sb = {full} broadcast(s), dimensions={{0}}
  q = {full} divide(x, sb)
  ROOT both = ({full}, {row}) tuple(q, s) }}"""


def added(kind: str, dims: str, at: str, of: str) -> str:
    """A sum with what is broadcast along dimensions."""
    return f"""HloModule m
ENTRY e {{ p = {kind}[{dims}] parameter(0)
  q = {kind}[{of}] parameter(1)
  b = {kind}[{dims}] broadcast(q), dimensions={{{at}}}
  ROOT r = {kind}[{dims}] add(p, b) }}"""


def sliced(columns: int) -> str:
    """Rows that are not a whole number of vectors, of longer ones."""
    return f"""HloModule m
ENTRY e {{ p = f32[4,{columns + 17}] parameter(0)
  s = f32[4,{columns}] slice(p), slice={{[0:4], [7:{columns + 7}]}}
  ROOT r = f32[4,{columns}] negate(s) }}"""


REVERSED = """HloModule m
ENTRY e { p = f32[700] parameter(0)
  r = f32[700] reverse(p), dimensions={0}
  s = f32[700] slice(r), slice={[0:700]}
  ROOT t = f32[700] add(s, p) }"""

PROGRAMS = {
    "transpose of s8": transposed("s8", "67,45", "1,0", "45,67"),
    "transpose of bf16": transposed("bf16", "64,33", "1,0", "33,64"),
    "transpose of f64": transposed("f64", "33,64", "1,0", "64,33"),
    "transpose of c128": transposed("c128", "40,35", "1,0", "35,40"),
    "transpose of pred": transposed("pred", "40,35", "1,0", "35,40"),
    "transpose of few columns": transposed("f32", "300,5", "1,0", "5,300"),
    "transpose of few rows": transposed("f32", "6,300", "1,0", "300,6"),
    "transposes of matrices": transposed("f32", "3,34,40", "0,2,1", "3,40,34"),
    "dimensions turned": transposed("f32", "35,4,40", "2,1,0", "40,4,35"),
    "small matrices": transposed("f32", "30,6,7", "0,2,1", "30,7,6"),
    "two transposes": TWO_TRANSPOSES,
    "columns of f32": reduces("f32", "300,70", "0", "70"),
    "columns of bf16": reduces("bf16", "300,70", "0", "70"),
    "columns of f64": reduces("f64", "999,3", "0", "3"),
    "columns of c64": reduces("c64", "100,40", "0", "40", start="(1,0)"),
    "columns of s8": reduces("s8", "100,40", "0", "40", "maximum", "-128"),
    "columns of pred": reduces("pred", "100,40", "0", "40", "and", "true"),
    "columns in order": reduces("f32", "100,70", "0", "70", "subtract"),
    "columns in the middle": reduces("f32", "3,70,33", "1", "3,33"),
    "columns in pieces": reduces("f32", "2051,5", "0", "5"),
    "two reductions of columns": MOMENTS,
    "rows of one vector per thread": centred("f32", 3, 256),
    "rows of some vectors": centred("f32", 3, 600),
    "rows without whole vectors": centred("f32", 3, 203),
    "rows beyond registers": centred("f32", 2, 2052),
    "rows of s32": centred("s32", 3, 300),
    "rows of f64": centred("f64", 3, 130),
    "rows of s16": centred("s16", 3, 520),
    "rows of c64": reduces("c64", "3,130", "1", "3", start="(1,0)"),
    "rows of bf16": reduces("bf16", "3,264", "1", "3"),
    "short rows": centred("f32", 37, 12),
    "short rows of several per warp": centred("s32", 100, 64),
    "rows of one warp": centred("f32", 35, 128),
    "short rows of s8": centred("s8", 70, 9),
    "rows in pieces": reduces("f32", "2,40000", "1", "2"),
    "loop of s8": added("s8", "3,1000", "1", "1000"),
    "loop of pred": reduces("pred", "3,1000", "1", "3", "and", "true"),
    "loop of bf16": added("bf16", "1003", "0", "1003"),
    "loop of f64": added("f64", "5,34", "0", "5"),
    "loop of c64": added("c64", "7,33", "1", "33"),
    "loop along the first of three": added("f32", "5,6,36", "0,2", "5,36"),
    "loop of short rows": added("f32", "300,4", "1", "4"),
    "loop of shorter rows": added("f32", "300,3", "1", "3"),
    "loop backwards": REVERSED,
}  # fmt: skip


def run(emitted: Emitted, inputs: list[np.ndarray], target=SMALL) -> tuple[list[np.ndarray], list[Traffic]]:
    """Results of a kernel, and what each phase asks of the memory."""
    outputs = [np.zeros(shape.dims, shape.dtype.numpy) for shape in output_shapes(emitted.kernel.computation)]
    memory = Memory(4 << 20, 4 << 20)
    kernels = Kernels(llvm.emit_assembly(emitted.text, target), memory)
    arrays = [*inputs, *outputs, np.zeros(max(emitted.plan.scratch_bytes, 1), np.uint8)]
    places = [memory.allocate(array.nbytes) or 0 for array in arrays]
    for place, array in zip(places, inputs, strict=False):
        memory.view(place, array.nbytes)[:] = array.reshape(-1).view(np.uint8)
    counts = []
    for phase in emitted.plan.phases:
        counts.append(Traffic(memory.size))
        memory.traffic = counts[-1]
        kernels.launch(phase.symbol, phase.count, phase.threads, places)
    for place, array in zip(places[len(inputs) :], outputs, strict=False):
        array.reshape(-1).view(np.uint8)[:] = memory.view(place, array.nbytes)
    return outputs, counts


def whole(array: np.ndarray) -> np.ndarray:
    """Numbers of which sums are exact."""
    if array.dtype.kind in "biu":
        return array
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return np.rint(wide * 4).astype(array.dtype)


def compared(program: str, target, change=whole) -> list[Traffic]:
    """The results are those of the interpreter, bit by bit; `change`: what is done to the inputs before."""
    emitted = kernel_of(program, target)
    inputs = [change(array) for array in arguments(emitted)]
    outputs, counts = run(emitted, inputs, target)
    wanted = axla.compile(axla.parse(program), backend="interpreter").execute(inputs)
    for got, want in zip(outputs, wanted, strict=True):
        np.testing.assert_array_equal(got, np.asarray(want))
    return counts


@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name):
    compared(PROGRAMS[name], SMALL)


@pytest.mark.parametrize(
    "name",
    [
        "transpose of s8",
        "two transposes",
        "columns in the middle",
        "rows of some vectors",
        "loop of s8",
        "short rows",
        "rows in pieces",
    ],
)
@pytest.mark.parametrize("threads", [8, 256])
def test_results_of_other_blocks(name, threads):
    compared(PROGRAMS[name], replace(SM90, threads=threads))


@pytest.mark.parametrize(
    "program",
    [
        transposed("f32", "64,96", "1,0", "96,64"),
        transposed("f64", "64,64", "1,0", "64,64"),
        transposed("bf16", "2,64,64", "0,2,1", "2,64,64"),
        reduces("f32", "512,64", "0", "64"),
        reduces("bf16", "2,256,64", "1", "2,64"),
        reduces("f32", "512,64", "0", "64", "subtract"),
        added("f32", "4096", "0", "4096"),
        added("s8", "65536", "0", "65536"),
    ],
)  # fmt: skip
def test_every_sector_is_moved_once(program):
    (count, *_) = compared(program, SM90)
    assert count.asked == count.sectors * SECTOR
    assert count.sectors * SECTOR == count.footprint("ld") + count.footprint("st")


@pytest.mark.parametrize(("rows", "size"), [(16, 1000), (16, 1024), (2, 8192)])
def test_rows_are_read_once(rows, size):
    """Up to eight times 16 bytes per thread, which stay in registers until the row is written."""
    emitted = kernel_of(softmax(rows, size), SM90)
    _, (count,) = run(emitted, [np.ones((rows, size), np.float32)], SM90)
    assert count.sectors * SECTOR <= (2 * size + 1) * rows * 4 + rows * SECTOR


@pytest.mark.parametrize(("columns", "loads"), [(1023, 2), (2051, 4)])
def test_turns_of_loops_without_vectors_have_several_loads(columns, loads):
    """Columns beyond the end are the last one again."""
    text = llvm.emit_assembly(kernel_of(sliced(columns), SM90).text, SM90)
    assert text.count("ld.global") == loads
    compared(sliced(columns), SM90)


@pytest.mark.parametrize(("rows", "columns"), [(1, 300), (5, 300), (3, 1001), (70, 40)])
@pytest.mark.parametrize("target", [SMALL, SM90])
def test_a_row_that_goes_in_order_has_one_thread(target, rows, columns):
    """Others would read what it has written already. No pass reads or writes an element twice."""
    program = in_order(rows, columns)
    plan = kernel_of(program, target).plan
    assert [phase.threads for phase in plan.phases] == [plan.beside]
    (count,) = compared(program, target, np.asarray)
    accesses = 1 + 2 + 2  # of an element, pass by pass: square roots lie where the quotients will
    assert count.asked <= accesses * 4 * rows * columns + 4 * rows


def test_short_rows_share_a_block():
    """Eight rows for a warp, of four threads with 16 bytes each."""
    emitted = kernel_of(centred("f32", 256, 16), SM90)
    (phase,) = emitted.plan.phases
    assert (phase.count, phase.threads) == (4, 256)
    (count,) = compared(centred("f32", 256, 16), SM90)
    assert count.sectors * SECTOR <= count.footprint("ld") + count.footprint("st") + 64 * 4 * SECTOR


def test_a_tile_has_no_conflicts_of_banks():
    (count,) = compared(transposed("f32", "64,96", "1,0", "96,64"), SM90)
    assert count.wavefronts == 2 * 64 * 96 // 32


def test_few_columns_are_cut_into_pieces():
    plan = kernel_of(reduces("f32", "4096,1024", "0", "1024"), SM90).plan
    assert [(phase.count, phase.threads) for phase in plan.phases] == [(512, 256), (32, 256)]
    assert plan.scratch_bytes == 16 * 1024 * 4
