"""The runtime: arrays, and compiled programs that can be called.

Takes an object image with the symbol `axla_entry` and an `Interface` (axla.program), gives an `Executable`.
Knows nothing of HLO. Importing it loads no LLVM; the first array or executable does. Read `executable.py`
first, then `program.py` and `axla/codegen/native/call.py`, the emitted half of a call.
"""

import axla.runtime.array  # noqa: F401  the native type of arrays derives from its class
