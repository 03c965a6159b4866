"""An example for each rule, in one line: the part of its test that it rewrites. `axla opt --list-rules`
prints them.
"""

from __future__ import annotations

from dataclasses import replace

from axla.core.shape import AnyShape
from axla.ir.graph import Instruction
from axla.ir.structure import Parameter
from axla.passes import rewrite
from axla.passes.examples import FILE
from axla.passes.rewrite import Rewritten, Rule
from axla.passes.simplify.match import combiner
from axla.text.printer import PrintOptions, _Printer

from . import seeds
from .checks import rules

DEEPEST = 3
"""The depth to which operands of operands are printed."""


def example(rule: Rule) -> str:
    """The text `before => after` of the first rewrite by a rule in the test of its name; "" if there is no
    such test, or the rule does not fire.
    """
    chosen = next((s for s in seeds.tests() if s.name == rule.name), None)
    if chosen is None:
        return ""
    lines: list[str] = []

    def shown(root: Instruction, *operands: Instruction) -> Rewritten:
        before = _written(root)
        known = set(root.computation.instructions)
        found = rule.function(root, *operands)
        if found is not None:
            name = found.name if found in known and type(found.op) is Parameter else _written(found)
            lines.append(f"{before} => {name}")
        return found

    table = {cls: (replace(rule, function=shown),) for cls in rules()[rule.name][1]}
    with rewrite.rule_session(rewrite.RuleSession(fuel=1)):
        rewrite.rewrite(seeds.copy(chosen.module), table)
    return lines[0] if lines else ""


def _written(inst: Instruction, depth: int = 0, around: AnyShape | None = None) -> str:
    """The text of an instruction with its operands inside it. Its shape is left out if it equals `around`,
    that of the instruction around it.
    """
    shape = "" if inst.shape is around else inst.shape.to_string(layout=False) + " "
    if type(inst.op) is Parameter:
        return shape + inst.name
    if depth > DEEPEST:
        return shape + "..."
    printer = _Printer(PrintOptions())
    if not inst.operands:
        given = printer.operands(inst)
    else:
        given = ", ".join(_written(o, depth + 1, inst.shape) for o in inst.operands)
    parts = printer.attributes(inst.op)
    for computation in inst.op.computations():
        if (op := combiner(computation)) is not None:
            parts = [p.replace(f"%{computation.name}", op.opcode) for p in parts]
    parts = [p.replace("%", "") for p in parts if p != "dimensions={}"]
    if depth:  # shows to which op the text belongs
        return f"{shape}{inst.opcode}({', '.join([given, *parts])})"
    return shape + ", ".join([f"{inst.opcode}({given})", *parts])


def text() -> str:
    """The text of the file of examples."""
    return "".join(f"{name}: {line}\n" for name, (rule, _) in rules().items() if (line := example(rule)))


def write() -> None:
    FILE.write_text(text(), encoding="utf-8")


def why_stale() -> str:
    """The reason why the file of examples is not up to date; "" if it is."""
    have = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    wanted = text().splitlines()
    if have == wanted:
        return ""
    changed = sorted({line.partition(":")[0] for line in {*have} ^ {*wanted}})
    return f"{FILE.name} is not up to date ({', '.join(changed)}): python scripts/verify-passes --examples"
