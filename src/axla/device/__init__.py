"""Programs on devices beside the host: the host side is native code of this machine, as on cpu, and calls a
driver, by address, where a kernel is launched or memory is copied.

spaces.py makes transfers between the memory of host and device steps of the program, entry.py writes the host
side, driver.py is what a driver has to do, executable.py the backend. opencl.py is a driver.
"""
