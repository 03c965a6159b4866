"""Draws random cases of TensorFlow's operations."""
