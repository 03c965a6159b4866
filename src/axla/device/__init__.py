"""Programs on devices other than the host. The host side is native code for this machine, as on cpu; it calls
a driver, by address, to launch kernels and copy memory.

spaces.py adds transfers between host and device memory to the steps of a program, entry.py writes the host
side, compiler.py compiles both sides. driver.py is the interface of drivers; opencl.py and cuda.py are
drivers. memory.py has arrays on devices and runs in progress, runner.py the thread of asynchronous runs,
executable.py the backends.
"""
