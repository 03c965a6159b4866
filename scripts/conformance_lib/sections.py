"""The table of all sections."""

from __future__ import annotations

from functools import cache

from conformance_lib.devices import (
    AfterPartitioner,
    Auto,
    Devices,
    InvalidDevices,
    Partitioned,
    PartitionedBytecode,
)
from conformance_lib.exported import Export, ExportExec, ExportModels
from conformance_lib.objects import Objects
from conformance_lib.program_texts import ProgramTexts
from conformance_lib.programs import Exec, Matrix, Models
from conformance_lib.protos import Protos
from conformance_lib.samples import Samples
from conformance_lib.section import Section
from conformance_lib.stablehlo import (
    BytecodeModels,
    Dynamic,
    Interpret,
    Quantized,
    StableHLO,
    StableHLOModels,
)
from conformance_lib.texts import Invalid, InvalidStableHLO, Print, Text

# In the order in which they run: those with the longest cases first, so that at the end all workers are busy.
SECTIONS = {
    cls.name: cls
    for cls in (
        Models, StableHLOModels, BytecodeModels, ProgramTexts, Exec, Objects, StableHLO, Dynamic, Quantized,
        Interpret, ExportModels, ExportExec, Export, Matrix, Samples, Text, Print, Protos, Invalid,
        InvalidStableHLO, Devices, Partitioned, PartitionedBytecode, Auto, AfterPartitioner, InvalidDevices,
    )
}  # fmt: skip


@cache
def section(name: str) -> Section:
    """The section with this name; each process makes it once. Raises NotAtHand if its corpus is missing."""
    return SECTIONS[name]()
