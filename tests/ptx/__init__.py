"""A machine that executes PTX, the text that LLVM writes for NVIDIA GPUs, on NumPy arrays over threads.

text.py reads PTX, instructions.py says what each instruction computes, matrix.py has those of tensor cores,
memory.py holds bytes and checks every access, machine.py runs blocks of threads, gpu.py makes a GPU of it
that whole programs run on. What is unknown is an error that names it.
"""
