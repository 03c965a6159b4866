"""XLA reads what axla writes, and prints what it prints of its own; axla reads what XLA writes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from axla import proto
from axla.core.errors import AxlaError
from axla.text import parse_hlo

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2] / "scripts"))

from conformance_lib.corpora import corpus  # noqa: E402

# In a process of its own: what XLA does not like may end the process.
CHILD = """
import sys
from pathlib import Path
from jaxlib import _hlo
folder = Path(sys.argv[1])
for file in sorted(folder.glob("*.hlo")):
    data = _hlo.hlo_module_from_text(file.read_text()).as_serialized_hlo_module_proto()
    file.with_suffix(".xla.pb").write_bytes(data)
    for kind, content in (("xla", data), ("axla", file.with_suffix(".axla.pb").read_bytes())):
        text = _hlo.XlaComputation(content).get_hlo_module().to_string()
        file.with_suffix(f".{kind}.txt").write_text(text)
"""


@pytest.fixture(scope="module")
def texts():
    root = corpus("hlo-open")
    if root is None:
        pytest.skip("the corpus hlo-open is not at hand")
    found = {}
    for file in sorted((root / "canonical").glob("*.hlo"))[::60]:
        text = file.read_text()
        if "constant({...})" in text:  # XLA makes values up
            continue
        try:
            module = parse_hlo(text)
        except AxlaError:
            continue
        if module.to_string().strip() == text.strip():
            found[file.stem] = text
    return found


def test_of_a_sample_text_to_proto_to_text_is_the_same(texts):
    for name, text in texts.items():
        module = parse_hlo(text)
        wanted = module.to_string(print_large_constants=True)
        for again in (proto.read(proto.to_proto(module)), proto.read(proto.to_text_proto(module))):
            assert again.to_string(print_large_constants=True) == wanted, name


def test_xla_and_axla_read_each_other(texts, tmp_path):
    if importlib.util.find_spec("jaxlib") is None:
        pytest.skip("jaxlib is not there")
    for name, text in texts.items():
        (tmp_path / f"{name}.hlo").write_text(text)
        (tmp_path / f"{name}.axla.pb").write_bytes(proto.to_proto(parse_hlo(text)))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(texts) > 40
    for name in texts:
        wanted = (tmp_path / f"{name}.xla.txt").read_text()
        assert (tmp_path / f"{name}.axla.txt").read_text() == wanted, name
        found = proto.read((tmp_path / f"{name}.xla.pb").read_bytes()).to_string()
        assert found.strip() == wanted.strip(), name
