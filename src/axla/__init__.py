"""XLA, the compiler for linear algebra, in Python: HLO in, native code out.

    module = axla.parse(text)                 a Module of HLO text
    program = axla.compile(module)            an Executable, native code for this machine
    result = program(x, y)                    an Array, or a tuple as the program's result is nested

`axla.ops` and `axla.XlaBuilder` write programs in Python, `axla.check` compares a backend with the reference
interpreter, and the command line is `axla` (or `python -m axla`). Importing loads no backend: LLVM comes with
the first array or compilation.
"""

from axla import ops
from axla.api import compile, device_put, parse
from axla.builder import ComputationBuilder, XlaBuilder, XlaComputation, XlaOp
from axla.comparison import CheckReport, check
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
from axla.core.shape import OPAQUE, TOKEN, Layout, ProgramShape, Shape, TupleShape
from axla.custom.feeds import feeds
from axla.custom.probes import record_probes
from axla.custom.registry import register_custom_call, unregister_custom_call
from axla.ir.graph import Module
from axla.runtime.array import Array
from axla.runtime.dlpack import from_dlpack
from axla.runtime.executable import Executable
from axla.runtime.native import num_threads, set_num_threads

__version__ = "0.1.0.dev0"

__all__ = [
    "OPAQUE",
    "TOKEN",
    "Array",
    "AxlaError",
    "Cancelled",
    "CheckReport",
    "CollectiveFailure",
    "CompileError",
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
    "check",
    "compile",
    "device_put",
    "dtypes",
    "feeds",
    "from_dlpack",
    "num_threads",
    "ops",
    "parse",
    "record_probes",
    "register_custom_call",
    "set_num_threads",
    "unregister_custom_call",
]
