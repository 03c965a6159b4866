"""The runtime: arrays, and compiled programs that can be called.

It loads machine code with the symbol `axla_entry`, described by an `Interface` (`axla.program`), and has no
knowledge of HLO. Importing it loads no LLVM; the first array or executable does. Read `program.py` first,
then `axla/codegen/native/call.py`, which emits the fast path of a call.
"""

import axla.runtime.array  # noqa: F401  the native type of arrays derives from its class
