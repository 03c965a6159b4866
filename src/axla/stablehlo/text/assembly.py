"""Short forms."""

from typing import Any
from axla.stablehlo import mlir


def short_form(parser: Any, position: tuple[int, int]) -> mlir.Operation:
    parser.fail(f"unknown operation {parser.saw()}")
