"""Graphviz graphs of modules: one box per instruction, one frame per computation."""

from __future__ import annotations

from axla.ir.graph import Computation, Instruction, Module

_COLORS = {
    "parameter": "#f2c57c", "constant": "#d9d9d9", "tuple": "#ffffff", "get-tuple-element": "#ffffff",
    "dot": "#9ecae1", "convolution": "#9ecae1", "fusion": "#a1d99b", "while": "#fdae6b",
    "conditional": "#fdae6b",
    "call": "#fdae6b", "reduce": "#c6b4e3", "scatter": "#c6b4e3", "gather": "#c6b4e3",
    "custom-call": "#fc9272",
}  # fmt: skip


def dot_graph(module: Module) -> str:
    """The graph of a module in the DOT language. Solid edges go from operands to users, dotted ones from
    control predecessors, and dashed ones from the roots of called computations to the call.
    """
    lines = [
        f"digraph {_quote(module.name)} {{",
        "  rankdir=TB; compound=true; node [shape=box, style=filled];",
    ]
    for computation in module.computations:
        lines += _cluster(computation)
    for computation in module.computations:
        for inst in computation.instructions:
            lines += _edges(inst)
    return "\n".join([*lines, "}"]) + "\n"


def color(inst: Instruction) -> str:
    """The fill color of the box of an instruction."""
    return _COLORS.get(inst.op.opcode, "#ededf7")


def _cluster(computation: Computation) -> list[str]:
    is_entry = computation is computation.module.entry
    title = f"ENTRY {computation.name}" if is_entry else computation.name
    lines = [f"  subgraph {_quote(f'cluster_{computation.id}')} {{", f"    label={_quote(title)};"]
    for inst in computation.instructions:
        label = f"{inst.name}\n{inst.op.opcode} {inst.shape}"
        border = ", penwidth=3" if inst is computation.root else ""
        lines.append(f"    i{inst.id} [label={_quote(label)}, fillcolor={_quote(color(inst))}{border}];")
    return [*lines, "  }"]


def _edges(inst: Instruction) -> list[str]:
    many = len(inst.operands) > 1
    lines = [
        f"  i{operand.id} -> i{inst.id}" + (f" [headlabel={number}];" if many else ";")
        for number, operand in enumerate(inst.operands)
    ]
    lines += [f"  i{before.id} -> i{inst.id} [style=dotted];" for before in inst.extra.control_predecessors]
    for called in inst.op.computations() if inst.op.computation_fields else ():
        lines.append(
            f"  i{called.root.id} -> i{inst.id} [style=dashed, ltail={_quote(f'cluster_{called.id}')}];"
        )
    return lines


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
