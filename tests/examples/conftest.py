"""Shared by the examples' tests: programs of examples/ as modules, and values of the documents' examples."""

import importlib.util
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path[:0] = [str(Path(__file__).parent), str(EXAMPLES)]

from worked import Document  # noqa: E402


@pytest.fixture(scope="session")
def example():
    """A program of examples/ as a module."""

    def load(name: str):
        full = f"axla_example_{name}"
        if full not in sys.modules:
            spec = importlib.util.spec_from_file_location(full, EXAMPLES / f"{name}.py")
            module = sys.modules[full] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        return sys.modules[full]

    return load


@pytest.fixture
def doc() -> Document:
    return Document()
