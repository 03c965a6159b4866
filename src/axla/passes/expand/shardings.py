"""What a program of several partitions says of shardings: in XLA's way (attributes, custom calls) or in
Shardy's, which the importer keeps as frontend attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from axla.core.errors import UnsupportedError, VerifyError
from axla.core.shape import Shape
from axla.hlo import Call, CustomCall, PartitionId
from axla.ir.graph import Instruction, Module
from axla.ir.sharding import DimAxes, MeshTiles, Sharding, without_axes
from axla.ir.structure import GetTupleElement, Parameter, Tuple
from axla.ir.typed import applies, shape_of
from axla.passes.expand.cuts import Cut, cut_of
from axla.text.sharding import read_sharding

ENTER, LEAVE, SHARDING = "SPMDFullToShardShape", "SPMDShardToFullShape", "Sharding"
"""Custom calls: where a manual region begins and ends, and a sharding said of a value."""
MESHES, SHARDY, MANUAL_AXES = "xla.sdy.meshes", "xla.sdy.sharding", "xla.sdy.manual_axes"
"""Frontend attributes of a module, of an instruction, and of the border of a region."""
Callers = tuple[Instruction, ...]


def target_of(inst: Instruction) -> str:
    """The target of a custom call, "" of others."""
    return inst.op.custom_call_target if isinstance(inst.op, CustomCall) else ""


def has_regions(module: Module) -> bool:
    """Whether parts of the program are written for one of several partitions. One device gives the
    results of those without them, and of no sums that are still to be made of arguments or results.
    """
    shardings = Shardings(module)
    if any(shardings.is_of_a_partition(inst) for c in module.computations for inst in c.instructions):
        return True
    said = [*map(shardings.of_argument, module.entry.parameters), *shardings.of_results()]
    return any(one.is_unreduced for one in said if one is not None)


def meshes_of(module: Module) -> dict[str, str]:
    """The meshes of a module by name, as HLO writes them: ['x'=2], device_ids=(1,0)."""
    text, found = dict(module.config.frontend_attributes).get(MESHES, ""), {}
    for name, mesh in _MESH.findall(text):
        axes, _, ids = mesh.replace('"', "'").partition(", device_ids=")
        found[name.strip('"')] = axes + (f", device_ids=({ids[1:-1].replace(' ', '')})" if ids else "")
    return found


_MESH = re.compile(r"([\w.]+|\"[^\"]*\") = #sdy\.mesh<(\[[^\]]*\](?:, device_ids=\[[\d, ]*\])?)>")
_SHARDY = re.compile(r"<@([\w.]+|\"[^\"]*\"), (\[[^<>]*)>")
_NAME = re.compile(r"\"([^\"]*)\"")
_PRIORITY = re.compile(r"(?<=\})p\d+")


class Shardings:
    """What is said of the instructions of a module."""

    def __init__(self, module: Module) -> None:
        self.entry, self.partitions = module.entry, module.config.num_partitions
        self.meshes = meshes_of(module)

    def said(self, inst: Instruction) -> Sharding | None:
        """The sharding that is said of an instruction, as tiles; at the border of a region, those along the
        axes that are manual in it.
        """
        frontend = dict(inst.extra.frontend_attributes)
        found, axes = inst.extra.sharding, frontend.get(MANUAL_AXES)
        if found is None and SHARDY in frontend:
            found = self.of_shardy(frontend[SHARDY])
        if found is None or not isinstance(inst.shape, Shape):
            return found
        if axes is not None and isinstance(found.what, MeshTiles):
            found = Sharding(_along(found.what, set(_NAME.findall(axes))))
        return without_axes(found, inst.shape.rank)

    def of_shardy(self, text: str) -> Sharding | None:
        """#sdy.sharding<@mesh, [{"x"}, {}]>; the first of several. None for one that HLO does not have."""
        found = _SHARDY.search(text)
        if found is None:
            return None
        name, rest = found[1].strip('"'), _PRIORITY.sub("", found[2]).replace('"', "'")
        if name not in self.meshes:
            raise VerifyError(f"a sharding {text}, and there is no mesh @{name}")
        mesh = self.meshes[name]
        if mesh.startswith("[]"):  # of no axes: all devices, or the only one
            device = mesh.partition("device_ids=")[2].strip("()")
            return Sharding(int(device)) if device else Sharding("replicated")
        return read_sharding(f"mesh{mesh}, {rest}")

    def is_of_a_partition(self, inst: Instruction) -> bool:
        """Whether it stands in a manual region, or at its border, as far as one sees."""
        op = inst.op
        if not isinstance(op, CustomCall):
            return isinstance(op, PartitionId) or op.collective is not None
        if not op.custom_call_has_side_effect:
            return op.custom_call_target in (ENTER, LEAVE)
        # JAX says of callbacks where they run: in a region each for itself, else on one.
        said = self.said(inst)
        return said is not None and said.what in ("manual", "replicated")

    def of_border(self, inst: Instruction) -> Cut | None:
        """How an array is cut where a region begins or ends; None where it stays whole."""
        if target_of(inst) == ENTER and inst.extra.sharding is not None:
            inst = inst.operands[0]  # XLA's form says it of what is cut, and of the part that it is manual
        said = self.said(inst)
        return cut_of(said, shape_of(inst).rank, self.partitions)

    # Arguments and results.

    def of_argument(self, parameter: Instruction) -> Sharding | None:
        """How a parameter of the entry is cut: as is said, or as all its users want it; None where whole."""
        said = self.said(parameter)
        if said is None:
            wanted = {self._wanted(user, parameter) for user in parameter.users}
            said = wanted.pop() if len(wanted) == 1 else None
        return self._cutting(said, parameter)

    def of_results(self) -> list[Sharding | None]:
        """How each leaf of the result is cut: as is said, or as the value is that it gives."""
        root = self.entry.root
        said = self.said(root)
        leaves = list(self._leaves(root, ()))
        whole = said.of_leaves(len(leaves)).parts if said is not None else (Sharding(),) * len(leaves)
        found = []
        for one, (inst, callers) in zip(whole, leaves, strict=True):
            if inst is None or not isinstance(inst.shape, Shape):
                found.append(None)
                continue
            given = one if one != Sharding() else self._given(inst, callers)
            found.append(self._cutting(given, inst))
        return found

    def _cutting(self, sharding: Sharding | None, inst: Instruction) -> Sharding | None:
        """The sharding where it gives each partition a part of one size; else the array stays whole."""
        if sharding is None or not isinstance(inst.shape, Shape):
            return None
        sharding = without_axes(sharding, inst.shape.rank)
        try:
            cut = cut_of(sharding, inst.shape.rank, self.partitions)
        except UnsupportedError:
            return None
        if cut is None:
            return Sharding("replicated")
        return sharding if cut.divides(inst.shape) else None

    def _wanted(self, user: Instruction, value: Instruction) -> Sharding | None:
        if target_of(user) == SHARDING:
            return self.said(user)
        if not applies(user, Call):
            return None
        wanted = {
            self._wanted(inner, parameter)
            for operand, parameter in zip(user.operands, user.op.to_apply.parameters, strict=True)
            if operand is value
            for inner in parameter.users
        }
        return wanted.pop() if len(wanted) == 1 else None

    def _leaves(self, inst: Instruction, callers: Callers) -> Iterator[tuple[Instruction | None, Callers]]:
        """What gives the leaves of a value, and the calls that it is in; None where that is not followed."""
        inst, callers = _origin(inst, callers)
        if not inst.shape.is_tuple:
            yield inst, callers
        elif isinstance(inst.op, Tuple):
            for operand in inst.operands:
                yield from self._leaves(operand, callers)
        else:
            for _ in inst.shape.leaves():
                yield None, ()

    def _given(self, inst: Instruction, callers: Callers) -> Sharding | None:
        """The sharding of a value that comes from a region, an annotation or a parameter as it is."""
        if applies(inst, Parameter):
            return self.of_argument(inst) if not callers and inst.computation is self.entry else None
        return self.said(inst)


