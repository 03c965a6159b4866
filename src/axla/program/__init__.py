"""Programs as data: the output of passes and lowering, and the input of code generation and the runtime. Read
`steps.py` first.
"""
