"""Peers that are libraries. Their calls alternate with those of axla, with the same number of threads."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from bench_lib.cliffs.measure import array_difference
from bench_lib.report import duration
from bench_lib.row import Effort, Row
from bench_lib.timing import Call, compare

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""The environment variables with the number of threads, which libraries read when they are loaded."""


def best_row(
    effort: Effort, section: str, name: str, sides: Mapping[str, Call], goal: float, notes: Sequence[str],
    limits: Mapping[str, float] = MappingProxyType({}),
) -> Row:  # fmt: skip
    """Times axla and its peers. The row compares with the peer that has the best ratio. `limits` has the
    least seconds that the machine needs, for each resource.
    """
    times = compare(sides, effort.rounds, effort.seconds)
    ratios = {peer: times.ratio("axla", peer) for peer in sides if peer != "axla"}
    best = max(ratios, key=lambda peer: ratios[peer])
    parts = {what: least / times.median("axla") for what, least in limits.items()}
    rest = [f"{peer} {duration(times.median(peer))}" for peer in ratios if peer != best]
    if parts:
        what = max(parts, key=lambda what: parts[what])
        rest.append(f"{100 * parts[what]:.0f} % of {what}")
    return Row(
        section, name, effort.threads, times.median("axla"), best, times.median(best), ratios[best],
        times.best_ratio("axla", best), goal, "; ".join([*rest, *notes]),
        more={"best": best, "peers": {peer: times.median(peer) for peer in ratios}, "parts": parts},
    )  # fmt: skip


def agreeing(
    calls: Mapping[str, Callable[[], Call]], wanted: Sequence[np.ndarray], view: Callable | None,
    tolerance: float | None,
) -> tuple[dict[str, Call], list[str]]:  # fmt: skip
    """Returns the peers that can be made and run and that agree with axla, and the reasons why others are
    left out.
    """
    found: dict[str, Call] = {}
    reasons = []
    for name, make in calls.items():
        try:
            call = make()
            differs = view and differing(view(call()), wanted, tolerance)
        except ImportError as error:
            reasons.append(f"no {name}: {error}")
        except Exception as error:
            reasons.append(f"no {name}: {type(error).__name__}: {str(error).strip().splitlines()[:1]}"[:160])
        else:
            if differs and differs > 1:
                reasons.append(f"no {name}: differs {differs:.2g} times what is allowed")
            else:
                found[name] = call
    return found, reasons


def leaves(found: Any) -> list[np.ndarray]:
    """The leaves of the results, as NumPy arrays."""
    if isinstance(found, Mapping):
        return [array for part in found.values() for array in leaves(part)]
    if isinstance(found, tuple | list):
        return [array for part in found for array in leaves(part)]
    return [np.asarray(found)]


def differing(found: Any, wanted: Sequence[np.ndarray], tolerance: float | None) -> float:
    """The largest difference, divided by the tolerance. The element types may differ in width, as libraries
    choose them.
    """
    pairs = zip(leaves(found), wanted, strict=True)
    return max(array_difference(a.astype(b.dtype), b, tolerance) for a, b in pairs)


def exported(module: Any, inputs: tuple[Any, ...], path: Path, new: bool = True) -> None:
    """Writes a torch module as ONNX, by the new exporter of torch or the older one."""
    import torch

    for name in ("torch.onnx", "onnxscript", "onnx_ir"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(module, inputs, path, dynamo=new, verbose=False)


def onnxruntime_call(path: Path, arrays: Sequence[np.ndarray], threads: int) -> Call:
    """Returns a call that runs an ONNX file in onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = {node.name: array for node, array in zip(session.get_inputs(), arrays, strict=True)}
    if len(session.get_outputs()) == 1:
        return lambda: session.run(None, given)[0]
    return lambda: session.run(None, given)


def openvino_call(path: Path, arrays: Sequence[np.ndarray], threads: int, precision: str = "f32") -> Call:
    """Returns a call that runs an ONNX file in OpenVINO, which computes floats in `precision`."""
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision,
        "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
    }  # fmt: skip
    request = openvino.Core().compile_model(path, "CPU", settings).create_infer_request()
    inputs = list(arrays)
    return lambda: request.infer(inputs, share_inputs=True, share_outputs=True)


def onnx_of(function: Callable, tensors: tuple[Any, ...]) -> Path:
    """Exports a torch function to an ONNX file; its arguments are inputs. The file is deleted when the
    process ends.
    """
    import torch

    class Module(torch.nn.Module):
        def forward(self, *arguments: Any) -> Any:
            return function(*arguments)

    folder = Path(tempfile.mkdtemp(prefix="axla-bench-"))
    exported(Module(), tensors, folder / "job.onnx")
    return folder / "job.onnx"
