"""What `scripts/fuzz` is made of: random modules, oracles, processes that apply them, and a summary."""
