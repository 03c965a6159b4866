"""axla."""
