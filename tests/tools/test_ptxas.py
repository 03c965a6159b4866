"""scripts/ptxas: kernels of op samples are assembled for every architecture, and what is refused is said."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from conformance_lib import ptx  # noqa: E402
from conformance_lib.samples import Samples  # noqa: E402

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
pytestmark = pytest.mark.skipif(ptx.ptxas() is None, reason="no ptxas (package nvidia-cuda-nvcc)")


@pytest.fixture(scope="module")
def kernels():
    """Thirty kernels, of ops all over the language."""
    section = Samples()
    found, refused = ptx.kernels_of(ptx.modules(section, section.cases()[5::43]))
    assert not refused
    names = sorted(found)
    assert len(names) >= 30
    return {name: found[name] for name in names[:30]}


@pytest.mark.parametrize("cpu", ARCHITECTURES)
def test_thirty_kernels_assemble(kernels, cpu):
    used, refused = ptx.assembled(kernels, cpu, level=0)
    assert not refused
    symbols = {phase.symbol for kernel in kernels.values() for phase in kernel.plan.phases}
    assert set(used) == symbols
    assert all(8 <= one.registers <= 255 for one in used.values())


def test_what_is_refused_is_named(kernels, monkeypatch):
    """One kernel in a batch is spoiled: it alone is refused, with the words of ptxas."""
    whole, spoiled = ptx.text_of, sorted(kernels)[3]

    def text_of(some, cpu):
        text = whole(some, cpu)
        name = f".visible .entry {spoiled}("
        return text.replace(name, f".nonsense {name}")

    monkeypatch.setattr(ptx, "text_of", text_of)
    some = {name: kernels[name] for name in sorted(kernels)[:6]}
    used, refused = ptx.assembled(some, "sm_90", level=0)
    assert list(refused) == [spoiled] and "nonsense" in refused[spoiled]
    assert len(used) >= 5


def test_what_a_gpu_would_do_is_counted():
    """scripts/gpu-count on a row: neighbours read neighbours, so all bytes of the sectors are wanted."""
    script = Path(__file__).resolve().parents[2] / "scripts" / "gpu-count"
    done = subprocess.run(
        [sys.executable, str(script), "row reduce"], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("row reduce")]
    assert re.search(r"row \[512\] x \[1024\].* 512 +8 +\d+ +32 +\d+ +(99|100)%", line), line
