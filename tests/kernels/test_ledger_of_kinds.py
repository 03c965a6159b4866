"""The methods and tests that every kernel kind must have, and kinds from other packages."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest

import axla
from axla.core.errors import InvalidArgument
from axla.ir.op import OPS
from axla.kernels import kinds
from axla.kernels.kind import HeroKind, Kind
from axla.kernels.plan import Plan
from axla.lowering.pipeline import optimize, program_of
from axla.passes.fuse.fuse import why_not_fuse
from axla.passes.fuse.rules import why_never
from axla.program.text import parse_program, print_program
from axla.target.machine import Limits

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from docs_lib import kernel_kinds  # noqa: E402
from docs_lib.pages import table  # noqa: E402


@pytest.mark.parametrize("kind", kinds.kinds(), ids=lambda kind: kind.name)
def test_kind(kind):
    """Programs of every kind, and that their plans are read back: program/test_kernels_as_data.py."""
    assert issubclass(kind, Kind) and len(kind.__doc__) > 15
    assert kind.__module__.startswith("axla.kernels.") and set(kind.heroes) <= set(OPS.values())
    assert kind.heroes or kind is kinds.kinds()[-1], "the last one takes what no other takes"
    if kind.planned is None:
        assert kind.served is not Kind.served
        return
    assert is_dataclass(kind.planned) and issubclass(kind.planned, Plan) and kind.planned.__doc__
    assert kinds.kind_planned_as(kind.planned) is kind
    assert kind.emission.startswith("axla.codegen.emit.") and resolve_name(kind.emission).__doc__


def test_names_are_different():
    names = [kind.name for kind in kinds.kinds()]
    assert len(set(names)) == len(names) == len(kinds.OWN)


def test_passes_do_not_load_code_generation():
    code = (
        "import sys, axla.passes.fuse.fuse, axla.analysis.dataflow\nfrom axla.kernels.kinds import kinds\n"
        "assert kinds()\nassert not [m for m in sys.modules if m.startswith('axla.codegen')]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def names_in(path: Path) -> set[str]:
    """All names that a file uses, attributes too."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    found = {node.id for node in nodes if isinstance(node, ast.Name)}
    return found | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


SHARED = (
    "passes/fuse",
    "lowering",
    "program",
    "analysis",
    "codegen/kernel.py",
    "codegen/distribute.py",
    "cpu",
)


@pytest.mark.parametrize("place", SHARED)
def test_what_kinds_share_knows_no_kind(place):
    """Fusion, dataflow, lowering, program texts and entries ask `Kind`, whatever kinds there are."""
    known = {kind.__name__ for kind in kinds.kinds()} | {
        k.planned.__name__ for k in kinds.kinds() if k.planned
    }
    heroes = {op.__name__ for kind in kinds.kinds() for op in kind.heroes}
    whole = ROOT / "src/axla" / place
    for path in [whole] if whole.suffix else whole.rglob("*.py"):
        assert not names_in(path) & known, path
        if place == "passes/fuse":
            assert names_in(path) & heroes <= {"Copy"}, path


# -- from outside --------------------------------------------------------------------------------------------


