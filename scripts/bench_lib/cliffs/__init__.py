"""A survey for performance cliffs: small JAX programs as users write them, each at two sizes."""

from bench_lib.cliffs import (
    arrays,
    fft,
    filters,
    finance,
    graph,
    image,
    interpolation,
    linalg,
    loops,
    mcmc,
    nets,
    ode,
    physics,
    prng,
    rnn,
    sort,
    sparse,
    text,
)
from bench_lib.cliffs.program import PROGRAMS, Program

KINDS = (
    loops, ode, mcmc, rnn, filters, prng, sparse, image, sort, interpolation, fft, graph, text, finance,
    physics, linalg, nets, arrays,
)  # fmt: skip

__all__ = ["KINDS", "PROGRAMS", "Program"]
