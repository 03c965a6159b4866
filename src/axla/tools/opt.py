"""axla opt: prints a program after passes, or at a stage of the compiler.

axla opt f.hlo --passes=algsimp,dce          the module after these passes
axla opt f.hlo --stage=hlo                   ... after the CPU pipeline (what is printed by default)
axla opt f.hlo --stage=llvm --target-cpu=x86-64-v3
axla opt f.hlo --passes=algsimp --diff       what changed
axla opt f.hlo --load my_passes.py --time    with passes of your own, and what took how long

HLO is printed with all values of constants, so that it can be run. A program's text is for reading, and for
`axla.cpu.compiler.compile_text`; with -o, its constants are in FILE.constants. `axla run` takes modules only.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path

from axla.api import parse
from axla.core import flags
from axla.core.literal import Literal
from axla.core.progress import shown
from axla.ir.graph import Module
from axla.tools.colours import painted_diff
from axla.tools.diffs import diff
from axla.tools.plugins import load_files
from axla.tools.source import add_file, add_target, read_module, target_of
from axla.tools.trial_options import add_load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla opt`."""
    add_file(parser, nargs="?")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--passes", metavar="P,Q{x=1},...", help="run these passes or pipelines, in order")
    what.add_argument("--stage", choices=[*STAGES, *XLA_STAGES], help="compile up to this stage")
    what.add_argument("--list-passes", action="store_true", help="list all passes and pipelines")
    what.add_argument(
        "--list-rules", action="store_true", help="list all rewrite rules: equations, and an example each"
    )
    what.add_argument("--list-stages", action="store_true", help="list all stages")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to a file, not to standard output")
    parser.add_argument("--diff", action="store_true", help="print what changed, as a unified diff")
    parser.add_argument(
        "--time",
        action="store_true",
        help="print time, instructions and firings of every pass, to standard error",
    )
    add_load(parser)
    add_target(parser)
    parser.set_defaults(usage_error=parser.error)


def execute(options: argparse.Namespace) -> int:
    """Runs `axla opt`; returns its exit status."""
    load_files(options.load)
    with flags.override(timings=True) if options.time else nullcontext():
        return _execute(options)


def _execute(options: argparse.Namespace) -> int:
    constants: dict[Literal, int] = {}
    before = ""
    if options.list_passes:
        text = pass_list()
    elif options.list_rules:
        text = rule_list()
    elif options.list_stages:
        text = "".join(f"{name:8} {about}\n" for name, (_, about) in STAGES.items())
        text += "".join(f"{name}: XLA's name of {own}\n" for name, own in XLA_STAGES.items())
    elif options.file is None:
        return options.usage_error("a FILE is wanted (`-` is standard input)")
    elif options.passes is not None:
        module = read_module(options)
        before = module.to_string() if options.diff else ""
        with shown():
            text = after_passes(module, options.passes, options.target_cpu)
    else:
        from axla.backends.cpu import text_of

        module = read_module(options)
        before = module.to_string() if options.diff else ""
        stage = STAGES[XLA_STAGES.get(options.stage, options.stage or "hlo")][0]
        with shown():
            text = text_of(module, stage, target_of(options.target_cpu), constants)
    if options.diff:
        text = diff(before, parse(text).to_string() if text.startswith("HloModule") else text)
    if options.output is None:
        if options.diff:
            text = painted_diff(text, sys.stdout)
        sys.stdout.write(text if text.endswith("\n") or not text else text + "\n")
    else:
        Path(options.output).write_text(text, encoding="utf-8")
        if constants and options.stage == "program":
            from axla.lowering.pipeline import constants_segment

            Path(f"{options.output}.constants").write_bytes(constants_segment(constants))
    return 0


def pass_list() -> str:
    """One line per pass (with its options) and per pipeline."""
    from axla.passes.added import pipelines
    from axla.passes.pipelines import PASSES
    from axla.passes.steps import flat, option_types

    lines, known = [], pipelines()
    for name, step in sorted(PASSES.items()):
        takes = ",".join(f"{k}={getattr(v, '__name__', v)}" for k, v in option_types(step).items())
        about = (step.function.__doc__ or "").strip().partition("\n")[0]
        lines.append(f"{name + (f'{{{takes}}}' if takes else ''):32} {about}".rstrip())
    for name, steps in known.items():
        lines.append(f"{name:32} pipeline: {', '.join(step.name for _, step in flat(steps))}")
    return "\n".join(lines)


def rule_list() -> str:
    """Lines for every rewrite rule: its equation, and what it makes of an example."""
    from axla.passes import pipelines  # noqa: F401  (declares the rules)
    from axla.passes.examples import examples
    from axla.passes.rewrite import rules_by_name

    rules, shown = sorted(rules_by_name().items()), examples()
    lines: list[str] = []
    for name, rule in rules:
        before, _, after = shown.get(name, "").partition(" => ")
        lines += [f"{name:32} {rule.equation}", *([f"    {before}", f"    => {after}"] if after else [])]
    return "\n".join(lines)


def after_passes(module: Module, passes: str, cpu: str | None) -> str:
    """Runs the passes named in `passes` on a module, for the target `cpu`; returns the module's text."""
    from axla.passes import driver
    from axla.passes.added import pipelines
    from axla.passes.pipelines import PASSES
    from axla.passes.steps import parse_passes

    driver.run(module, parse_passes(passes, PASSES, pipelines()), target_of(cpu), name="opt")
    return module.to_string(print_large_constants=True)


STAGES = {
    "hlo": ("optimized", "The module after all passes of the CPU pipeline."),
    "program": ("program", "The program: memory, kernels and steps."),
    "llvm": ("llvm", "The LLVM module, entry and kernels together."),
    "asm": ("asm", "The assembly of the LLVM module."),
}
"""The compiler's name of each stage, and a line about it."""

XLA_STAGES = {
    "hlo-backend": "hlo", "buffer-assignment": "program", "llvm-before-optimizations": "llvm",
    "llvm-after-optimizations": "llvm",
}  # fmt: skip
"""The names of stages in `hlo-opt`. Its two stages of LLVM are one here, since no pass of LLVM's runs."""
