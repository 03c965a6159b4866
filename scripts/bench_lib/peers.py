"""The two compilers: each turns a program into a function without arguments that runs it to the end."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Function = Callable[..., Any]


def axla_function(text: str) -> Function:
    """Compiles HLO text by axla; the function takes the arguments of the program and returns its results."""
    import axla

    return axla.compile(axla.parse(text))


def xla_module(text: str) -> Any:
    """Parses HLO text by XLA's own parser."""
    import jaxlib._hlo as hlo

    return hlo.XlaComputation(hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())


def stablehlo_of(computation: Any) -> Any:
    import jaxlib._jax as jaxlib

    return jaxlib.mlir.xla_computation_to_mlir_module(computation)


def xla_compile(stablehlo: Any) -> Any:
    """Compiles StableHLO by the ordinary entry of XLA:CPU; returns the executable."""
    import jax
    import jaxlib._jax as jaxlib

    start_lapack()

    device = jax.devices("cpu")[0]
    return device.client.compile_and_load(stablehlo, jaxlib.DeviceList((device,)), jaxlib.CompileOptions())


def start_lapack() -> None:
    """Makes XLA find the functions of LAPACK; otherwise its custom calls crash."""
    from jaxlib import lapack

    lapack._lapack.initialize()


def xla_function(text: str) -> Function:
    """The program as a jitted function of device arrays, which is the fastest kind of call to XLA. It returns
    a list.
    """
    import jax

    start_lapack()
    from jax._src import core
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import func

    computation = xla_module(text)
    source = stablehlo_of(computation)
    result = computation.program_shape().result_shape()
    shapes = result.tuple_shapes() if result.is_tuple() else [result]
    results = [core.ShapedArray(s.dimensions(), s.numpy_dtype()) for s in shapes]
    program = core.Primitive("hlo_text")
    program.multiple_results = True
    program.def_abstract_eval(lambda *_: results)

    def lower(context: Any, *arguments: Any) -> Any:
        module = context.module_context
        name = mlir.merge_mlir_modules(module.module, "hlo_text", ir.Module.parse(source))
        types = [mlir.aval_to_ir_type(module, aval) for aval in results]
        return func.CallOp(types, ir.FlatSymbolRefAttr.get(name), arguments).results

    mlir.register_lowering(program, lower)
    return jax.jit(lambda *arguments: program.bind(*arguments))


def axla_call(function: Function, inputs: Sequence[np.ndarray]) -> Callable[[], Any]:
    """Returns a call with `axla.Array`s."""
    import axla

    arrays = [axla.device_put(x) for x in inputs]
    return lambda: function(*arrays)


def xla_call(function: Function, inputs: Sequence[np.ndarray]) -> Callable[[], Any]:
    """Returns a call with device arrays, which waits for the first result."""
    import jax

    arrays = [jax.device_put(x) for x in inputs]
    return lambda: function(*arrays)[0].block_until_ready()


def check(name: str, found: Any, wanted: Any, tolerance: float) -> None:
    """Raises AssertionError if results differ, so that only equal programs are timed."""
    found, wanted = (list(x) if isinstance(x, list | tuple) else [x] for x in (found, wanted))
    if len(found) != len(wanted):
        raise AssertionError(f"{name}: {len(found)} results and {len(wanted)}")
    for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
        np.testing.assert_allclose(
            np.asarray(a), np.asarray(b), tolerance, tolerance, err_msg=f"{name}, result {number}"
        )


def c_function(source: str, name: str, *options: str) -> Any:
    """A function of C source, compiled with -O2; None without a C compiler."""
    library = c_library(source, options=options)
    return library and getattr(library, name)


def c_library(source: str, *images: bytes, options: Sequence[str] = ()) -> Any:
    """A library of C source, compiled with -O2 and linked with object files; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="axla-bench-"))
    try:
        (folder / "source.c").write_text(source)
        parts = [folder / "source.c"]
        for number, image in enumerate(images):
            parts.append(folder / f"{number}.o")
            parts[-1].write_bytes(image)
        library = folder / "library.so"
        subprocess.run([compiler, "-O2", *options, "-shared", "-fPIC", "-o", library, *parts], check=True)
        return ctypes.CDLL(str(library))
    finally:
        shutil.rmtree(folder)
