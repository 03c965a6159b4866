"""Calls TensorFlow's C API through ctypes, and loads the emitted kernel, which also calls it."""

from __future__ import annotations

import ctypes as c
import re
from functools import cache
from pathlib import Path
from typing import Any

from axla.core import locks
from axla.core.errors import UnsupportedError
from axla.runtime.native import native
from axla.tensorflow.clusters import native as kernel
from axla.tensorflow.clusters.framework import tf

# Name, parameters and result of each function: p a pointer, s a text, i an int, l an int64_t, b a bool.
_FUNCTIONS = """
TF_NewStatus():p TF_DeleteStatus(p) TF_GetCode(p):i TF_Message(p):s TF_SetStatus(pis)
TF_NewOpDefinitionBuilder(s):p TF_OpDefinitionBuilderAddAttr(ps) TF_OpDefinitionBuilderAddInput(ps)
TF_OpDefinitionBuilderAddOutput(ps) TF_OpDefinitionBuilderSetIsStateful(pb) TF_RegisterOpDefinition(pp)
TF_OpDefinitionBuilderSetShapeInferenceFunction(pp) TF_ShapeInferenceContextSetUnknownShape(pp)
TF_NewKernelBuilder(ssppp):p TF_RegisterKernelBuilder(spp) TF_OpKernelConstruction_GetAttrInt64(pspp)
TF_OpKernelConstruction_Failure(pp) TF_OpKernelContext_Failure(pp)
TF_NumDims(p):i TF_Dim(pi):l TF_TensorData(p):p TF_TensorByteSize(p):l TF_DeleteTensor(p)
TF_GetInput(pipp) TF_AllocateOutput(piipilp):p
"""
_KINDS = {"p": c.c_void_p, "s": c.c_char_p, "i": c.c_int, "l": c.c_int64, "b": c.c_bool, "": None}


class Api:
    """Loads the C API. `tf` has TensorFlow's functions by name, `at` the addresses of the emitted kernel's
    functions. Raises UnsupportedError if the installed TensorFlow lacks a function.
    """

    def __init__(self) -> None:
        folder = Path(tf.__file__).parent
        libraries = [c.CDLL(str(path)) for path in sorted(folder.glob("libtensorflow_framework*"))]
        self.tf: dict[str, Any] = {}
        addresses = {}
        for name, parameters, result in re.findall(r"(\w+)\((\w*)\):?(\w?)", _FUNCTIONS):
            found = next((getattr(library, name) for library in libraries if hasattr(library, name)), None)
            if found is None:
                raise UnsupportedError(f"TensorFlow {tf.__version__} has no {name} in its C API")
            addresses[name] = c.cast(found, c.c_void_p).value or 0
            self.tf[name] = c.CFUNCTYPE(_KINDS[result], *(_KINDS[p] for p in parameters))(addresses[name])
        self.at = at = native().glue.extended(kernel.emit, addresses)
        # Calls of these three functions keep the interpreter lock.
        self.lock = c.PYFUNCTYPE(None, c.c_void_p)(at["tf_lock"])
        self.unlock = c.PYFUNCTYPE(None, c.c_void_p)(at["tf_unlock"])
        self.find = c.PYFUNCTYPE(c.c_void_p, c.c_void_p, c.c_void_p)(at["tf_find"])

    def check(self, status: int, what: str) -> None:
        """Frees a status of TensorFlow. Raises UnsupportedError if the status is an error; the message says
        that TensorFlow refuses `what`.
        """
        code, text = self.tf["TF_GetCode"](status), self.tf["TF_Message"](status).decode("utf-8", "replace")
        self.tf["TF_DeleteStatus"](status)
        if code:
            raise UnsupportedError(f"TensorFlow refuses {what}: {text}")


_made: list[Api] = []
_lock = locks.new_lock()


@cache
def missing() -> str:
    """The reason why the emitted kernel cannot be used; empty if it can."""
    try:
        api()
    except UnsupportedError as error:
        return error.message
    return ""


def api() -> Api:
    """The C API, loaded once per process. UnsupportedError where TensorFlow lacks a function."""
    if not _made:
        with _lock:
            if not _made:
                _made.append(Api())
    return _made[0]
