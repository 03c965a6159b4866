"""JIT inside TensorFlow: parts of its graphs run as axla programs (docs/design/0012). Only this package
imports TensorFlow.
"""
