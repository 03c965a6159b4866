"""Operations of StableHLO and CHLO that correspond to a single HLO op."""

from __future__ import annotations

from axla.importers.counterparts import counterpart, counterparts
from axla.stablehlo.operations import CUSTOM_CALL, OPERATIONS

COUNTERPARTS = counterparts(OPERATIONS)
CALL_FIELDS = counterpart(CUSTOM_CALL)
"""The fields of HLO's custom calls that StableHLO's do not have: those of a convolution, such as the window,
and the strings `padding_type`, `literal` and `schedule`.
"""
