"""Every declared op must have a docstring, samples, a text form, an evaluation that agrees with its
declaration, a lowering on each backend, an equivalent in StableHLO, and an example as a text. If an op lacks
one of these, a table in this file has the reason; the tables may have no other entries.

`LEDGER_OPS=softplus,...` checks ops of installed packages in the same way.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import axla.hlo  # noqa: F401  (declares the ops)
from axla.api import parse
from axla.codegen.host import host_target, one_lane_target
from axla.comparison import check, compare
from axla.core.dtypes import ALL, F32, S32
from axla.core.errors import ShapeError, UnsupportedError
from axla.core.shape import Shape
from axla.cpu.compiler import llvm_modules
from axla.device.compiler import kernels_text, program_for, reasons
from axla.interpreter import evaluate
from axla.interpreter.evaluate import REGIONS
from axla.ir.op import OPS, Op, declared
from axla.ir.verify import verify
from axla.lowering.pipeline import compile_program
from axla.passes.expand import dynamic_rules
from axla.program.program import all_steps
from axla.program.steps import CustomCallStep
from axla.stablehlo import export_text
from axla.target.nvptx import nvptx_target
from axla.target.spirv import spirv_target
from axla.text import parse_hlo
from axla.tools.samples import NOTHING_TO_COMPARE, fed, modules_of, run_fed, sample_target
from sample_modules import ENDS, sample_arguments, sample_cases, sample_module

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from docs_lib.examples import Example, lifted  # noqa: E402

LOADED = [declared(opcode) for opcode in os.environ.get("LEDGER_OPS", "").split(",") if opcode]

TARGETS = {"cpu": host_target, "one-lane": one_lane_target}
DEVICES = {"opencl": spirv_target, "cuda": nvptx_target}

# Ops whose samples are not compiled, with the text of the error.
NOT_LOWERED = {
    "custom-call": "no such target is registered",
    "recv": "no send has the same channel",
}

# Ops whose steps run on the host of a device, with the reason.
ON_THE_HOST = {
    "custom-call": "its target is a function of the host",
    "infeed": "the queue that it takes from is the host's",
    "outfeed": "the queue that it fills is the host's",
}

# Ops without an equivalent in StableHLO, with the reason.
NOT_IN_STABLEHLO = {
    "rng-get-and-update-state": "StableHLO has no state of random numbers",
}

# Ops whose samples the interpreter cannot run, with the reason.
NOT_EVALUATED = {
    "custom-call": "what it computes depends on its target",
    "infeed": "waits for the host (interpreter/test_transfers.py)",
    "outfeed": "what it gives stays in the queue (interpreter/test_transfers.py)",
    "recv": "there is no one to receive from",
}

# Ops for which the cost analysis counts no operations, although they neither move elements nor run
# computations, with the reason. XLA counts none for them either, or counts other operations.
NOT_COUNTED = {
    **dict.fromkeys(
        ("constant", "iota", "replica-id", "partition-id"), "it is there, or made while it is read"
    ),
    **dict.fromkeys(("async-update", "async-done"), "the step that goes on with, or ends, what was counted"),
    **dict.fromkeys(("copy", "copy-start", "domain", "dynamic-update-slice"), "elements as they are"),
    **dict.fromkeys(("dynamic-reshape", "get-dimension-size", "set-dimension-size"), "only sizes change"),
    **dict.fromkeys(("ragged-dot", "scaled-dot", "topk", "scan"), "counted as what takes its place"),
    **dict.fromkeys(
        ("batch-norm-inference", "batch-norm-training", "batch-norm-grad", "rng-bit-generator"),
        "counted as what takes its place",
    ),
    "fusion": "what it calls is counted",
}

# Ops that do not support arrays of dynamic size in compiled code, with the reason.
NOT_OF_DYNAMIC_SIZE = {
    **dict.fromkeys(("constant", "iota", "replica-id", "partition-id"), "takes none"),
    **dict.fromkeys(("infeed", "recv", "rng", "rng-get-and-update-state"), "takes none"),
    **dict.fromkeys(("outfeed", "send", "send-done", "recv-done"), "the other end has one size"),
    **dict.fromkeys(("async-update", "async-done", "copy-start", "copy-done"), "expanded before"),
    **dict.fromkeys(("custom-call", "fusion", "bitcast"), "about memory, where arrays have their bounds"),
    **dict.fromkeys(("opt-barrier",), "passes them on as tuples, as calls do"),
    **dict.fromkeys(("ragged-dot", "scaled-dot", "scan", "rng-bit-generator"), "XLA has no rule either"),
    **dict.fromkeys(("select-and-scatter",), "not implemented"),
    **dict.fromkeys(("batch-norm-inference", "batch-norm-training", "batch-norm-grad"), "expanded before"),
}

# The remedy for an op that lacks one of these.
MISSING = {
    "evaluation": "it needs a method evaluate, an entry of interpreter REGIONS, or a reason in NOT_EVALUATED",
    "lowering": "it needs an element generator (codegen/element.py), an expander (passes/expand), its own "
    "method element, expand or source, or a reason in NOT_LOWERED",
    "kernels": "what devices do not run needs a reason in ON_THE_HOST",
    "StableHLO": "it needs a record in stablehlo/operations.py, or a reason in NOT_IN_STABLEHLO",
    "example": "it needs a text: docs/examples/OPCODE.hlo, or OPCODE.hlo beside the module of a package",
}


@contextmanager
def asked_for(what, opcode):
    try:
        yield
    except Exception as error:
        error.add_note(f"{what} of {opcode}: {MISSING[what].replace('OPCODE', opcode)}")
        raise


ALONE = sorted(OPS.keys() - {end for ends in ENDS.values() for end in ends})
CASES = [pytest.param(op, shapes, id=name) for name, op, shapes in sample_cases()]


@pytest.mark.parametrize("opcode", sorted(OPS))
def test_has_docstring_and_samples(opcode):
    cls = OPS[opcode]
    assert cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}("), f"{opcode} has no docstring"
    assert cls.samples(), f"{opcode} has no samples"
    name = "TopK" if opcode == "topk" else "".join(part.capitalize() for part in opcode.split("-"))
    assert cls.__name__ == name or cls in LOADED, f"the class of {opcode} is called {name}"


@pytest.mark.parametrize(("op", "shapes"), CASES)
def test_sample_verifies_and_reads_back(op, shapes):
    module = sample_module(op, shapes)
    verify(module)
    text = module.to_string(print_large_constants=True)
    again = parse_hlo(text)
    verify(again)
    assert again.to_string(print_large_constants=True) == text
    assert again.entry.root.shape.logical is module.entry.root.shape.logical


@pytest.mark.parametrize(("op", "shapes"), CASES)
def test_evaluation_has_the_inferred_shape(op, shapes):
    if op.opcode in NOT_EVALUATED:
        pytest.skip(NOT_EVALUATED[op.opcode])
    module = sample_module(op, shapes)
    arguments = (
        sample_arguments(op, shapes) if op.opcode != "parameter" else sample_arguments(op, (op.shape,))
    )
    with asked_for("evaluation", op.opcode):
        result = evaluate(module, arguments)
    assert result.shape.logical is module.entry.root.shape.logical or module.entry.root.shape.is_dynamic


SOURCES = [p for p in CASES if hasattr(p.values[0], "source")]


@pytest.mark.parametrize(("op", "shapes"), SOURCES)
def test_source_agrees_with_evaluate(op, shapes):
    (operand,) = shapes
    (literal,) = sample_arguments(op, shapes)
    result = evaluate(sample_module(op, shapes), [literal])
    assert isinstance(result.shape, Shape)
    if not result.shape.size:
        return
    index = tuple(np.indices(result.shape.dims)) if result.shape.dims else ()
    taken = literal.array[tuple(op.source(index, operand))]
    assert np.array_equal(np.broadcast_to(taken, result.shape.dims), result.array)
    for at in np.ndindex(*result.shape.dims):  # ints must work like arrays
        assert literal.array[op.source(at, operand)] == result.array[at]


def test_is_evaluated_or_says_why():
    without = {
        opcode
        for opcode, cls in OPS.items()
        if not hasattr(cls, "evaluate") and cls not in REGIONS and opcode != "parameter"
    }
    assert without <= NOT_EVALUATED.keys(), MISSING["evaluation"]
    assert all(OPS[opcode].side_effect is not False for opcode in NOT_EVALUATED), "it could be evaluated"


@pytest.mark.parametrize("backend", TARGETS)
@pytest.mark.parametrize("opcode", ALONE)
def test_is_lowered_or_says_why(opcode, backend):
    """Lowers each sample to LLVM IR; docs/test_ops_pages.py compares results."""
    target = TARGETS[backend]()
    for op, shapes in OPS[opcode].samples():
        module = sample_module(op, shapes)
        if opcode in NOT_LOWERED:
            with pytest.raises(UnsupportedError, match=NOT_LOWERED[opcode]):
                compile_program(module, target)
        else:
            with asked_for("lowering", opcode):
                assert llvm_modules(compile_program(module, target), target)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("opcode", ALONE)
def test_has_kernels_for_devices_or_says_why(opcode, device):
    """Lowers each sample to LLVM IR for a device."""
    target = DEVICES[device]()
    for op, shapes in OPS[opcode].samples():
        if opcode in NOT_LOWERED:
            continue  # the error is that of the CPU, which is tested above
        with asked_for("kernels", opcode):
            program, _ = program_for(sample_module(op, shapes), target)
            assert "define" in kernels_text(program, target) or not program.kernels
        there = any(isinstance(step, CustomCallStep) for step in all_steps(program))
        assert there == (opcode in ON_THE_HOST), MISSING["kernels"]
        assert not reasons(program, target)


@pytest.mark.opencl
@pytest.mark.skipif("__import__('opencl_device').why_no_device()", reason="no OpenCL device")
@pytest.mark.parametrize("opcode", sorted(OPS))
def test_runs_on_opencl_or_says_why(target_of_the_sample, opcode):
    """A sample gives the results of the interpreter; the host runs no kernel."""
    module, inputs = first_sample(opcode)
    program = axla.compile(module, backend="opencl", replicas="first")
    assert not program.host_steps, MISSING["kernels"]
    with fed(module):
        found = program.execute(list(inputs))
    wanted = run_fed(module, inputs, "interpreter")
    if opcode not in NOTHING_TO_COMPARE:
        compare(module, found, wanted, "opencl", "interpreter").raise_if_different()


@pytest.fixture
def target_of_the_sample():
    with sample_target():
        yield


def first_sample(opcode):
    """The first sample of an op, with inputs; of f32 if the op takes it."""
    for dtype in (F32, S32, *ALL):
        if modules := modules_of(opcode, dtype):
            return modules[0]
    raise AssertionError(f"{opcode} has no sample of any type")


@pytest.mark.parametrize("opcode", ALONE)
def test_goes_through_stablehlo_or_says_why(opcode):
    """The module after export and import takes the same arguments and returns the same arrays."""
    for op, shapes in OPS[opcode].samples():
        module = sample_module(op, shapes)
        if opcode in NOT_IN_STABLEHLO:
            with pytest.raises(UnsupportedError, match="StableHLO has no operation for this op"):
                export_text(module)
            continue
        with asked_for("StableHLO", opcode):
            again = parse(export_text(module))
        verify(again)
        for before, after in zip(ends_of(module), ends_of(again), strict=True):
            assert before is after


def test_operations_are_counted_or_it_says_why():
    silent = set()
    for opcode, cls in OPS.items():
        effect = cls.effect or cls.collective or cls.ends
        passes = cls.moves or cls.passes_on or cls.structural or cls.control
        if cls.operations is Op.operations and not passes and not effect:
            silent.add(opcode)
    assert silent == NOT_COUNTED.keys()


@pytest.mark.parametrize(("op", "shapes"), CASES)
def test_counts_are_numbers(op, shapes):
    result = sample_module(op, shapes).entry.root.shape
    assert op.operations(shapes, result) >= 0 and op.accessed(shapes, result) >= 0


def test_takes_dynamic_sizes_or_says_why():
    without = {
        opcode
        for opcode, cls in OPS.items()
        if not (cls.elementwise or cls.structural or cls.control or cls in dynamic_rules.RULES)
        and not (cls.collective or cls.ends and cls.ends.collective)
    }
    assert without == NOT_OF_DYNAMIC_SIZE.keys()


def ends_of(module):
    """The logical shapes of the arrays of a program: arguments, then results."""
    shapes = [*(p.shape for p in module.entry.parameters), module.entry.root.shape]
    return [leaf.logical for shape in shapes for leaf in shape.leaves()]


def test_the_tables_name_ops():
    assert {*NOT_LOWERED, *ON_THE_HOST, *NOT_IN_STABLEHLO} <= set(OPS)


@pytest.mark.parametrize("opcode", sorted(OPS))
def test_has_an_example_that_is_a_text(opcode):
    """For ops of other packages, it also runs the example on all backends; for others, the tests of the pages
    do.
    """
    with asked_for("example", opcode):
        example = Example.of(opcode)
    assert opcode in {inst.opcode for c in example.module.computations for inst in c.instructions}
    if OPS[opcode] in LOADED:
        for module, values in ((example.module, []), lifted(example.module)):
            for backend in TARGETS:
                check(module, backend, inputs=values).raise_if_different()


def test_samples_reach_every_operand_count():
    for opcode, cls in OPS.items():
        for _, shapes in cls.samples():
            assert cls.variadic or len(shapes) <= len(cls.operand_names), opcode


@pytest.mark.parametrize("opcode", [o for o, c in OPS.items() if c.elementwise and len(c.operand_names) == 2])
def test_binary_ops_reject_different_dimensions(opcode):
    for op, shapes in OPS[opcode].samples():
        if shapes[0].dims:
            other = shapes[1].with_dims((*shapes[1].dims[:-1], shapes[1].dims[-1] + 1))
            with pytest.raises(ShapeError, match=r"\[\w+\]$"):
                op.infer(shapes[0], other)
            break
