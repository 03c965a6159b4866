"""Operations of StableHLO and CHLO that correspond to a single HLO op."""

from __future__ import annotations

from axla.importers.counterparts import counterpart, counterparts
from axla.stablehlo.operations import CUSTOM_CALL, OPERATIONS

COUNTERPARTS = counterparts(OPERATIONS)
CALL_FIELDS = counterpart(CUSTOM_CALL)
"""The fields of custom calls that HLO has and StableHLO does not have: attributes like those of a
convolution, and words.
"""
