"""A small library with all features that a library can have: constants, a variable that is only read, and one
that is updated.
"""

from __future__ import annotations

import axla
from axla.aot.build import BuildSource, Label, build
from axla.aot.library import CompiledLibrary, Weights
from axla.aot.names import parse_name
from axla.codegen.native import systems
from axla.target.names import target

MACHINE, OTHER = sorted(("aarch64", "x86-64"), key=lambda name: name[:3] != systems.machine()[:3])
"""A target whose objects run on this machine, and one whose objects do not."""

_VALUES = ", ".join(str(k) for k in range(100))
PROGRAM = f"""HloModule m, input_output_alias={{ {{1}}: (1, {{}}, may-alias) }}
ENTRY e {{
  x = f32[100] parameter(0)
  state = f32[100] parameter(1)
  w = bf16[100] parameter(2)
  wide = f32[100] convert(w)
  c = f32[100] constant({{{_VALUES}}})
  sum = f32[100] add(x, c)
  y = f32[100] multiply(sum, wide)
  next = f32[100] add(state, x)
  ROOT both = (f32[100], f32[100]) tuple(y, next)
}}"""


def library(place: Weights) -> CompiledLibrary:
    labels = (Label("x", "x"), Label("state", "params['s']"), Label("w", "w", variable=True))
    one = BuildSource(axla.parse(PROGRAM), labels, (Label("y", "y"), Label("next", "next")))
    return build(parse_name("a::Net"), [one], target(MACHINE), weights=place)
