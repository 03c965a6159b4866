"""The compiler of the CPU backend: the entry function of a program, tuning, and the program cache."""
