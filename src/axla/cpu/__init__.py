"""The CPU backend's compiler: the entry function of a program, tuning, the program cache."""
