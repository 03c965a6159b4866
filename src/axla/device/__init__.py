"""Programs on devices beside the host: the host side is native code of this machine, as on cpu, and calls a
driver, by address, where a kernel is launched or memory is copied.

spaces.py makes transfers between the memory of host and device steps of the program, entry.py writes the host
side, compiler.py compiles both sides. driver.py is what a driver has to do, opencl.py and cuda.py are two.
memory.py has arrays on devices and runs under way, turns.py the thread of asynchronous runs, executable.py
the backends.
"""
