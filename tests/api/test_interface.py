"""The interface is what tests/api/public.txt says; changes name the part of the version they raise."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import axla

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import interface  # noqa: E402


def test_the_interface_is_what_it_was(request):
    found = interface.text()
    if request.config.getoption("--bless"):
        interface.SNAPSHOT.write_text(found, encoding="utf-8")
    old = interface.SNAPSHOT.read_text(encoding="utf-8")
    assert found == old, interface.advice(old, found)


def test_everything_public_is_in_it():
    entries = {interface.key(line) for line in interface.SNAPSHOT.read_text(encoding="utf-8").splitlines()}
    assert {f"axla.{name}" for name in axla.__all__} <= entries
    assert {f"axla.ops.{name}" for name in axla.ops.__all__} <= entries
    assert {"axla.Shape.dims", "axla.aot.compile", "axla.jax.jit", "axla.tensorflow.Session"} <= entries
    assert {"$ axla run --backend BACKEND", "entry points axla.ops"} <= entries


OLD = "axla.f(x: int, *, deep: bool=False) -> int"


@pytest.mark.parametrize(
    ("new", "part"),
    [
        ("axla.f(x: int, *, deep: bool=False, wide: bool=True) -> int", "minor"),
        ("axla.f(x: int | str, *, deep: bool=False) -> int", "minor"),
        ("axla.f(x: int, y: int=0, *, deep: bool=False) -> int", "minor"),
        ("axla.f(x: int, y: int, *, deep: bool=False) -> int", "major"),
        ("axla.f(y: int=0, x: int=0, *, deep: bool=False) -> int", "major"),
        ("axla.f(x: str, *, deep: bool=False) -> int", "major"),
        ("axla.f(x: int, *, deep: bool=True) -> int", "major"),
        ("axla.f(x: int, deep: bool=False) -> int", "major"),
        ("axla.f(x: int, *, deep: bool=False) -> str", "major"),
        ("axla.f(x: int) -> int", "major"),
        ("axla.g(x: int, *, deep: bool=False) -> int", "major"),
        (OLD + "\naxla.g()", "minor"),
    ],
)
def test_the_part_of_the_version(new, part):
    said = interface.advice(OLD + "\n", new + "\n")
    assert f"raise the {part} (" in said
    assert all(f"  +{line}" in said for line in new.splitlines() if line != OLD)
    assert (f"  -{OLD}" in said) == (OLD not in new)


def test_no_change_says_nothing():
    assert interface.advice(OLD, OLD) == ""


def test_versions_of_the_changelog():
    """A release has its heading; between releases the version is a `.dev` one and there is "Unreleased"."""
    headings = re.findall(r"^## \[?([\w.]+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev0|rc\d+)?", axla.__version__)
    assert headings[0] == ("Unreleased" if ".dev" in axla.__version__ else axla.__version__)
