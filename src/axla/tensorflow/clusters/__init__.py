"""JIT inside TensorFlow: parts of its graphs run as programs of axla (docs/design/0012). No other package
imports TensorFlow.
"""
