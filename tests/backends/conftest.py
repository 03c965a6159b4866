"""The backends that the interface suite runs on: axla's own, and one of a package that is installed for it.

A new backend joins by its name in NAMES.
"""

from __future__ import annotations

import sys

import pytest

import axla

NAMES = ("interpreter", "cpu", "one-lane", "outside")

SOURCE = '''
"""A backend of somebody else: the interpreter, which has no sine here."""

from axla.backends import Backend, Capabilities, get


class Outside(Backend):
    name = "outside"
    about = "the interpreter in other clothes"
    capabilities = Capabilities(4, {"sine": "its author has no sines", "participants": "four chairs"})

    def compile(self, client, module, options):
        return get("interpreter").compile(client, module, options)

    def load(self, client, payload, options):
        return get("interpreter").load(client, payload, options)


def broken():
    raise OSError("no such machine")
'''
METADATA = "Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n"
ENTRIES = """[axla.backends]
outside = outside_backend:Outside
broken = outside_backend:broken
odd = builtins:dict
"""


@pytest.fixture(scope="session", autouse=True)
def installed(tmp_path_factory):
    """The folder of an installed package with entry points."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "outside_backend.py").write_text(SOURCE)
    facts = folder / "outside-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(METADATA)
    (facts / "entry_points.txt").write_text(ENTRIES)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(params=NAMES)
def backend(request) -> str:
    return request.param


@pytest.fixture
def compiled(backend):
    """Compiles a text on the backend."""
    return lambda text, **options: axla.compile(axla.parse(text), backend=backend, **options)
