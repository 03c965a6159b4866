"""Programs that are large in one way: the work is in proportion, and what is too deep is refused."""

import pytest

import axla
from axla.codegen.target import host_target
from axla.core import flags
from axla.core.errors import UnsupportedError
from axla.cpu.compiler import llvm_modules, optimize, program_of
from work import calls

ARRAY = "f32[40]"


def written(text):
    """The LLVM modules of a program."""
    module = axla.parse(text)
    with flags.override(verify=False):
        optimize(module)
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
