"""From a Module to a Program: passes, memory, kernels and their plans, steps."""
