"""What `scripts/verify-passes` is made of: seeds, mutants of them, operands, and the comparison."""
