import numpy as np
import pytest

from axla.core.literal import Literal
from service_server import REMOTE, with_server

X, Y = np.arange(10, dtype=np.float32), np.linspace(-1, 1, 10, dtype=np.float32)


@pytest.fixture(params=["cpu", "interpreter", *REMOTE])
def backend(request):
    return with_server(request)


def test_axpy_with_parameters(example, backend):
    literals = [Literal.of(v) for v in (np.float32(2.5), X, Y)]
    result = example("axpy").compute_axpy_parameters(*literals, backend=backend)
    assert np.array_equal(result.array, np.float32(2.5) * X + Y)


def test_axpy_with_constants(example, backend):
    result = example("axpy").compute_axpy_constants(2.5, X.tolist(), Y.tolist(), backend)
    assert np.array_equal(result.array, np.float32(2.5) * X + Y)


def test_axpy_prints_both(example, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["axpy.py", "--backend", "interpreter"])
    example("axpy").main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["parameters", "constants"]
    assert lines[0].split(":")[1].strip() == lines[1].split(":")[1].strip() == str(2 * X + 1)
