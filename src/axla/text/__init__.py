"""HLO text: `parse_hlo(text)` returns a Module, `print_module(module)` (or `Module.to_string`) the text.

`parser.py` (modules, computations) and `instructions.py` parse, `printer.py` prints. All use `attributes.py`
for attributes of ops; `literals.py` parses literals, `literal_printer.py` prints them.
"""

import axla.hlo  # noqa: F401  (fills the table of ops that the parser reads)
import axla.text.pickling  # noqa: F401  modules pickle
from axla.text.parser import looks_like_hlo, parse_hlo
from axla.text.printer import print_module
from axla.text.shapes import parse_program_shape, parse_shape

__all__ = ["looks_like_hlo", "parse_hlo", "parse_program_shape", "parse_shape", "print_module"]
