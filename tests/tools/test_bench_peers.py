"""The sections `peers` and `engines` of `scripts/bench`: their lists, and what is done about peers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

from bench_lib import report, rivals
from bench_lib.libraries import JOBS
from bench_lib.row import Effort
from bench_lib.timing import Times


def test_jobs_have_names_of_their_own_and_peers() -> None:
    assert len({job.name for job in JOBS}) == len(JOBS) == 77
    assert all(job.peers and job.source for job in JOBS)
    assert all("torch" in job.peers for job in JOBS if job.onnx)


def test_a_model_takes_the_weights_that_it_drew() -> None:
    jax = pytest.importorskip("jax")
    from bench_lib.engines import MODELS
    from bench_lib.engines.net import JaxNet

    model = next(model for model in MODELS if model.name.startswith("Llama"))
    drawn: list[np.ndarray] = []
    wanted = jax.eval_shape(lambda *given: model.make(JaxNet((), drawn), *given), *model.inputs())
    nets: list[JaxNet] = []

    def again(weights: list, *given: object) -> object:
        nets.append(JaxNet(weights))
        return model.make(nets[0], *given)

    assert jax.eval_shape(again, drawn, *model.inputs()) == wanted
    assert nets[0]._place == len(drawn) > 8 * 9


def test_a_model_of_8_bits_draws_scales_of_what_flows() -> None:
    pytest.importorskip("jax")
    from bench_lib.engines.net import JaxNet

    drawn: list[np.ndarray] = []
    net = JaxNet((), drawn)
    x = net.short(np.linspace(-2, 2, 64, dtype=np.float32).reshape(1, 4, 4, 4))
    found = np.asarray(net.short_convolution(x, 8, (3, 3)))
    assert (np.asarray(x.values).min(), np.asarray(x.values).max()) == (-127, 127)
    assert [w.dtype.name for w in drawn] == ["float32", "int8", "int32", "float32"]
    kernel = drawn[1].astype(float) * drawn[3]
    seen = np.asarray(net.long(x))[0, :3, :3]
    wanted = np.einsum("hwi,hwio->o", seen, kernel) + drawn[2] * drawn[0] * drawn[3]
    np.testing.assert_allclose(found[0, 1, 1], wanted, rtol=1e-4)


def test_peers_that_fail_or_differ_are_left_out_with_a_reason() -> None:
    def missing() -> Callable[[], object]:
        raise ImportError("No module named 'x'")

    wanted = [np.ones(4, np.float32)]
    found, reasons = rivals.agreeing(
        {
            "absent": missing,
            "wrong": lambda: lambda: np.zeros(4, np.float32),
            "right": lambda: lambda: np.ones(4),  # of another width
        },
        wanted,
        lambda x: x,
        None,
    )
    assert list(found) == ["right"]
    assert reasons[0] == "no absent: No module named 'x'"
    assert reasons[1].startswith("no wrong: differs")


def test_a_row_is_against_the_best_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    times = Times({"axla": [3e-6], "slow": [9e-6], "fast": [2e-6]})
    monkeypatch.setattr(rivals, "compare", lambda *_: times)
    sides = dict.fromkeys(times.rounds, lambda: None)
    row = rivals.best_row(Effort(1, 1, 0.1), "peers", "x", sides, 1.15, ["note"], {"copy": 1.5e-6})
    assert (row.peer_name, row.ratio) == ("fast", 1.5)
    assert row.note == "slow 9 us; 50 % of copy; note"
    assert report.summary([row]) == ["peers, 1 thread(s): geometric mean of axla/best 1.50, worst 1.50 (x)"]
