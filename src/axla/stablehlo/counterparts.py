"""Operations of StableHLO and CHLO that are an op of HLO."""

from __future__ import annotations

from axla.foreign.counterparts import counterparts
from axla.stablehlo.operations import OPERATIONS

COUNTERPARTS = counterparts(OPERATIONS)
