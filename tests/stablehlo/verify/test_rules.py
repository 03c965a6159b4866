"""Each rule is broken by a small program and named by its label."""

from __future__ import annotations

import re

import pytest
from rule_cases import CASES, MACROS, REGIONS

from axla.core.errors import VerifyError
from axla.stablehlo.operations import OPERATIONS
from axla.stablehlo.text import parse
from axla.stablehlo.verify import verify
from axla.stablehlo.verify.structure import CONSTRAINTS, NAMED

_MACRO = re.compile(r"\{([A-Z0-9]+)(?::([^{}]*))?\}")


def split(text: str) -> list[str]:
    """At commas that stand in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[<({") - (letter in "]>)}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def expanded(text: str) -> str:
    return _MACRO.sub(lambda m: MACROS[m[1]](*split(m[2] or "")), text).replace("{{", "{").replace("}}", "}")


def types(text: str) -> list[str]:
    """Of operands or results."""
    return [
        part[1:] if part.startswith("!") and not part.startswith("!quant") else f"tensor<{part}>"
        for part in split(expanded(text))
    ]


def region(text: str) -> str:
    name, _, kind = text.partition(":")
    return "{" + REGIONS[name].replace("{t}", f"tensor<{kind or 'f32'}>") + "}"


def program(line: str) -> tuple[str, str]:
    """Label and text."""
    label, name, operands, attributes, regions, results = [part.strip() for part in line.split("|")]
    given, wanted = types(operands), types(results)
    values = ", ".join(f"%{i}" for i in range(len(given)))
    arguments = ", ".join(f"%{i}: {kind}" for i, kind in enumerate(given))
    held = f" ({', '.join(map(region, regions.split()))})" if regions else ""
    attributes = with_slices(name, expanded(attributes))
    name = name if "." in name else f"stablehlo.{name}"
    named = f"%r:{len(wanted)} = " if wanted else ""
    operation = f"({', '.join(given)}) -> ({', '.join(wanted)})"
    return (
        label,
        f"""func.func @one(%0: tensor<f32>) -> tensor<f32> {{ return %0 : tensor<f32> }}
func.func @main({arguments}) {{
  {named}"{name}"({values}){held} {{{attributes}}} : {operation}
  return
}}""",
    )


def with_slices(name: str, attributes: str) -> str:
    if name == "gather" and "slice_sizes" not in attributes:
        return f"{attributes}, slice_sizes = array<i64: 1, 4>"
    return attributes


LINES = [line for line in CASES.split("\n") if line]


@pytest.mark.parametrize("line", LINES, ids=[f"{i}-{line.split()[0]}" for i, line in enumerate(LINES)])
def test_a_broken_rule_is_named(line):
    label, text = program(line)
    with pytest.raises(VerifyError) as caught:
        verify(parse(text))
    place = r"2:1: func.func|3:\d+: [\w.-]+"
    assert re.match(rf"({place}): {label}: \S", str(caught.value)), f"{caught.value}\n{text}"


def test_every_constraint_belongs_to_a_declared_operation():
    declared = {name for name, record in OPERATIONS.items() if record.known}
    assert set(CONSTRAINTS) <= declared
    # What others call, and the functions of func.
    assert {f.__name__ for f in NAMED.values()} - {f.__name__ for f in CONSTRAINTS.values()} == {
        "call", "check_reducer", "windows", "WindowFacts",
    }  # fmt: skip


def test_declarations_number_their_inputs():
    labels = {a.name: a.rule for a in OPERATIONS["stablehlo.gather"].attributes}
    # Six inputs of the specification are one structure.
    assert labels == {"dimension_numbers": "i3", "slice_sizes": "i9", "indices_are_sorted": "i10"}
    conv = {a.name: a.rule for a in OPERATIONS["stablehlo.convolution"].attributes}
    assert conv["dimension_numbers"] == "i8" and conv["precision_config"] == "i19"
