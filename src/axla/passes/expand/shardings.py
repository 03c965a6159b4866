"""Reads the shardings of a program for several partitions: XLA's (attributes, custom calls) and Shardy's,
which the importer keeps as frontend attributes.
"""

from __future__ import annotations

from axla.core.errors import VerifyError
from axla.core.regex import regex
from axla.core.shape import Shape
from axla.hlo import CustomCall, PartitionId
from axla.ir.graph import Instruction, Module
from axla.ir.sharding import DimAxes, MeshTiles, Sharding, without_axes
from axla.ir.typed import shape_of
from axla.passes.expand.cuts import Cut, cut_of
from axla.text.sharding import read_sharding

ENTER, LEAVE, SHARDING = "SPMDFullToShardShape", "SPMDShardToFullShape", "Sharding"
"""Targets of custom calls: begin and end of a manual region, and a sharding of a value."""
MESHES, SHARDY, MANUAL_AXES = "xla.sdy.meshes", "xla.sdy.sharding", "xla.sdy.manual_axes"
"""Names of frontend attributes: of a module (its meshes), of an instruction (its sharding), and of the
boundary of a region (its manual axes).
"""


def target_of(inst: Instruction) -> str:
    """The target of a custom call; "" for other instructions."""
    return inst.op.custom_call_target if isinstance(inst.op, CustomCall) else ""


def meshes_of(module: Module) -> dict[str, str]:
    """Maps the names of a module's meshes to their text in HLO: ['x'=2], device_ids=(1,0)."""
    text, found = dict(module.config.frontend_attributes).get(MESHES, ""), {}
    for name, mesh in _MESH.findall(text):
        axes, _, ids = mesh.replace('"', "'").partition(", device_ids=")
        found[name.strip('"')] = axes + (f", device_ids=({ids[1:-1].replace(' ', '')})" if ids else "")
    return found


_MESH = regex(r"([\w.]+|\"[^\"]*\") = #sdy\.mesh<(\[[^\]]*\](?:, device_ids=\[[\d, ]*\])?)>")
_SHARDY = regex(r"<@([\w.]+|\"[^\"]*\"), (\[[^<>]*)>")
_NAME = regex(r"\"([^\"]*)\"")
_PRIORITY = regex(r"(?<=\})p\d+")


class Shardings:
    """The shardings of the instructions of a module."""

    def __init__(self, module: Module) -> None:
        self.partitions = module.config.num_partitions
        self.meshes = meshes_of(module)

    def told(self, inst: Instruction) -> Sharding | None:
        """The sharding of an instruction as the program gives it; None if it gives none."""
        text = dict(inst.extra.frontend_attributes).get(SHARDY)
        return inst.extra.sharding or (self.of_shardy(text) if text is not None else None)

    def said(self, inst: Instruction) -> Sharding | None:
        """Like `told`, but returns tiles instead of named axes. At the boundary of a region, only the
        region's manual axes count.
        """
        found, axes = self.told(inst), dict(inst.extra.frontend_attributes).get(MANUAL_AXES)
        if found is None or not isinstance(inst.shape, Shape):
            return without_axes(found, 0) if found is not None else None
        if axes is not None and isinstance(found.what, MeshTiles):
            found = Sharding(_along(found.what, set(_NAME.findall(axes))))
        return without_axes(found, inst.shape.rank)

    def of_shardy(self, text: str) -> Sharding | None:
        """Parses a sharding such as #sdy.sharding<@mesh, [{"x"}, {}]>, the first one in the text. None if HLO
        has no equivalent.
        """
        found = _SHARDY.search(text)
        if found is None:
            return None
        name, rest = found[1].strip('"'), _PRIORITY.sub("", found[2]).replace('"', "'")
        if name not in self.meshes:
            raise VerifyError(f"the sharding {text} names an unknown mesh @{name}")
        mesh = self.meshes[name]
        if mesh.startswith("[], "):  # a mesh without axes, with one device
            return Sharding(int(mesh.partition("device_ids=")[2].strip("()")))
        return read_sharding(f"mesh{mesh}, {rest}")

    def is_of_a_partition(self, inst: Instruction) -> bool:
        """Whether an instruction shows that it is in a manual region, or at the boundary of one."""
        op = inst.op
        if not isinstance(op, CustomCall):
            return isinstance(op, PartitionId) or op.collective is not None
        if not op.custom_call_has_side_effect:
            return op.custom_call_target in (ENTER, LEAVE)
        # JAX marks callbacks: "manual" in a region, where each partition runs them; else one device runs
        # them.
        said = self.said(inst)
        return said is not None and said.what in ("manual", "replicated")

    def of_border(self, inst: Instruction) -> Cut | None:
        """The cut of an array where a region begins or ends; None if the array stays whole."""
        if target_of(inst) == ENTER and inst.extra.sharding is not None:
            # in XLA's form the operand has the sharding, and the part is marked as manual
            inst = inst.operands[0]
        said = self.said(inst)
        return cut_of(said, shape_of(inst).rank, self.partitions)


def _along(tiles: MeshTiles, names: set[str]) -> MeshTiles:
    """The sharding `tiles` with only those axes of the mesh that are in `names`."""

    def kept(dim: DimAxes) -> DimAxes:
        return DimAxes(tuple(axis for axis in dim.axes if axis.name in names))

    sets = tuple((kind, kept(dim)) for kind, dim in tiles.sets if kind == "unreduced")
    return MeshTiles(tiles.mesh, tuple(map(kept, tiles.dims)), sets)
