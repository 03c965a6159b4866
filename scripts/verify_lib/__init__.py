"""The parts of `scripts/verify-passes`: seeds, mutants of them, operands, and the comparison."""
