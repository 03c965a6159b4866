"""Programs as data: what passes make, and code generation and the runtime read. Read `steps.py` first."""
