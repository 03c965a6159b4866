"""The section `peers`: jobs for which there are good libraries, run by axla and by all of these."""

from bench_lib.libraries import arrays, layers, products
from bench_lib.libraries.job import JOBS, Job

KINDS = (arrays, layers, products)

__all__ = ["JOBS", "KINDS", "Job"]