@pytest.fixture
def counting():
    """The kind that docs/adding-a-kernel-kind.md adds."""
    text = (ROOT / "docs/adding-a-kernel-kind.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    space = {"__name__": __name__}
    exec("\n".join(blocks[:2]), space)
    kinds.register(space["CountingSort"])
    yield space["CountingSort"]
    kinds.unregister(space["CountingSort"])


def sort(dtype: str, dims: str, more: str = "dimensions={1}", direction: str = "LT") -> str:
    return f"""HloModule m
less {{ a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT c = pred[] compare(a, b), direction={direction} }}
ENTRY e {{ x = {dtype}[{dims}] parameter(0)
  t = {dtype}[{dims}] negate(x)
  s = {dtype}[{dims}] sort(t), {more}, to_apply=less
  ROOT r = {dtype}[{dims}] add(s, x) }}"""


def kinds_in(text: str, target=None) -> list[str]:
    from axla.codegen.host import host_target

    module, target = axla.parse(text), target or host_target()
    optimize(module, target)
    program = program_of(module, target)
    assert parse_program(print_program(program)) == program
    return [kernel.kind.partition(" of")[0] for kernel in program.kernels]


def test_a_kind_from_outside_is_in_the_ledger(counting):
    assert kinds.kinds()[0] is counting and counting in kinds.kinds_of(OPS["sort"])
    assert kinds.kind_planned_as(counting.planned) is counting
    assert "| counting sort | `sort` |" in kernel_kinds.page(table)


@pytest.mark.parametrize("dims", ("3,300", "1,1", "70,4000", "0,5"))
def test_a_kind_from_outside_is_chosen(counting, dims):
    text = sort("u8", dims)
    if not dims.startswith(("0", "1")):
        assert "counting sort" in kinds_in(text)
    x = np.random.default_rng(0).integers(0, 256, [int(d) for d in dims.split(",")], np.uint8)
    wanted = np.asarray(axla.compile(axla.parse(text), backend="interpreter")(x))
    for backend in ("cpu", "one-lane"):
        np.testing.assert_array_equal(np.asarray(axla.compile(axla.parse(text), backend=backend)(x)), wanted)


@pytest.mark.parametrize(
    "text", (sort("u16", "3,300"), sort("u8", "3,300", "dimensions={0}"), sort("u8", "3,300", direction="GT"))
)
def test_what_it_does_not_take_goes_to_others(counting, text):
    found = kinds_in(text)
    assert "sort" in found and "counting sort" not in found


def test_programs_are_compiled_anew_while_there_are_kinds_from_outside(counting):
    from axla.codegen.host import host_target
    from axla.cpu.programs import program_key

    module = axla.parse(sort("u8", "3,300"))
    assert program_key(module, host_target()) is None
    kinds.unregister(counting)
    assert "counting sort" not in kinds_in(sort("u8", "3,300"))
    kinds.register(counting)


def plan_of_a_test(self, *asked):
    """A method that a kind must have and that no test here calls."""


def test_fusion_takes_what_a_kind_from_outside_is_built_around():
    class Around(Kind):
        """Fourier transforms, and what follows them."""

        name = "around"
        heroes = (OPS["fft"],)
        match = served = plan_of_a_test

    text = """HloModule m
    ENTRY e { p = c64[4,64] parameter(0)
      f = c64[4,64] fft(p), fft_type=FFT, fft_length={64}
      ROOT n = c64[4,64] negate(f) }"""
    negate = axla.parse(text).entry.root
    fft = negate.operands[0]
    assert why_not_fuse(fft, negate, Limits()) == "a fft is a kernel of its own"
    kinds.register(Around)
    try:
        assert kinds.hero_form(fft, Limits()) == (Around, fft.id) and why_never(fft, Limits()) is None
        assert why_not_fuse(fft, negate, Limits()) is None
    finally:
        kinds.unregister(Around)


@dataclass(frozen=True, slots=True)
class OtherPlan(Plan):
    """The plan of a kind of a test."""


def kind_with(**said):
    return type("Other", (HeroKind,), {"__slots__": (), "name": "other", "planned": OtherPlan, **said})


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (3, "a subclass of Kind is wanted, found 3"),
        (kind_with(name="loop"), "Other: a kind named 'loop' exists already"),
        (kind_with(name=""), "Other: it needs a name, and classes of ops"),
        (
            kind_with(heroes=("sort",)),
            r"Other: it needs a name, and classes of ops as heroes, found \('sort',\)",
        ),
        (kind_with(planned=dict), "Other: `planned` must be a dataclass of its own, found <class 'dict'>"),
        (kind_with(planned=kinds.kinds()[0].planned), "Other: `planned` must be a dataclass of its own"),
        (kind_with(), "Other: it has no method plan"),
        (kind_with(plan=lambda self, task, target: None), "Other: it has no method emit"),
        (kind_with(planned=None), "Other: it has no method served"),
        (type("Other", (Kind,), {"name": "other", "planned": None}), "Other: it has no method match"),
    ],
)
def test_registering_what_is_wrong(kind, message):
    before = kinds.kinds()
    with pytest.raises(InvalidArgument, match=f"register: .*{message}"):
        kinds.register(kind)
    with pytest.raises(InvalidArgument, match="unregister: .* was not registered"):
        kinds.unregister(kind)
    assert kinds.kinds() == before


def test_a_kind_that_is_served_as_another_is_registered():
    kind = kind_with(planned=None, served=lambda self, computation, target: self)
    kinds.register(kind)
    assert kinds.kinds()[0] is kind
    kinds.unregister(kind)


# -- of packages that are installed --------------------------------------------------------------------------

USE = """
import sys, warnings
from pathlib import Path
import axla
from axla.kernels import kinds
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    assert "counting_sort" not in sys.modules
    program = axla.compile(axla.parse(Path("sort.hlo").read_text()))
cached = "axla.cpu.compiler" not in sys.modules
print("counting sort" in program.as_text("program"), cached, len(found))
print(*(w.message for w in found), sep="\\n")
"""


@pytest.fixture
def package(tmp_path):
    """A folder with the page's kind as a package, and one that fails."""
    text = (ROOT / "docs/adding-a-kernel-kind.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    [toml] = re.findall(r"^```toml\n(.*?)^```", text, re.M | re.S)
    [(group, entries)] = tomllib.loads(toml)["project"]["entry-points"].items()
    (tmp_path / "counting_sort.py").write_text("\n".join(blocks[:2]))
    (tmp_path / "sort.hlo").write_text(sort("u8", "70,4000"))
    facts = tmp_path / "counting_sort-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: counting-sort\nVersion: 1.0\n")
    lines = [f"[{group}]", *(f"{name} = {place}" for name, place in entries.items()), ""]
    (facts / "entry_points.txt").write_text("\n".join(lines))
    return tmp_path


def use(package: Path) -> str:
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join([str(package), *sys.path]), "AXLA_VERIFY": "0",
        "AXLA_CACHE_DIR": str(package / "cache"),
    }  # fmt: skip
    run = [sys.executable, "-c", USE]
    done = subprocess.run(run, capture_output=True, text=True, env=environment, cwd=package, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_kind_of_a_package_needs_no_import(package):
    """The key of a program in the cache has the code of the package."""
    assert use(package) == "True False 0\n\n"
    assert use(package) == "True True 0\n\n"
    source = package / "counting_sort.py"
    source.write_text(source.read_text() + "\n# changed\n")
    assert use(package) == "True False 0\n\n"


def test_a_kind_that_cannot_be_used_is_a_warning(package):
    entries = package / "counting_sort-1.0.dist-info" / "entry_points.txt"
    entries.write_text(entries.read_text() + "broken = broken:Kind\nodd = builtins:dict\n")
    first, *warnings = use(package).splitlines()
    assert first == "True False 2"
    assert [line.partition(" cannot be loaded: ")[0] for line in warnings] == [
        "the kind of kernels 'broken' of broken:Kind", "the kind of kernels 'odd' of builtins:dict"
    ]  # fmt: skip
