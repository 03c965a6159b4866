"""The parts of `scripts/verify-passes`: seeds, their mutants, operands, and the comparison."""
