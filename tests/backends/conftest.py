"""The backends that the interface suite runs on: axla's own, and those of packages that are installed for it.

A new backend joins by its name in NAMES.
"""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import axla
from axla.core import flags
from axla.tools.new_backend import package
from opencl_device import why_no_device
from ptx.gpu import FakeGpu
from service_server import with_server

NAMES = (
    "interpreter", "cpu", "one-lane", "outside", "c-source", "npu", "opencl", "cuda", "remote", "remote-grpc",
)  # fmt: skip
"""`npu` is what `axla new-backend npu` writes, `remote` the backend cpu of a server, over a unix socket, and
`remote-grpc` over gRPC.
"""

REFUSED = dict.fromkeys(("remote", "remote-grpc"), {"serialize", "load", "custom calls"})
"""What a backend refuses for ever."""

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

C_SOURCE = Path(__file__).parents[2] / "examples" / "backends" / "c_source"


@pytest.fixture(scope="session", autouse=True)
def installed(tmp_path_factory):
    """The folder of an installed package with entry points."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "outside_backend.py").write_text(SOURCE)
    facts = folder / "outside-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(METADATA)
    (facts / "entry_points.txt").write_text(ENTRIES)
    install(C_SOURCE, folder)
    new = tmp_path_factory.mktemp("npu")
    for name, text in package("npu").items():
        (new / name).parent.mkdir(exist_ok=True)
        (new / name).write_text(text)
    install(new, folder)
    paths = [str(folder), str(C_SOURCE), str(new)]
    sys.path[:0] = paths
    yield folder
    for path in paths:
        sys.path.remove(path)


def install(package: Path, folder: Path) -> None:
    """Writes the metadata that an installer would write: the name of the package and its entry points."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    facts = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    entries = project["entry-points"]["axla.backends"].items()
    lines = ["[axla.backends]", *(f"{name} = {where}" for name, where in entries), ""]
    (facts / "entry_points.txt").write_text("\n".join(lines))


def why_no_compiler() -> str:
    """Why nothing in C can be built here, "" where it can."""
    name = os.environ.get("CC", "cc")
    return "" if shutil.which(name) else f"there is no C compiler {name!r}"


@pytest.fixture(scope="session")
def fake_gpu(tmp_path_factory) -> str:
    """The library that stands for CUDA's: a GPU in NumPy."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc: it builds the fake library of CUDA")
    return str(FakeGpu(tmp_path_factory.mktemp("cuda")).file)


@pytest.fixture(params=NAMES)
def backend(request) -> Iterator[str]:
    if request.param == "opencl" and why_no_device():
        pytest.skip(why_no_device())
    if request.param == "c-source" and why_no_compiler():
        pytest.skip(why_no_compiler())
    if request.param != "cuda":
        yield with_server(request)
        return
    with flags.override(cuda=request.getfixturevalue("fake_gpu")):
        yield "cuda"


@pytest.fixture
def refused(backend) -> set[str]:
    """The reasons of the cases that the backend never supports."""
    return REFUSED.get(backend, set())


@pytest.fixture
def compiled(backend):
    """Compiles a text on the backend."""
    return lambda text, **options: axla.compile(axla.parse(text), backend=backend, **options)
