"""alpha * x + y, as in XLA's first tutorial: with the inputs as parameters, and with the inputs as constants.

python examples/axpy.py [--backend cpu|interpreter]
"""

import argparse

import numpy as np

from axla.builder import ComputationBuilder
from axla.client import ClientLibrary
from axla.core.literal import Literal


def compute_axpy_parameters(alpha: Literal, x: Literal, y: Literal, backend: str = "cpu") -> Literal:
    # The client of a backend, and a builder for the computation.
    client = ClientLibrary.ClientLibraryOrDie(backend)
    builder = ComputationBuilder(client, "axpy")

    # A function of three parameters with one result.
    param_alpha = builder.Parameter(0, alpha.shape, "alpha")
    param_x = builder.Parameter(1, x.shape, "x")
    param_y = builder.Parameter(2, y.shape, "y")
    builder.Add(builder.Mul(param_alpha, param_x), param_y)
    computation = builder.Build()

    # The arguments go to the server; the result comes back as a literal.
    alpha_data = client.TransferToServer(alpha)
    x_data = client.TransferToServer(x)
    y_data = client.TransferToServer(y)
    return client.ExecuteAndTransfer(computation, [alpha_data, x_data, y_data])


def compute_axpy_constants(alpha: float, x: list[float], y: list[float], backend: str = "cpu") -> Literal:
    client = ClientLibrary.ClientLibraryOrDie(backend)
    builder = ComputationBuilder(client, "axpy")

    # The inputs are part of the program: other values need another compilation, these may be folded.
    constant_alpha = builder.ConstantR0(alpha)
    constant_x = builder.ConstantR1(x)
    constant_y = builder.ConstantR1(y)
    builder.Add(builder.Mul(constant_alpha, constant_x), constant_y)
    computation = builder.Build()

    # No arguments: the computation has no parameters.
    return client.ExecuteAndTransfer(computation, [])


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--backend", default="cpu")
    backend = options.parse_args().backend
    x, y = np.arange(10, dtype=np.float32), np.ones(10, np.float32)
    alpha = np.float32(2)
    parameters = compute_axpy_parameters(Literal.of(alpha), Literal.of(x), Literal.of(y), backend)
    constants = compute_axpy_constants(2.0, x.tolist(), y.tolist(), backend)
    print("parameters:", parameters.array)
    print("constants: ", constants.array)


if __name__ == "__main__":
    main()
