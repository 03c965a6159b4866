"""The section `engines`: whole models by axla and by inference engines, with random weights, in f32."""

from bench_lib.engines.model import MODELS, Model

__all__ = ["MODELS", "Model"]
