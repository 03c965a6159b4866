"""The section `engines`: whole models with random f32 weights, run by axla and by inference engines."""

from bench_lib.engines.model import MODELS, Model

__all__ = ["MODELS", "Model"]
