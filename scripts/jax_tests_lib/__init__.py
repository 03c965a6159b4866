"""The parts of scripts/jax-tests."""
