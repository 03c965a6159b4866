"""examples/data_parallel.py: the losses are those of one device, on all backends; it draws."""

import numpy as np
import pytest

import axla

LAYERS = (64, 24, 10)


@pytest.fixture(scope="module")
def parallel(example):
    return example("data_parallel")


@pytest.fixture(scope="module")
def data(parallel):
    rng = np.random.default_rng(3)
    images, digits = rng.random((240, 64), np.float32), rng.integers(0, 10, 240).astype(np.int32)
    return parallel.Data(images[:200], digits[:200], images[200:], digits[200:])


def test_losses_are_those_of_one_device(parallel, data):
    alone = parallel.train(LAYERS, data, 20, 40, 1)
    assert alone.losses.shape == (20 * 5,) and alone.losses[-1] < 0.9 * alone.losses[0]
    for devices in (2, 4):
        first, again = (parallel.train(LAYERS, data, 20, 40, devices) for _ in range(2))
        np.testing.assert_allclose(first.losses, alone.losses, rtol=1e-5)
        assert first.losses.tobytes() == again.losses.tobytes()
        for one, other in zip(first.parameters, alone.parameters, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


def test_all_devices_have_the_same_parameters_and_use_up_their_infeeds(parallel, data):
    training = parallel.Training(LAYERS, data, 40, 4)
    training.feed()
    assert [len(axla.feeds(n).infeed) for n in range(4)] == [training.steps] * 4
    training.run()
    assert [len(axla.feeds(n).infeed) for n in range(4)] == [0] * 4
    assert [[array.device for array in row] for row in training.state] == [[n] * 8 for n in range(4)]
    first, *others = [[np.asarray(array).tobytes() for array in row] for row in training.state]
    assert all(row == first for row in others)


def test_the_program_is_the_same_on_the_interpreter(parallel, data):
    module = parallel.build_steps((64, 12, 10), 8, 3, 2).module
    start = parallel.initial_parameters((64, 12, 10), np.random.default_rng(0))
    start += [np.zeros_like(p) for p in start]
    targets = np.eye(10, dtype=np.float32)[data.train_digits]
    found = []
    for backend in ("interpreter", "cpu"):
        for step in range(3):
            for device in range(2):
                part = slice(8 * step + 4 * device, 8 * step + 4 * device + 4)
                axla.feeds(device).infeed.put((data.train_images[part], targets[part]))
        program = axla.compile(module, backend=backend, num_replicas=2)
        rows = program.execute_replicated([[axla.device_put(p) for p in start] for _ in range(2)])
        found.append([np.asarray(array) for array in rows[1]])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_digits_are_learnt_and_the_picture_is_drawn(parallel, tmp_path, capsys):
    pytest.importorskip("sklearn", reason="scikit-learn holds the digits")
    pytest.importorskip("matplotlib", reason="matplotlib draws the picture")
    runs = parallel.main(["--hidden", "64", "--out", str(tmp_path)])
    assert list(runs) == ["1 device", "2 devices", "4 devices"]
    assert runs["4 devices"].losses[-1] < 0.3
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[:3]] == list(runs)
    picture = (tmp_path / "data_parallel.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 10_000


def test_digits_are_learnt(parallel, capsys):
    pytest.importorskip("sklearn", reason="scikit-learn holds the digits")
    runs = parallel.main(["--hidden", "64", "--devices", "2", "--no-picture"])
    assert runs["2 devices"].losses[-1] < 0.3
    accuracy = float(capsys.readouterr().out.split("test accuracy ")[1].split("%")[0])
    assert accuracy > 92


@pytest.mark.parametrize("wrong", [["--epochs", "15"], ["--batch", "50", "--devices", "4"]])
def test_numbers_that_do_not_fit_are_refused(parallel, wrong, capsys):
    with pytest.raises(SystemExit):
        parallel.main(wrong)
    assert "a multiple of" in capsys.readouterr().err
