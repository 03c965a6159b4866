"""axla stats: shows what a program is made of: instructions, cost, and the memory of a run over time.

The cost has XLA's keys (`flops`, `transcendentals`, `bytes accessed`). Memory is that of the compiled
program: parameters, results, constants, and the workspace as it fills and empties from step to step. With -o
picture.svg the picture is written to a file. The memory of a program that the CPU backend refuses is not
known.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict
from html import escape
from pathlib import Path

from axla.analysis.cost import Cost, cost
from axla.core.dataclass import dataclass
from axla.core.errors import UnsupportedError
from axla.ir.graph import Module
from axla.tools.page.memory import blocks, live_bytes, timed_steps
from axla.tools.plugins import load_files
from axla.tools.source import add_file, add_target, read_module, target_of
from axla.tools.trial_options import add_load

HEIGHT, WIDTH = 10, 72  # of the text picture, in characters


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The memory of a program: bytes used for the whole run, and for each step its name and the workspace
    bytes in use.
    """

    parameters: int
    results: int
    constants: int
    workspace: int
    steps: tuple[tuple[str, int], ...]

    @property
    def peak(self) -> int:
        """The number of the step at which the most bytes of the workspace are in use."""
        return max(range(len(self.steps)), key=lambda n: self.steps[n][1], default=0)


def cost_analysis(module: Module) -> dict[str, float]:
    """The cost of a run of a module, by XLA's keys."""
    found: Cost = cost(module)
    return {
        "flops": float(found.operations), "transcendentals": float(found.transcendentals),
        "bytes accessed": float(found.bytes),
    }  # fmt: skip


def memory_of(module: Module, target_name: str | None = None) -> MemoryUse:
    """The memory of the compiled program for a module, which is not changed. `target_name` is a target as for
    --target-cpu, None this machine.
    """
    from axla.ir.clone import clone_module
    from axla.lowering.pipeline import optimize, program_of
    from axla.program.memory import AllocationKind

    target = target_of(target_name)
    work = clone_module(module)
    optimize(work, target)
    program = program_of(work, target, {})
    timed = timed_steps(program)
    found = [b for b in blocks(program, timed) if b.place.allocation.kind is AllocationKind.WORKSPACE]
    names = [f"%{one.name}" for one in timed]
    interface = program.interface
    return MemoryUse(
        sum(spec.bytes for spec in interface.parameters), sum(spec.bytes for spec in interface.results),
        interface.constants_bytes, interface.workspace_bytes,
        tuple(zip(names, live_bytes(found, len(timed)), strict=True)),
    )  # fmt: skip


def picture(memory: MemoryUse) -> str:
    """A picture of the workspace in use over the steps, in characters."""
    values = [size for _, size in memory.steps]
    most = max(values, default=0)
    if not most:
        return "no workspace is in use at any step\n"
    columns = min(WIDTH, len(values))
    groups = [values[n * len(values) // columns : (n + 1) * len(values) // columns] for n in range(columns)]
    tops = [max(group) / most * HEIGHT for group in groups]
    lines = []
    for row in range(HEIGHT, 0, -1):
        label = size_text(most) if row == HEIGHT else ""
        lines.append(f"{label:>10} |" + "".join(_block(top - row + 1) for top in tops))
    name, size = memory.steps[memory.peak]
    lines.append(f"{'0':>10} +" + "-" * columns)
    lines.append(f"{'':12}{len(values)} steps; most at step {memory.peak + 1}, {name}: {size_text(size)}")
    return "\n".join(lines) + "\n"


def _block(share: float) -> str:
    return " ▁▂▃▄▅▆▇█"[max(0, min(8, round(share * 8)))]


def svg(memory: MemoryUse, title: str) -> str:
    """A picture of the workspace in use over the steps, as SVG; tooltips name the steps."""
    width, height = 960.0, 320.0
    most, count = max([size for _, size in memory.steps] + [1]), max(1, len(memory.steps))
    bars = "".join(
        f'<rect x="{n * width / count:.2f}" y="{height * (1 - size / most):.2f}" width="{width / count:.2f}" '
        f'height="{height * size / most:.2f}"><title>{escape(name)}: {size_text(size)}</title></rect>'
        for n, (name, size) in enumerate(memory.steps)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 -30 980 380" font-family="sans-serif">'
        f'<text y="-10">{escape(title)}: workspace, at most {size_text(most)}, over {count} steps</text>'
        f'<g fill="#4477aa">{bars}</g><line x2="960" y1="320" y2="320" stroke="black"/></svg>\n'
    )


def size_text(size: int) -> str:
    """A number of bytes with a readable unit."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{amount:.4g} {unit}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla stats`."""
    add_file(parser)
    parser.add_argument("-o", "--output", metavar="FILE.svg", help="write a picture of memory over time")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    add_load(parser)
    add_target(parser)


def execute(options: argparse.Namespace) -> int:
    """Runs `axla stats`; returns its exit status."""
    load_files(options.load)
    module = read_module(options)
    opcodes = Counter(inst.opcode for c in module.computations for inst in c.instructions)
    costs, memory, refused = cost_analysis(module), None, ""
    try:
        memory = memory_of(module, options.target_cpu)
    except UnsupportedError as error:
        if options.output:
            raise
        refused = str(error)
    if memory and options.output:
        Path(options.output).write_text(svg(memory, module.name), encoding="utf-8")
    if options.json:
        facts = {"name": module.name, "instructions": dict(opcodes), "cost": costs}
        facts |= {"memory": asdict(memory)} if memory else {"memory": None, "refused": refused}
        print(json.dumps(facts, indent=2))
        return 0
    total = sum(opcodes.values())
    print(f"{module.name}: {total} instructions in {len(module.computations)} computations")
    print("".join(f"{count:8} {opcode}\n" for opcode, count in opcodes.most_common()), end="")
    print(f"cost{'' if cost(module).exact else ', at least: the trips of a loop are not known'}")
    print("".join(f"{value:16,.0f} {key}\n" for key, value in costs.items()), end="")
    if memory is None:
        print(f"memory: unknown, as it cannot be compiled: {refused}")
        return 0
    names = ("parameters", "results", "constants", "workspace")
    print("memory")
    print("".join(f"{size_text(getattr(memory, name)):>16} {name}\n" for name in names), end="")
    sys.stdout.write(picture(memory))
    return 0
