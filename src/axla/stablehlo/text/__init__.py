"""MLIR text of StableHLO programs: the parser and the printer.

`lexer.py` reads tokens; `types.py`, `attributes.py` and `dense.py` read types and attributes; `operations.py`
reads operations and regions; `assembly.py` reads short forms, which are defined in the records of
`../operations.py`; `parser.py` reads files; `printer.py` prints.
"""

from axla.stablehlo.text.parser import parse, parse_attribute, parse_type
from axla.stablehlo.text.printer import attribute_text, print_source, type_text

__all__ = ["attribute_text", "parse", "parse_attribute", "parse_type", "print_source", "type_text"]
