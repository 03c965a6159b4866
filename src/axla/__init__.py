"""XLA, the compiler for linear algebra, in Python: HLO in, native code out.

    module = axla.parse(text)                 a Module of HLO text
    program = axla.compile(module)            an Executable, native code for this machine
    result = program(x, y)                    an Array, or a tuple as the program's result is nested

`axla.ops` and `axla.XlaBuilder` write programs in Python, `axla.check` compares a backend with the reference
interpreter, `axla.aot` writes C libraries, `axla.jax` takes JAX functions, and the command line is `axla` (or
`python -m axla`). A name is imported when it is first used: `axla.aot.load` takes the runtime only, and LLVM
comes with the first array or compilation.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from axla import backends, ops
    from axla.api import compile, device_put, parse
    from axla.backends import Client, CompileOptions, Executable
    from axla.builder import XlaBuilder, XlaComputation, XlaOp
    from axla.comparison import CheckReport, check
    from axla.compatibility.computation_builder import ComputationBuilder
    from axla.core import dtypes
    from axla.core.errors import (
        AxlaError,
        Cancelled,
        CollectiveFailure,
        CompileError,
        CustomCallFailure,
        DeadlineExceeded,
        InternalError,
        InvalidArgument,
        Mismatch,
        OutOfMemory,
        ParseError,
        RuntimeFailure,
        ShapeError,
        UnsupportedError,
        VerifyError,
    )
    from axla.core.literal import Literal
    from axla.core.profile import Profile, profile
    from axla.core.progress import progress
    from axla.core.shape import OPAQUE, TOKEN, Layout, ProgramShape, Shape, TupleShape
    from axla.custom.feeds import feeds
    from axla.custom.probes import record_probes
    from axla.custom.registry import (
        register_custom_call,
        register_custom_calls,
        unregister_custom_call,
        unregister_custom_calls,
    )
    from axla.ir.graph import Module
    from axla.runtime.array import Array
    from axla.runtime.dlpack import from_dlpack
    from axla.runtime.ffi import register_ffi_type
    from axla.runtime.native import num_threads, set_num_threads
    from axla.service.remote import connect

__version__ = "0.1.0.dev0"

_PACKAGES = ("aot", "backends", "jax", "ops", "tensorflow")
_HOMES = {
    name: module
    for module, names in {
        "axla.api": "compile device_put parse",
        "axla.backends": "Client CompileOptions Executable",
        "axla.builder": "XlaBuilder XlaComputation XlaOp",
        "axla.compatibility.computation_builder": "ComputationBuilder",
        "axla.comparison": "CheckReport check",
        "axla.core.errors": (
            "AxlaError Cancelled CollectiveFailure CompileError CustomCallFailure DeadlineExceeded "
            "InternalError InvalidArgument Mismatch OutOfMemory ParseError RuntimeFailure ShapeError "
            "UnsupportedError VerifyError"
        ),
        "axla.core.literal": "Literal",
        "axla.core.profile": "Profile profile",
        "axla.core.progress": "progress",
        "axla.core.shape": "OPAQUE TOKEN Layout ProgramShape Shape TupleShape",
        "axla.custom.feeds": "feeds",
        "axla.custom.probes": "record_probes",
        "axla.custom.registry": "register_custom_call register_custom_calls unregister_custom_call "
        "unregister_custom_calls",
        "axla.ir.graph": "Module",
        "axla.runtime.array": "Array",
        "axla.runtime.dlpack": "from_dlpack",
        "axla.runtime.ffi": "register_ffi_type",
        "axla.runtime.native": "num_threads set_num_threads",
        "axla.service.remote": "connect",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> _typing.Any:
    """Imports a public name from its module when it is first used."""
    import importlib

    if name in _PACKAGES:
        found = importlib.import_module(f"axla.{name}")
    elif name == "dtypes":
        found = importlib.import_module("axla.core.dtypes")
    elif name in _HOMES:
        found = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module axla has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "OPAQUE",
    "TOKEN",
    "Array",
    "AxlaError",
    "Cancelled",
    "CheckReport",
    "Client",
    "CollectiveFailure",
    "CompileError",
    "CompileOptions",
    "ComputationBuilder",
    "CustomCallFailure",
    "DeadlineExceeded",
    "Executable",
    "InternalError",
    "InvalidArgument",
    "Layout",
    "Literal",
    "Mismatch",
    "Module",
    "OutOfMemory",
    "ParseError",
    "Profile",
    "ProgramShape",
    "RuntimeFailure",
    "Shape",
    "ShapeError",
    "TupleShape",
    "UnsupportedError",
    "VerifyError",
    "XlaBuilder",
    "XlaComputation",
    "XlaOp",
    "__version__",
    "backends",
    "check",
    "compile",
    "connect",
    "device_put",
    "dtypes",
    "feeds",
    "from_dlpack",
    "num_threads",
    "ops",
    "parse",
    "profile",
    "progress",
    "record_probes",
    "register_custom_call",
    "register_custom_calls",
    "register_ffi_type",
    "set_num_threads",
    "unregister_custom_call",
    "unregister_custom_calls",
]
