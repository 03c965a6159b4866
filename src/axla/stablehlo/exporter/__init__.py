"""Exports a Module as StableHLO: for each opcode a table has a function that makes the operations.

`scope.py` has blocks, functions, regions and tuples, `types.py` of the parent package types and attributes.
`plain.py` exports the ops for which their records are enough; `arrays.py`, `control.py` and `collectives.py`
export the others. Ops that StableHLO and CHLO do not have are expanded first, by the passes that code
generation uses too.
"""

from __future__ import annotations

from typing import Any

from axla.core.collector import collector_paused
from axla.core.shape import AnyShape, Shape
from axla.custom.site import leaf_number
from axla.hlo import TopK
from axla.ir.clone import clone_module
from axla.ir.graph import Instruction, Module
from axla.ir.op import is_own
from axla.ir.verify import verify
from axla.passes import driver
from axla.passes.expand.expanders import EXPANDERS
from axla.passes.steps import Pass
from axla.stablehlo import mlir
from axla.stablehlo.building import I32, number
from axla.stablehlo.exporter import arrays, collectives, control, plain
from axla.stablehlo.exporter.declared import declared_call
from axla.stablehlo.exporter.scope import Exporter, carried, location_of, parsed

RULES = {**plain.RULES, **arrays.RULES, **control.RULES, **collectives.RULES}
_EXPANSIONS = {
    "scaled-dot": "scaled-dot-rewriter",
    "stochastic-convert": "stochastic-convert-decomposer",
    "topk": "smallest-decomposer",
}
_PASSES = (*EXPANDERS, Pass("smallest-decomposer", "expand.topk:smallest_decomposer"))


def _expansion(inst: Instruction) -> str | None:
    """The name of the pass that expands an op which StableHLO does not have; None if there is no such
    pass.
    """
    if isinstance(inst.op, TopK) and inst.op.largest:
        return None
    return "op-expander" if hasattr(inst.op, "expand") else _EXPANSIONS.get(inst.opcode)


def export_source(module: Module) -> mlir.Source:
    """Converts a module to StableHLO operations; the module is not changed.

    Arguments and results of @main are arrays and tokens: the leaves of the entry's parameters and result.
    Raises VerifyError for an invalid module, and UnsupportedError, with the name of the op, if an op has
    neither an equivalent nor an expansion.
    """
    verify(module)
    wanted = {_expansion(i) for c in module.computations for i in c.instructions} - {None}
    if wanted:
        module = clone_module(module)
        driver.run(module, tuple(p for p in _PASSES if p.name in wanted), name="export")
    with collector_paused():
        return _export(module)


def _export(module: Module) -> mlir.Source:
    ops = {type(inst.op) for c in module.computations for inst in c.instructions}
    others = [op.opcode for op in ops if not is_own(op)]
    exporter = Exporter(module, {**RULES, **dict.fromkeys(others, declared_call)})
    functions = exporter.run(_entry(exporter))
    attributes: dict[str, Any] = {
        "sym_name": module.name,
        "mhlo.num_replicas": number(module.config.replica_count, I32),
        "mhlo.num_partitions": number(module.config.num_partitions, I32),
    }
    frontend = dict(module.config.frontend_attributes)
    meshes = parsed(frontend.get("xla.sdy.meshes", "{}"))
    body = []
    if isinstance(meshes, dict) and meshes:
        del frontend["xla.sdy.meshes"]
        body = [mlir.Operation("sdy.mesh", [], (), {"sym_name": n, "mesh": m}) for n, m in meshes.items()]
    if frontend:
        attributes["mhlo.frontend_attributes"] = frontend
    region = mlir.Region([mlir.Block(operations=body + functions)])
    return mlir.Source(mlir.Operation("builtin.module", [], (), attributes, [region]))


def _entry(exporter: Exporter) -> mlir.Operation:
    """Makes the function @main: its arguments are the leaves of the entry's parameters, its results the
    leaves of the root.
    """
    entry, config = exporter.module.entry, exporter.module.config
    layout = config.entry_layout or entry.program_shape
    said: list[dict[str, Any]] = []
    places: list[mlir.Location] = []
    for parameter, given in zip(entry.parameters, layout.parameters, strict=True):
        place = location_of(parameter.extra.location) or mlir.NameLocation(parameter.name)
        leaves = list(given.leaves())
        places += [place] * len(leaves)
        alone = carried(parameter.extra) if not parameter.shape.is_tuple else {}
        said += [alone | _layout_mode(leaf) for leaf in leaves]
    for alias in config.aliases:
        output = leaf_number(entry.root.shape, alias.output)
        said[_argument(exporter, alias.parameter, alias.index)]["tf.aliasing_output"] = number(output, I32)
    for donor, index in config.buffer_donors:
        said[_argument(exporter, donor, index)]["jax.buffer_donor"] = True
    attributes: dict[str, Any] = {"sym_visibility": "public"}
    modes = [_layout_mode(leaf) for leaf in layout.result.leaves()]
    if any(said):
        attributes["arg_attrs"] = tuple(said)
    if any(modes):
        attributes["res_attrs"] = tuple(modes)
    return exporter.function(entry, places, **attributes)


def _argument(exporter: Exporter, parameter: int, index: tuple[int, ...]) -> int:
    """The number of the argument of @main for a leaf of parameter `parameter`; `index` is the leaf's tuple
    index.
    """
    shapes = [p.shape for p in exporter.module.entry.parameters]
    before = sum(1 for s in shapes[:parameter] for _ in s.leaves())
    return before + leaf_number(shapes[parameter], index)


def _layout_mode(shape: AnyShape) -> dict[str, Any]:
    """The attribute with the order of an array's dimensions in memory; none if the order is row-major."""
    if not isinstance(shape, Shape) or shape.layout.minor_to_major == shape.logical.layout.minor_to_major:
        return {}
    return {"mhlo.layout_mode": f"{{{','.join(map(str, shape.layout.minor_to_major))}}}"}
