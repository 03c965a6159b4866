"""A module that the interpreter runs, behind the interface of a compiled program."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from axla.core.errors import InvalidArgument
from axla.core.literal import Literal
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.interpreter.custom_calls import check_custom_call
from axla.interpreter.evaluate import Interpreter, as_value, evaluate
from axla.interpreter.parallel import MOST, evaluate_replicated
from axla.ir.graph import Module


class InterpretedExecutable:
    """Calls `evaluate`. Takes NumPy arrays (or what converts to them), gives NumPy arrays.

    With several replicas or partitions only `execute_replicated` runs it. Random numbers differ from run to
    run; those of the n-th run are always the same.
    """

    def __init__(self, module: Module, num_replicas: int = 1, num_partitions: int = 1):
        if num_replicas * num_partitions > MOST:
            raise InvalidArgument(f"compile: at most {MOST} devices, found {num_replicas * num_partitions}")
        self.module = module
        self.num_replicas, self.num_partitions = num_replicas, num_partitions
        self.name = module.name
        self._seeds = itertools.count(0, 1 << 64)  # apart enough for all that one run takes
        for inst in Interpreter().needed(module.entry):
            check_custom_call(inst)

    def __call__(self, *arguments: Any) -> Any:
        """Runs the program; arguments and result are nested as the program's parameters and result are."""
        self._check_one_device()
        parameters = self.module.entry.parameters
        if len(arguments) != len(parameters):
            raise InvalidArgument(f"{self.name}: {len(arguments)} arguments, wanted {len(parameters)}")
        literals = [
            self._literal(argument, p.shape, p.name)
            for argument, p in zip(arguments, parameters, strict=True)
        ]
        return as_value(evaluate(self.module, literals, seed=next(self._seeds)))

    def execute(self, inputs: Iterable[Any], *, deadline: float | None = None) -> list[np.ndarray]:
        """Runs the program on its parameter leaves; gives its result leaves."""
        self._check_one_device()
        result = evaluate(self.module, self._arguments(inputs), deadline=deadline, seed=next(self._seeds))
        return [leaf.array for leaf in result.leaves() if leaf.shape.is_array]

    def execute_replicated(
        self, inputs: Iterable[Iterable[Any]], *, deadline: float | None = None
    ) -> list[list[np.ndarray]]:
        """Runs the program on all devices, with parameter leaves for each; gives the result leaves of each.

        Device n is partition n % num_partitions of replica n // num_partitions.
        """
        arguments = [self._arguments(given) for given in inputs]
        devices, seed = self.num_replicas * self.num_partitions, next(self._seeds)
        if len(arguments) != devices:
            raise InvalidArgument(
                f"{self.name}: inputs of {devices} devices are wanted, found {len(arguments)}"
            )
        if devices == 1:
            results = [evaluate(self.module, arguments[0], deadline=deadline, seed=seed)]
        else:
            results = evaluate_replicated(
                self.module, arguments, self.num_replicas, self.num_partitions, deadline=deadline, seed=seed
            )
        return [[leaf.array for leaf in r.leaves() if leaf.shape.is_array] for r in results]

    def _check_one_device(self) -> None:
        if self.num_replicas * self.num_partitions > 1:
            raise InvalidArgument(
                f"{self.name}: it is for {self.num_replicas} replicas of {self.num_partitions} partitions; "
                "execute_replicated runs it, and compile with replicas='first' its first participant alone"
            )

    def _arguments(self, inputs: Iterable[Any]) -> list[Literal]:
        """The parameters' values, of their leaves."""
        leaves = list(inputs)
        parameters = self.module.entry.parameters
        wanted = sum(1 for p in parameters for s in p.shape.leaves() if s.is_array)
        if len(leaves) != wanted:
            raise InvalidArgument(f"{self.name}: {len(leaves)} inputs, wanted {wanted}")
        rest = iter(leaves)
        return [self._tree(p.shape, rest, p.name) for p in parameters]

    def _tree(self, shape: AnyShape, rest: Any, name: str) -> Literal:
        if isinstance(shape, TupleShape):
            parts = [self._tree(s, rest, f"{name}.{k}") for k, s in enumerate(shape.elements)]
            return Literal(TupleShape([p.shape for p in parts]), elements=parts)
        if not isinstance(shape, Shape):
            return Literal(shape)
        return self._literal(next(rest), shape, name)

    def _literal(self, argument: Any, shape: AnyShape, name: str) -> Literal:
        if isinstance(shape, TupleShape):
            if not isinstance(argument, tuple | list) or len(argument) != len(shape.elements):
                raise InvalidArgument(
                    f"{self.name}, parameter {name}: wanted a tuple of {len(shape.elements)}"
                )
            parts = [self._literal(a, s, name) for a, s in zip(argument, shape.elements, strict=True)]
            return Literal(TupleShape([p.shape for p in parts]), elements=parts)
        if not isinstance(shape, Shape):
            return Literal(shape)
        try:
            array = np.asarray(argument)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(
                f"{self.name}, parameter {name}: not an array that axla reads: {error}"
            ) from error
        if array.dtype != shape.dtype.numpy or not shape.admits(array.shape):
            found = f"{array.dtype}{list(array.shape)}"
            raise InvalidArgument(
                f"{self.name}, parameter {name}: found {found}, wanted "
                f"{shape.logical.to_string(layout=False)}"
            )
        return Literal(Shape(shape.dtype, array.shape), array)
