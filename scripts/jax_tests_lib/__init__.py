"""What scripts/jax-tests is made of."""
