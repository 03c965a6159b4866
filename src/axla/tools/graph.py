"""axla graph: a page about a program, for a browser: passes, kernels, code, memory, and what a run takes.

axla graph f.hlo -o page.html                what the compiler does to it, pass by pass, down to assembly
axla graph f.hlo -o page.html --profile      ... and times: of calls with random inputs, or with yours
axla graph f.hlo -o page.html --passes=dce   these passes or pipelines alone; --plain: the module as it is
axla graph f.hlo -o graph.dot                for Graphviz; .svg: a picture (after --passes, where given)

The page is one file, which needs no network. docs/graph.md shows it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from axla.core.errors import InvalidArgument
from axla.core.progress import shown
from axla.ir.graph import Module
from axla.tools.plugins import load_files
from axla.tools.run import inputs_of
from axla.tools.source import add_file, add_target, feed, read_module, target_of
from axla.tools.trial_options import add_inputs, add_load

SUFFIXES = (".html", ".dot", ".svg")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla graph`."""
    add_file(parser)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="a .html, .dot or .svg file")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--passes", metavar="P,Q{x=1},...", help="show only these passes or pipelines")
    what.add_argument("--plain", action="store_true", help="show the module without any pass")
    what.add_argument("--profile", action="store_true", help="run the module, and show times")
    parser.add_argument(
        "--input",
        metavar="X.npy",
        action="append",
        default=[],
        help="with --profile: the array of a parameter; repeat it for each",
    )
    add_inputs(parser)
    parser.add_argument(
        "--repeat", metavar="N", type=int, default=10, help="calls to measure for each kind of inputs (10)"
    )
    parser.add_argument("--no-code", action="store_true", help="a smaller page, without LLVM IR and assembly")
    add_load(parser)
    add_target(parser)


def execute(options: argparse.Namespace) -> int:
    """Runs `axla graph`; returns its exit status."""
    path = Path(options.output)
    if path.suffix not in SUFFIXES:
        raise InvalidArgument(f"--output={path}: wanted a file {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    for name in ("input", "inputs"):
        if getattr(options, name) and not options.profile:
            raise InvalidArgument(f"--{name} needs --profile")
    if options.repeat < 1:
        raise InvalidArgument(f"--repeat={options.repeat}: wanted at least 1")
    load_files(options.load)
    module = read_module(options)
    with shown():
        text = page_of(module, options) if path.suffix == ".html" else picture_of(module, options)
    path.write_text(text, encoding="utf-8")
    print(f"{path}: {path.stat().st_size} bytes")
    return 0


def page_of(module: Module, options: argparse.Namespace) -> str:
    """The HTML page about a module, for these options."""
    from axla.tools.page import compiled, stages
    from axla.tools.page.html import page

    if options.plain:
        return page(stages.of_module(module))
    target = target_of(options.target_cpu)
    if options.passes is not None:
        return page(stages.of_passes(module, _steps(options.passes), target))
    data = compiled.of_module(module, target, code=not options.no_code)
    if options.profile:
        kinds = ("",) if options.input or options.inputs else options.input_kinds
        inputs = [inputs_of(module, kind, options) for kind in kinds]
        data["profile"] = compiled.of_run(module, inputs, options.repeat, feed)
    return page(data)


def picture_of(module: Module, options: argparse.Namespace) -> str:
    """The module as a Graphviz graph, or as an SVG picture."""
    if options.profile:
        raise InvalidArgument(f"--profile: wanted an .html file, found {options.output}")
    if options.passes is not None:
        from axla.passes import driver

        driver.run(module, _steps(options.passes), target_of(options.target_cpu), name="graph")
    if options.output.endswith(".dot"):
        from axla.ir.dot_graph import dot_graph

        return dot_graph(module)
    from axla.tools.page.svg import drawing

    return drawing(module)


def _steps(passes: str) -> list:
    from axla.passes.added import pipelines
    from axla.passes.pipelines import PASSES
    from axla.passes.steps import parse_passes

    return list(parse_passes(passes, PASSES, pipelines()))
