"""The conformance texts through all passes: kernels of known kinds, memory that is right."""

from pathlib import Path

import pytest
from test_random_modules import assert_memory_is_right

from axla.core.errors import AxlaError, ParseError, UnsupportedError
from axla.passes import driver, pipelines
from axla.target.machine import cpu_target
from axla.text.parser import parse_hlo

CORPUS = Path(__file__).parents[3] / "shared" / "conformance"
EVERY = 8  # all of them take 10 s; the sample changes with nothing


def texts():
    archive = CORPUS / "hlo-open.tar.gz"
    if not archive.exists():
        pytest.skip(f"needs the conformance corpus {archive.name}")
    import tarfile

    with tarfile.open(archive) as tar:
        members = sorted(
            (m for m in tar.getmembers() if "/exec/" in m.name and m.name.endswith(".hlo")),
            key=lambda m: m.name,
        )
        for member in members[::EVERY]:
            file = tar.extractfile(member)
            assert file is not None
            yield member.name, file.read().decode()


@pytest.mark.corpus
def test_corpus():
    checked = 0
    for name, text in texts():
        try:
            module = parse_hlo(text)
        except ParseError:
            continue  # ops that are not declared yet
        try:
            driver.run(module, pipelines.CPU, cpu_target(), name="cpu")
            assert_memory_is_right(module)
        except UnsupportedError:
            continue
        except AxlaError as error:
            pytest.fail(f"{name}: {error}")
        checked += 1
    assert checked > 80
