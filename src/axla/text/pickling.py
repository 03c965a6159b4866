"""Makes modules picklable when it is imported: they pickle as HLO text with all values."""

from __future__ import annotations

import copyreg

from axla.ir.graph import Module
from axla.text.parser import parse_hlo


def _restored(text: str) -> Module:
    return parse_hlo(text, exact=True)


def _reduce(module: Module) -> tuple:
    return _restored, (module.to_string(print_large_constants=True),)


copyreg.pickle(Module, _reduce)
