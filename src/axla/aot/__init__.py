"""Programs compiled ahead of time, for this machine or another."""
