"""Tests in HLO text: the files `tests/hlo/<what>/*.hlo`, in sections that are separated by lines `// -----`.

    // TEST: name                the name of the section; in algsimp, the rule that it tests
    // RUN: --passes=algsimp     passes and flags; a section without one has those of the first section
    HLO text                     `// error: text` after a line: this error must be raised for the line
    // CHECK: ...                see filecheck.py; or
    // OUTPUT                    the whole output, in comments, which `pytest --bless` rewrites

Every module that passes change is also run by the interpreter before and after, with special values among its
arguments, and must give the same bits (all NaNs are equal). RUN options for this: `--ulps=N`, `--no-run`.
"""

from __future__ import annotations

import re
import shlex
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import axla.hlo  # noqa: F401  (the ops)
from axla.core import flags
from axla.core.errors import AxlaError, ParseError
from axla.core.literal import Literal
from axla.core.shape import AnyShape, Shape
from axla.interpreter.evaluate import evaluate
from axla.ir.graph import Module
from axla.ir.verify import verify
from axla.passes import driver, pipelines
from axla.passes.rewrite import rules_by_name
from axla.passes.steps import parse_passes
from axla.target.machine import cpu_target
from axla.text.parser import parse_hlo
from filecheck import Check, CheckFailed, checks_of, run_checks

ERROR = re.compile(r"//\s*error:\s*(.*?)\s*$")
DIVIDER = re.compile(r"^// -----.*$", re.M)


@dataclass(frozen=True, slots=True)
class Section:
    path: Path
    name: str
    run: str
    text: str
    line: int  # the number of its first line in the file

    @property
    def code(self) -> str:
        """The HLO text; comment lines are made empty, so that line numbers do not change."""
        lines = self.text.split("\n")
        return "\n".join("" if line.lstrip().startswith("//") else ERROR.sub("", line) for line in lines)


def sections_of(path: Path) -> list[Section]:
    text = path.read_text()
    found: list[Section] = []
    at, line, default = 0, 1, ""
    for end in [*(m.end() for m in DIVIDER.finditer(text)), len(text)]:
        part = text[at:end]
        name = re.search(r"^// TEST: *(\S+)", part, re.M)
        own = re.findall(r"^// RUN: *(.*?) *$", part, re.M)
        run = " ".join(own) or default
        default = default or run
        if re.search(r"^(ENTRY|HloModule)", part, re.M):
            found.append(Section(path, name[1] if name else f"line{line}", run, part, line))
        at, line = end, line + part.count("\n")
    return found


@dataclass(frozen=True, slots=True)
class Options:
    passes: str
    changes: dict
    ulps: int
    execute: bool


def options_of(run: str) -> Options:
    words = shlex.split(run)
    values = {w.partition("=")[0]: w.partition("=")[2] for w in words}
    own = ("--passes", "--ulps", "--no-run")
    rest = " ".join(w for w in words if w.partition("=")[0] not in own)
    return Options(
        values.get("--passes", ""), flags.parse(rest), int(values.get("--ulps", 0)), "--no-run" not in values
    )


def transformed(section: Section, options: Options, **more: object) -> Module:
    with flags.override(**{**options.changes, "verify": True, **more}):
        module = parse_hlo(section.code)
        verify(module)
        steps = parse_passes(options.passes, pipelines.PASSES, pipelines.PIPELINES)
        driver.run(module, steps, cpu_target(), name=section.name)
    return module


def run_section(section: Section, bless: bool = False) -> None:
    """Runs a section. Raises an exception unless its expectations hold."""
    options = options_of(section.run)
    wanted = [(n, ERROR.search(line)) for n, line in enumerate(section.text.split("\n"), 1)]
    errors = [(n, m[1]) for n, m in wanted if m and not section.text.split("\n")[n - 1].startswith("//")]
    if errors:
        return expect_error(section, options, *errors[0])
    module = transformed(section, options)
    output = module.to_string()
    checks = checks_of(section.text, section.line)
    if "// OUTPUT" in section.text:
        check_output(section, output, bless)
    elif not checks:
        raise CheckFailed("the section checks nothing")
    run_checks(checks, output)
    if section.name in rules_by_name():
        # The test must fail without the rule.
        without = transformed(section, options, disable_hlo_passes=(section.name,)).to_string()
        if holds(checks, without):
            raise CheckFailed(f"the checks hold without the rule {section.name}")
    if options.execute and options.passes:
        same_values(parse_hlo(section.code), module, zlib.crc32(section.name.encode()), options.ulps)
    return None


def holds(checks: list[Check], text: str) -> bool:
    try:
        run_checks(checks, text)
    except CheckFailed:
        return False
    return True


