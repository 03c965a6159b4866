"""The glue between Python and compiled programs, emitted as LLVM IR. All system calls are in this package.

assembly.py    writes LLVM IR text
memory.py      the caching allocator
pool.py        the thread pool, `parallel_for`
objects.py     records of arrays, the Python object `axla.Array`
call.py        the call of a program from Python
signals.py     Ctrl-C during a run
glue.py        compiles and loads all of it, once per process
"""
