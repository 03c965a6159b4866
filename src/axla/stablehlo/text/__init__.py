"""MLIR text of StableHLO programs, in and out.

`lexer.py` reads tokens; `types.py`, `attributes.py` and `dense.py` what stands in types and attributes;
`operations.py` operations and regions; the short forms stand in the records of `../operations.py`,
`assembly.py` reads them; `parser.py` reads the file; `printer.py` writes.
"""

from axla.stablehlo.text.parser import parse, parse_attribute, parse_type
from axla.stablehlo.text.printer import attribute_text, print_source, type_text

__all__ = ["attribute_text", "parse", "parse_attribute", "parse_type", "print_source", "type_text"]
