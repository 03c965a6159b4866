"""What `scripts/bench` is made of."""
