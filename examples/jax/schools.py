"""Rubin's eight schools (how much does coaching help?): a hierarchical model sampled with NUTS of NumPyro.

python examples/jax/schools.py        needs numpyro
"""

import json
import statistics
import time

import jax
import numpy as np
import numpyro
from numpyro.diagnostics import print_summary
from numpyro.distributions import HalfCauchy, Normal
from numpyro.infer import MCMC, NUTS
from numpyro.infer.reparam import LocScaleReparam

EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
WARMUP, SAMPLES, CHAINS = 1000, 4000, 4


@numpyro.handlers.reparam(config={"theta": LocScaleReparam(0)})
def model():
    mu = numpyro.sample("mu", Normal(0, 5))
    tau = numpyro.sample("tau", HalfCauchy(5))
    with numpyro.plate("schools", 8):
        theta = numpyro.sample("theta", Normal(mu, tau))
        numpyro.sample("effect", Normal(theta, ERRORS), obs=EFFECTS)


@jax.jit
def sample(key):
    kernel = NUTS(model, target_accept_prob=0.9)
    sampler = MCMC(
        kernel, num_warmup=WARMUP, num_samples=SAMPLES, num_chains=CHAINS,
        chain_method="vectorized", progress_bar=False,
    )  # fmt: skip
    sampler.run(key)
    return sampler.get_samples(group_by_chain=True)


def main():
    seconds = []
    for key in jax.random.split(jax.random.key(0), 4):
        start = time.perf_counter()
        samples = jax.block_until_ready(sample(key))
        seconds.append(time.perf_counter() - start)
    print_summary(samples)
    theta = np.asarray(samples["theta"])
    results = {
        "theta": theta.mean((0, 1)).tolist(), "spread": theta.std((0, 1)).tolist(),
        "mu": [float(samples["mu"].mean())], "tau": [float(samples["tau"].mean())],
    }  # fmt: skip
    # Two sides draw the same random numbers, but chains part where roundings differ. What is compared has the
    # error of Monte Carlo: about 0.05 here.
    line = {"name": "schools", "results": results, "rtol": 0.0, "atol": 0.3}
    print(json.dumps(line | {"first_s": seconds[0], "run_s": statistics.median(seconds[1:])}))


if __name__ == "__main__":
    main()
