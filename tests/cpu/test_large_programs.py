"""Programs that are large in one way: the work is in proportion, and what is too deep is refused."""

import os
import re
import signal
import threading

import numpy as np
import pytest

import axla
from axla.codegen import child
from axla.codegen.host import host_target
from axla.core import flags
from axla.core.errors import UnsupportedError
from axla.cpu import compiler
from axla.cpu.compiler import compile_module, llvm_modules
from axla.lowering.pipeline import optimize, program_of
from work import calls

ARRAY = "f32[40]"


def written(text):
    """The LLVM modules of a program."""
    module = axla.parse(text)
    with flags.override(verify=False):
        optimize(module, host_target())
        return llvm_modules(program_of(module), host_target())


def tuple_of_pairs(count):
    shape = f"({', '.join([f'({ARRAY}, {ARRAY})'] * count)})"
    parts = "\n".join(
        f"a{n} = ({ARRAY}, {ARRAY}) get-tuple-element(p), index={n}\n"
        f"b{n} = {ARRAY} get-tuple-element(a{n}), index=1"
        for n in range(count)
    )
    results = ", ".join(f"b{n}" for n in range(count))
    root = f"ROOT r = ({', '.join([ARRAY] * count)}) tuple({results})"
    return f"ENTRY e {{ p = {shape} parameter(0)\n{parts}\n{root} }}"


STATE = f"(s32[], {ARRAY})"


def loop(number, inner=""):
    """Condition and body of a loop that runs `inner` on x."""
    return f"""
    c{number} {{ p = {STATE} parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(3)
      ROOT r = pred[] compare(i, n), direction=LT }}
    b{number} {{ p = {STATE} parameter(0)  i = s32[] get-tuple-element(p), index=0
      x = {ARRAY} get-tuple-element(p), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
      {inner or f"y = {ARRAY} tanh(x)"}
      ROOT r = {STATE} tuple(j, y) }}"""


def loops_in_a_row(count):
    steps = "\n".join(
        f"t{n} = {STATE} tuple(z, x{n})\nw{n} = {STATE} while(t{n}), condition=c{n}, body=b{n}\n"
        f"x{n + 1} = {ARRAY} get-tuple-element(w{n}), index=1"
        for n in range(count)
    )
    called = "".join(map(loop, range(count)))
    entry = f"ENTRY e {{ x0 = {ARRAY} parameter(0)\nz = s32[] constant(0)\n{steps}\n"
    return f"HloModule m\n{called}\n{entry}ROOT r = {ARRAY} negate(x{count}) }}"


def nested_loops(count):
    def inner(n):
        return (
            f"z = s32[] constant(0)\nt = {STATE} tuple(z, x)\n"
            f"w = {STATE} while(t), condition=c{n}, body=b{n}\ny = {ARRAY} get-tuple-element(w), index=1"
        )

    called = "".join(loop(n, inner(n - 1) if n else "") for n in range(count))
    entry = f"ENTRY e {{ x = {ARRAY} parameter(0)\n{inner(count - 1)}\nROOT r = {ARRAY} negate(y) }}"
    return f"HloModule m\n{called}\n{entry}"


@pytest.mark.parametrize("text_of", (tuple_of_pairs, loops_in_a_row))
def test_work_is_in_proportion(text_of):
    written(text_of(2))
    small, large = (calls(lambda n=n: written(text_of(n))) for n in (100, 400))
    assert large < 5.5 * small, f"{small} and {large} calls"


def test_parameters_that_nobody_reads_cost_the_entry_nothing():
    parameters = "\n".join(f"p{n} = f32[4] parameter({n})" for n in range(500))
    entry, *_ = written(f"ENTRY e {{ {parameters}\nROOT r = f32[4] add(p0, p499) }}")
    assert entry.count(" load ptr") < 10


def test_loops_nested_too_deep_are_refused():
    axla.compile(axla.parse(nested_loops(40)))
    with pytest.raises(UnsupportedError, match="nested 401 deep"):
        axla.compile(axla.parse(nested_loops(400)))


def chain(op, count, shape):
    lines = "\n".join(f"v{n + 1} = {shape} {op}(v{n})" for n in range(count))
    return f"ENTRY e {{ v0 = {shape} parameter(0)\n{lines}\nROOT r = {shape} negate(v{count}) }}"


GELU = """ENTRY e {{
  x = f32[{0}] parameter(0)
  one = f32[] constant(1)  ones = f32[{0}] broadcast(one), dimensions={{}}
  root = f32[] constant(0.70710678)  roots = f32[{0}] broadcast(root), dimensions={{}}
  a = f32[{0}] multiply(x, roots)  b = f32[{0}] erf(a)  c = f32[{0}] add(b, ones)
  ROOT r = f32[{0}] multiply(x, c)
}}"""


def code_bytes(text):
    return sum(map(len, compile_module(axla.parse(text)).images))


def test_code_does_not_jump_at_any_number_of_elements():
    sizes = {n: code_bytes(GELU.format(n)) for n in (1, 2, 3, 4, 5, 8, 15, 16, 17, 32)}
    assert max(sizes.values()) < 1.5 * sizes[17], sizes


@pytest.mark.parametrize("shape", ("f32[]", "f32[4]", "f32[16]", "f64[3]"))
def test_long_chains_of_functions(shape):
    """Code that is written out is bounded: kernels of equal structure are one, and scalars call functions."""
    short, long = (sum(map(len, written(chain("sine", count, shape)))) for count in (500, 2000))
    assert long < 2 * short


