"""The section `engines`: each model run by axla, torch, onnxruntime and OpenVINO. All of them get the weights
as constants.

In models of bf16, axla may treat denormals as zero, as the engines always do; OpenVINO reads these models as
f32, with the option to compute in bf16. Models of 8 bits are files with QuantizeLinear and DequantizeLinear
nodes and, for torch.compile, operations of this kind that it fuses; torch without compilation would compute
them in f32.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench_lib import rivals
from bench_lib.engines.model import MODELS, Model
from bench_lib.engines.net import JaxNet
from bench_lib.row import Effort, Row
from bench_lib.timing import Call

GOAL = 1.1
"""The largest ratio to the best engine's time that a model may have."""


def engines(effort: Effort) -> Iterator[Row]:
    """A row for each model whose name contains `effort.only`."""
    for model in MODELS:
        if effort.only in model.name:
            yield _row(model, effort)


def axla_model(model: Model) -> tuple[Any, list[np.ndarray]]:
    """The model as a module whose parameters are inputs and weights, and the arrays for these."""
    import jax

    import axla.jax

    inputs = model.inputs()
    weights: list[np.ndarray] = []

    def made(net: JaxNet, given: Sequence[Any]) -> Any:
        given = [x.astype(model.dtype) if x.dtype == np.float32 else x for x in given]
        return jax.tree.map(lambda x: x.astype(np.float32), model.make(net, *given))

    def draw(*given: Any) -> Any:
        return made(JaxNet((), weights, model.dtype), given)

    if model.short == "s8":  # scales are computed from the values between layers
        draw(*inputs)
    else:
        jax.eval_shape(draw, *inputs)

    def function(given: list[Any], kept: list[Any]) -> Any:
        return made(JaxNet(kept), given)

    return axla.jax.to_module(function, inputs, weights), [*inputs, *weights]


def _row(model: Model, effort: Effort) -> Row:
    import axla

    module, arrays = axla_model(model)
    inputs, weights = arrays[: len(model.shapes)], arrays[len(model.shapes) :]
    flags = {"xla_cpu_ftz": model.short == "bf16"}
    compiled = axla.compile(module, constant=enumerate(weights, len(inputs)), flags=flags)
    placed = [axla.device_put(x) for x in inputs]
    wanted = rivals.leaves(compiled(*placed))
    with tempfile.TemporaryDirectory(prefix="axla-bench-") as folder:
        makers = _makers(model, inputs, weights, effort.threads, Path(folder))
        found, reasons = rivals.agreeing(makers, wanted, lambda x: x, model.tolerance)
        if not found:
            return Row("engines", model.name, effort.threads, None, note="; ".join(reasons))
        sides: dict[str, Call] = {"axla": lambda: compiled(*placed), **found}
        return rivals.best_row(effort, "engines", model.name, sides, GOAL, reasons)


def _makers(
    model: Model, inputs: list[np.ndarray], weights: list[np.ndarray], threads: int, folder: Path
) -> dict[str, Callable[[], Call]]:
    images = [x.ndim in (3, 4) and not model.words and not model.recurrent for x in inputs]
    arrays = [np.moveaxis(x, -1, 1) if turn else x for x, turn in zip(inputs, images, strict=True)]
    plain = [np.ascontiguousarray(x) for x in arrays]
    path = folder / "model.onnx"

    def by_torch() -> Call:
        module, tensors = _torch(model, weights, arrays, threads)
        return _quiet(lambda: module(*tensors))

    def compiled() -> Call:
        import torch
        from torch._inductor import config

        config.freezing = True  # folds constants, and gives them layouts for oneDNN
        config.cpp.threads = threads
        module, tensors = _torch(model, weights, arrays, threads)
        torch._dynamo.reset()
        made = torch.compile(module, fullgraph=not model.recurrent)
        return _quiet(lambda: made(*tensors))

    def file() -> Path:
        if not path.exists():
            wide = [x.astype(np.float32) if x.dtype == model.dtype else x for x in weights]
            module, tensors = _torch(replace(model, short=""), wide, plain, threads)
            rivals.exported(module, tensors, path, new=not model.recurrent)
        return path

    precision = "bf16" if model.short == "bf16" else "f32"
    makers = {
        "torch": by_torch,
        "torch.compile": compiled,
        "onnxruntime": lambda: rivals.onnxruntime_call(file(), plain, threads),
        "OpenVINO": lambda: rivals.openvino_call(file(), plain, threads, precision),
    }
    without = {"bf16": "onnxruntime", "s8": "torch"}.get(model.short)  # engines without kernels for the type
    return {name: make for name, make in makers.items() if name != without}


def _quiet(call: Call) -> Call:
    """The call without recording gradients."""
    import torch

    return torch.no_grad()(call)


def _torch(
    model: Model, weights: list[np.ndarray], arrays: list[np.ndarray], threads: int
) -> tuple[Any, tuple[Any, ...]]:
    import torch

    from bench_lib.engines.torch_net import TorchNet

    torch.set_num_threads(threads)

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            # Scales of whole tensors become numbers in the program.
            self.weights = [float(x) if not x.ndim else _parameter(x) for x in weights]
            self.kept = torch.nn.ParameterList(x for x in self.weights if not isinstance(x, float))

        def forward(self, *given: Any) -> Any:
            kept = iter(self.kept)
            found = [x if isinstance(x, float) else next(kept) for x in self.weights]
            if model.short == "bf16":
                given = tuple(x.bfloat16() if x.is_floating_point() else x for x in given)
            made = model.make(TorchNet(found), *given)
            return tuple(x.float() for x in made) if isinstance(made, tuple) else made.float()

    return Module().eval(), tuple(torch.from_numpy(x) for x in arrays)


def _parameter(x: np.ndarray) -> Any:
    import torch

    bits = torch.from_numpy(x if x.dtype.kind in "if" else x.view(np.int16))  # NumPy's bf16 is unknown to it
    return torch.nn.Parameter(
        bits if x.dtype.kind in "if" else bits.view(torch.bfloat16), requires_grad=False
    )
