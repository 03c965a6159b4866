"""Every op has a page that is up to date, and an example that gives the same on both backends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import axla
from axla.comparison import compare
from axla.ir.op import OPS
from axla.ir.verify import verify

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from docs_lib import declarations, sections  # noqa: E402
from docs_lib.examples import FOLDER, Example, lifted  # noqa: E402
from docs_lib.pages import DOCS, pages  # noqa: E402
from docs_lib.rules import rules  # noqa: E402

from axla.tools.samples import run_fed  # noqa: E402

NAMES = ("ops", "flags", "stablehlo-operations", "tensorflow-ops", "kernel-kinds", "passes")


def test_every_op_has_an_example():
    assert {path.name for path in FOLDER.iterdir()} == {f"{opcode}.hlo" for opcode in OPS}


@pytest.mark.parametrize("opcode", OPS)
def test_example(opcode):
    example = Example.of(opcode)
    verify(example.module)
    assert opcode in {inst.opcode for c in example.module.computations for inst in c.instructions}
    assert len(example.what) > 20
    wanted = run_fed(example.module, [], "interpreter")
    for module, values in ((example.module, []), lifted(example.module)):
        found = run_fed(module, values, "cpu")
        compare(module, found, wanted, "cpu", "interpreter").raise_if_different()


def test_examples_are_compiled_with_arguments():
    """So that the test above cannot come to compare folded constants only."""
    module, values = lifted(Example.of("gather").module)
    assert len(values) == len(module.entry.parameters) == 3
    assert not any(inst.opcode == "constant" for inst in module.entry.instructions)


def test_pages_are_up_to_date():
    wanted = pages()
    made = (DOCS / f"{name}.md" for name in NAMES)
    there = {*made, *(DOCS / "ops").glob("*.md")}
    stale = [p.name for p, text in wanted.items() if p not in there or p.read_text(encoding="utf-8") != text]
    assert not stale, "run scripts/docs"
    assert there == set(wanted), "run scripts/docs"


def test_sections_name_ops():
    assert {*sections.SECTIONS, *sections.ABSENT} <= set(OPS)


@pytest.mark.parametrize("opcode", OPS)
def test_declarations_say_enough(opcode):
    cls = OPS[opcode]
    assert len(declarations.documentation(cls)) > 15
    assert declarations.element_types(cls)
    assert declarations.shape_rows(cls)


def test_rules_are_those_of_the_code():
    refused = dict(rules(OPS["gather"]))
    assert refused["gather_c4"] == "collapsed_slice_dims=… must be sorted"
    assert "must have the same size" in refused["gather_i6"]
    with pytest.raises(axla.AxlaError, match="gather_c1"):
        text = Example.of("gather").text.replace("slice_sizes={1,4}", "slice_sizes={1,5}")
        verify(axla.parse(text))


def test_builder_functions_are_found():
    found = declarations.builder_functions()
    assert found["gather"] == ("Gather",)
    assert "EqTotalOrder" in found["compare"]
    assert "Dot" in found["dot"] and "Conv" in found["convolution"]
    assert declarations.signature("Rev") == "Rev(operand, dimensions)"
