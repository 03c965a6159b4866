"""The parts of `scripts/fuzz`: random modules, oracles, processes that apply them, and a summary."""
