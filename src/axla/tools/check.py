"""axla check: runs programs on a backend, and checks their results.

A StableHLO program with `check` operations has the expected results in itself; any other program runs on the
reference backend too, with random inputs. For one file all results are shown; for folders and archives
(.tar.gz), the programs inside are counted, and failures listed by reason. Exit code 1: something differs or
failed.

axla check --backend NAME --all     every op at every element type, compared with the interpreter: a table by
level (elementwise, movement, reduction, contraction, control flow, effects, everything), and what is refused
and why. Exit code 1: something failed; what a backend refuses is not a failure.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from axla.api import parse
from axla.comparison import check
from axla.core.errors import AxlaError, InvalidArgument, Mismatch
from axla.tools.archives import ARCHIVES, archived
from axla.tools.conformance import FAILED, LEVELS, Case, ConformanceReport, chosen, outcomes
from axla.tools.plugins import load_files
from axla.tools.source import add_backend, add_replicas, add_sizes, feed, sizes_of
from axla.tools.trial import reason_of
from axla.tools.trial_options import add_inputs, add_load, add_tolerance, archive_of, tolerance_of

PROGRAMS = (".mlir", ".mlirbc", ".vhlo.bc", ".hlo", ".hlo.txt", ".pb", ".pbtxt")
SHOWN = 3  # programs shown for each reason


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla check`."""
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help="a program, or a folder or an archive of programs; `-` is standard input",
    )
    add_backend(parser, "--backend", "cpu", "cpu (default), one-lane or interpreter")
    add_backend(parser, "--reference", "interpreter", "the backend with the right results (interpreter)")
    add_inputs(parser)
    add_tolerance(parser)
    parser.add_argument(
        "--skip-unstable", action="store_true",
        help="where outputs differ, leave out elements that change as much on the reference when values in "
        "the program are off by some units in the last place; the report counts these elements",
    )  # fmt: skip
    add_load(parser)
    parser.add_argument(
        "--only", metavar="REGEX", default="", help="only programs or cases whose name matches"
    )
    parser.add_argument(
        "--all", action="store_true", help="check every op at every element type: `add f32`..."
    )
    parser.add_argument("--level", action="append", choices=list(LEVELS), help="only the cases of a level")
    parser.add_argument("--report", metavar="FOLDER", help="write report.html and badge.svg about --all")
    add_replicas(parser)
    add_sizes(parser)


def execute(options: argparse.Namespace) -> int:
    """Runs `axla check`; returns its exit status."""
    if options.all == bool(options.paths) or (not options.all and (options.level or options.report)):
        raise InvalidArgument("check: wanted a PATH or --all; --level and --report need --all")
    try:
        re.compile(options.only)
    except re.error as error:
        raise InvalidArgument(f"--only={options.only}: not a regular expression, {error}") from None
    return _conform(options) if options.all else _check(options)


def _conform(options: argparse.Namespace) -> int:
    """Runs the conformance kit. After Ctrl-C it shows the results so far, and writes no report."""
    cases: list[Case] = []
    report = ConformanceReport(options.backend, cases)
    failed, begin = 0, time.monotonic()
    try:
        for case in outcomes(options.backend, chosen(options.level or (), options.only)):
            cases.append(case)
            failed += case.kind == FAILED
            _progress(len(cases) - failed, failed, time.monotonic() - begin, f"{case.op} {case.dtype}")
    except KeyboardInterrupt:
        _progress()
        print(f"{report}\nstopped after {len(cases)} cases")
        raise
    _progress()
    print(report)
    if options.report:
        report.write(Path(options.report))
    return 1 if failed else 0


def _check(options: argparse.Namespace) -> int:
    how = {"reference": options.reference, "seed": options.seed, "replicas": options.replicas}
    how |= {"before_run": feed, "kinds": options.input_kinds, "tolerance": tolerance_of(options)}
    how["skip_unstable"] = options.skip_unstable
    load_files(options.load)
    if len(options.paths) == 1 and not _holds_many(options.paths[0]):
        (_, content), *_ = programs(options.paths)
        if options.inputs:
            module = parse(content, **sizes_of(options))
            how["inputs"] = list(archive_of(options.inputs, module).values())
            print(check(module, options.backend, **how))
            return 0
        print(check(content, options.backend, **how, **sizes_of(options)))
        return 0
    if any(value is not None for value in sizes_of(options).values()):
        raise InvalidArgument("--arg-types and --dim-args are for one program, many are given")
    wanted = re.compile(options.only)
    passed, partly, failures = 0, 0, defaultdict(list)
    begin = time.monotonic()
    for name, content in programs(options.paths):
        if not wanted.search(name):
            continue
        try:
            report = check(content, options.backend, **how)
            passed += 1
            partly += any(output.unstable for output in report.outputs)
        except AxlaError as error:
            failures[_reason(error)].append((name, str(error)))
        _progress(passed, sum(map(len, failures.values())), time.monotonic() - begin, name)
    _progress()
    failed = sum(map(len, failures.values()))
    for why, cases in sorted(failures.items(), key=lambda item: -len(item[1])):
        print(f"{len(cases)} x {why}")
        for name, message in cases[:SHOWN]:
            print(f"    {name}: {' '.join(message.split())[:200]}")
        if len(cases) > SHOWN:
            print(f"    and {len(cases) - SHOWN} more")
    note = f" ({partly} with unstable elements left out)" if partly else ""
    print(f"{passed} passed{note}, {failed} failed")
    return 1 if failed else 0


def _holds_many(path: str) -> bool:
    return path != "-" and (Path(path).is_dir() or path.endswith(ARCHIVES))


def programs(paths: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yields (name, content) for each program: for the given files, and for the files in folders and archives
    whose names have a suffix of programs.
    """
    for path in paths:
        if path == "-":
            yield path, sys.stdin.buffer.read()
        elif path.endswith(ARCHIVES):
            yield from archived(path, PROGRAMS)
        elif Path(path).is_dir():
            for file in sorted(Path(path).rglob("*")):
                if file.name.endswith(PROGRAMS) and file.is_file():
                    yield str(file), file.read_bytes()
        else:
            yield path, Path(path).read_bytes()


def _reason(error: AxlaError) -> str:
    return "results differ" if isinstance(error, Mismatch) else reason_of(error)


def _progress(passed: int = 0, failed: int = 0, seconds: float = 0.0, name: str = "") -> None:
    """Shows the progress on a terminal; without a name it erases the line."""
    if not sys.stderr.isatty():
        return
    state = f"{passed} passed, {failed} failed, {seconds:.0f} s  {name[-60:]}" if name else ""
    print(f"\r\x1b[K{state}", end="", file=sys.stderr, flush=True)