CHOOSING = {
    "dot": "a{0} = s32[4,4] reshape(v{0})  d{0} = s32[4,4] dot(a{0}, m), lhs_contracting_dims={{1}},"
    " rhs_contracting_dims={{0}}  v{1} = s32[16] reshape(d{0})",
    "gather": "w{0} = s32[16,1] reshape(v{0})  v{1} = s32[16] gather(p, w{0}), offset_dims={{}},"
    " collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}",
    "scatter": "v{1} = s32[16] scatter(v{0}, i, u), update_window_dims={{}}, inserted_window_dims={{0}},"
    " scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add",
    "dynamic-slice": "k{0} = s32[] reshape(v{0})"
    "  v{1} = s32[1] dynamic-slice(q, k{0}), dynamic_slice_sizes={{1}}",
    "dynamic-update-slice": "v{1} = s32[16] dynamic-update-slice(v{0}, u, k)",
}


@pytest.mark.parametrize("op", CHOOSING)
def test_long_code_of_registers_that_are_chosen_at_run_time(op):
    """Dots, gathers and their like become kernels where there are too many for registers."""

    def text(count):
        size = 1 if op == "dynamic-slice" else 16
        lines = "\n".join(CHOOSING[op].format(n, n + 1) for n in range(count))
        return f"""add {{ a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT s = s32[] add(a, b) }}
        ENTRY e {{ p = s32[16] parameter(0)  i = s32[4,1] parameter(1)  u = s32[4] parameter(2)
          m = s32[4,4] reshape(p)  k = s32[] constant(3)  q = s32[16] negate(p)
          v0 = s32[{size}] slice(p), slice={{[0:{size}]}}
          {lines}
          ROOT r = s32[{size}] negate(v{count}) }}"""

    # A call of a kernel each; in registers, a gather of 16 from 16 is 256 comparisons.
    growth = sum(map(len, written(text(150)))) - sum(map(len, written(text(110))))
    assert growth < 40 * (3000 if op == "dynamic-slice" else 1500)
    values = [np.arange(16, dtype=np.int32)[::-1].copy(), np.array([[5], [3], [5], [9]], np.int32)]
    values.append(np.arange(4, dtype=np.int32))
    module = axla.parse(text(150))
    found, wanted = (axla.compile(module, backend=b).execute(values) for b in ("cpu", "interpreter"))
    np.testing.assert_array_equal(np.asarray(found[0]), np.asarray(wanted[0]))


def test_functions_that_are_called_give_the_same_bits():
    text = chain("sine", 120, "f32[]")
    (entry,) = written(text)
    assert "call float @axla.math.sine.f32" in entry
    x = np.float32(0.7)
    apart, run = np.full(17, x), axla.compile(axla.parse(chain("sine", 120, "f32[17]")))
    assert axla.compile(axla.parse(text))(x) == np.asarray(run(apart))[0]


def test_basic_blocks_are_short():
    blocks = re.split(r"\n\w+:\n", written(chain("popcnt", 3000, "s32[]"))[0])
    assert len(blocks) > 5 and max(block.count("\n") for block in blocks) < 700


def test_results_are_written_where_they_are_made():
    """A tuple of very many scalars does not keep them all in registers."""
    parameters = "\n".join(f"p{n} = f32[] parameter({n})\nq{n} = f32[] negate(p{n})" for n in range(50))
    shape, results = ", ".join(["f32[]"] * 50), ", ".join(f"q{n}" for n in range(50))
    text = f"ENTRY e {{ {parameters}\nROOT r = ({shape}) tuple({results}) }}"
    (entry,) = written(text)
    order = re.findall(r"fneg|store float", entry)
    assert order[:4] == ["fneg", "store float"] * 2
    values = [np.float32(n) for n in range(50)]
    assert [float(v) for v in axla.compile(axla.parse(text))(*values)] == [-float(v) for v in values]


def test_results_that_change_places_with_donated_arguments():
    text = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
    ENTRY e { p = f32[2] parameter(0)  q = f32[2] parameter(1)  s = f32[2] add(p, q)
      ROOT r = (f32[2], f32[2], f32[2]) tuple(q, p, s) }"""
    p, q = (axla.device_put(np.array(x, np.float32)) for x in ([1, 2], [3, 4]))
    found = [np.asarray(x).tolist() for x in axla.compile(axla.parse(text))(p, q)]
    assert found == [[3, 4], [1, 2], [4, 6]]


def test_concatenation_of_many_pieces():
    pieces = [np.full(1 + n % 3, n, np.float32) for n in range(300)]
    lines = "\n".join(f"p{n} = f32[{len(x)}] parameter({n})" for n, x in enumerate(pieces))
    whole = np.concatenate(pieces)
    operands = ", ".join(f"p{n}" for n in range(300))
    root = f"ROOT r = f32[{len(whole)}] concatenate({operands}), dimensions={{0}}"
    text = f"ENTRY e {{ {lines}\n{root} }}"
    assert sum(map(len, written(text))) < 400_000  # choosing among all pieces takes 5 times that
    np.testing.assert_array_equal(axla.compile(axla.parse(text))(*pieces), whole)


def test_long_code_is_compiled_by_a_child_that_ctrl_c_ends(monkeypatch):
    text = chain("sine", 50, "f32[]")
    (plain,) = compile_module(axla.parse(text)).images
    monkeypatch.setattr(compiler, "LONG_TEXT", 1000)
    with flags.override(cache_dir=""):
        monkeypatch.setattr(compiler, "object_for", lambda text, target, emit: emit(text, target))
        assert compile_module(axla.parse(text)).images == (plain,)
        processes = []

        class Stopped(child.Child):
            def _running(self):
                process = super()._running()
                os.kill(process.pid, signal.SIGSTOP)  # it never answers
                processes.append(process)
                threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
                return process

        monkeypatch.setattr(child, "Child", Stopped)
        with pytest.raises(KeyboardInterrupt):
            compile_module(axla.parse(text))
        assert processes[0].poll() is not None
