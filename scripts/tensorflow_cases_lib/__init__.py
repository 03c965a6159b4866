"""Random cases of TensorFlow's operations: how they are drawn."""
