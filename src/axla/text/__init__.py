"""HLO text in: `parse_hlo(text)` gives a Module. The printer is `axla.ir.printer`."""

import axla.hlo  # noqa: F401  (fills the table of ops that the parser reads)
import axla.text.pickling  # noqa: F401  modules pickle
from axla.text.parser import looks_like_hlo, parse_hlo
from axla.text.shapes import parse_program_shape, parse_shape

__all__ = ["looks_like_hlo", "parse_hlo", "parse_program_shape", "parse_shape"]