def expect_error(section: Section, options: Options, line: int, message: str) -> None:
    try:
        transformed(section, options)
    except AxlaError as error:
        if message not in str(error):
            raise CheckFailed(
                f"line {section.line + line - 1}: wanted error: {message}\nfound: {error}"
            ) from error
        if isinstance(error, ParseError) and error.line and error.line != line:
            raise CheckFailed(
                f"wanted the error in line {line}, found it in line {error.line}: {error}"
            ) from error
        return
    raise CheckFailed(f"line {section.line + line - 1}: wanted error: {message}\nfound none")


def check_output(section: Section, output: str, bless: bool) -> None:
    head, _, tail = section.text.partition("// OUTPUT\n")
    lines = [line for line in tail.split("\n") if line.startswith("//") and not DIVIDER.match(line)]
    expected = "\n".join(line[3:] for line in lines)
    if expected.rstrip() == output.rstrip():
        return
    if not bless:
        raise CheckFailed(f"output differs (pytest --bless rewrites it):\n{output}\nwanted:\n{expected}")
    shown = "".join(f"// {line}".rstrip() + "\n" for line in output.rstrip().split("\n"))
    divider = DIVIDER.search(tail)
    text = section.path.read_text()
    section.path.write_text(
        text.replace(section.text, f"{head}// OUTPUT\n{shown}" + (divider[0] if divider else ""))
    )


SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, 0.5, -3.0, 1e30, 3e-39)


def arguments_for(module: Module, seed: int) -> list[Literal]:
    generator = np.random.default_rng(seed)
    return [argument(p.shape, generator) for p in module.entry.parameters]


def argument(shape: AnyShape, generator: np.random.Generator) -> Literal:
    if shape.is_tuple:
        return Literal(shape, elements=[argument(e, generator) for e in shape.elements])  # type: ignore[attr-defined]
    if shape.is_token:
        return Literal.token()
    assert isinstance(shape, Shape)
    shape, dtype = shape.logical, shape.dtype
    with np.errstate(all="ignore"):
        if dtype.is_inexact:
            values = np.where(
                generator.random(shape.dims) < 0.4,
                generator.choice(SPECIAL, shape.dims),
                generator.normal(0, 4, shape.dims),
            )
            array = values.astype(dtype.numpy)
            if dtype.is_complex:
                array = array + 1j * generator.choice(SPECIAL, shape.dims).astype(array.real.dtype)
        elif dtype.is_pred:
            array = generator.random(shape.dims) < 0.5
        else:
            array = np.asarray(
                generator.integers(-6 if dtype.is_signed else 0, 8 if dtype.bits > 2 else 2, shape.dims)
            ).astype(dtype.numpy)
    return Literal(shape, np.asarray(array, dtype.numpy).reshape(shape.dims))


def same_values(before: Module, after: Module, seed: int, ulps: int = 0) -> None:
    """Asserts that two modules give the same results for the same arguments."""
    arguments = arguments_for(before, seed)
    results = [list(evaluate(m, arguments).leaves()) for m in (before, after)]
    for number, (wanted, found) in enumerate(zip(*results, strict=True)):
        if wanted.shape.is_array:
            assert_same_array(wanted.array, found.array, ulps, f"result {number}")


def assert_same_array(wanted: np.ndarray, found: np.ndarray, ulps: int, what: str) -> None:
    assert wanted.shape == found.shape and wanted.dtype == found.dtype, what
    if wanted.dtype.kind == "c":
        assert_same_array(wanted.real.copy(), found.real.copy(), ulps, what)
        assert_same_array(wanted.imag.copy(), found.imag.copy(), ulps, what)
        return
    if wanted.tobytes() == found.tobytes():
        return
    try:
        eps = float(np.finfo(wanted.dtype).eps)
    except ValueError:
        eps = 0.125
    a, b = wanted.astype(np.float64), found.astype(np.float64)
    with np.errstate(all="ignore"):
        close = (
            (np.abs(a - b) <= ulps * eps * np.maximum(np.abs(a), np.abs(b)))
            if ulps
            else (a == b) & (np.signbit(a) == np.signbit(b))
        )
        same = close | (a == b if ulps else close) | (np.isnan(a) & np.isnan(b))
    assert same.all(), f"{what}: {wanted[~same][:5]} became {found[~same][:5]}"


class HloFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        for section in sections_of(self.path):
            yield HloItem.from_parent(self, name=section.name, section=section)


class HloItem(pytest.Item):
    def __init__(self, *, section: Section, **kw):
        super().__init__(**kw)
        self.section = section

    def runtest(self) -> None:
        run_section(self.section, self.config.getoption("--bless"))

    def repr_failure(self, excinfo, style=None):
        if isinstance(excinfo.value, (CheckFailed, AxlaError)):
            return f"{self.path}:{self.section.line}: {type(excinfo.value).__name__}: {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, self.section.line - 1, f"{self.path.stem}: {self.name}"