def _along(tiles: MeshTiles, names: set[str]) -> MeshTiles:
    """The tiles along these axes of the mesh."""

    def kept(dim: DimAxes) -> DimAxes:
        return DimAxes(tuple(axis for axis in dim.axes if axis.name in names))

    sets = tuple((kind, kept(dim)) for kind, dim in tiles.sets if kind == "unreduced")
    return MeshTiles(tiles.mesh, tuple(map(kept, tiles.dims)), sets)


def _origin(inst: Instruction, callers: Callers) -> tuple[Instruction, Callers]:
    """What gives a value, through calls and tuples."""
    while True:
        if applies(inst, Call):
            inst, callers = inst.op.to_apply.root, (*callers, inst)
        elif applies(inst, Parameter) and callers:
            inst, callers = callers[-1].operands[inst.op.parameter_number], callers[:-1]
        elif isinstance(inst.op, GetTupleElement):
            whole, outer = _origin(inst.operands[0], callers)
            if not isinstance(whole.op, Tuple):
                return inst, callers
            inst, callers = whole.operands[inst.op.index], outer
        else:
            return inst, callers


def argument_shardings(module: Module) -> list[Sharding | None]:
    """How each parameter of the entry is cut over the partitions, as tiles; None for one that is whole."""
    shardings = Shardings(module)
    return [shardings.of_argument(parameter) for parameter in module.entry.parameters]


def result_shardings(module: Module) -> list[Sharding | None]:
    """The same of each leaf of the result."""
    return Shardings(module).of_results()
