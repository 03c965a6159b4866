"""Instances of functions for certain arguments: requests for them, their results, the calls among them, and
their order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.errors import AxlaError, UnsupportedError, VerifyError
from axla.stablehlo import mlir
from axla.stablehlo.importer.program import callees, functions_of
from axla.stablehlo.importer.scope import placed
from axla.stablehlo.sizes import is_open
from axla.stablehlo.specialize.forms import DYNAMIC
from axla.stablehlo.text.printer import type_text

ASSERTION = "shape_assertion"
MOST = 1_000_000  # the most operations that are written, copies of functions included
CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A known value. It is written as a constant only if an operation uses it."""

    type: mlir.Type
    array: np.ndarray
    origin: mlir.Operation | None

    @property
    def key(self) -> tuple:
        """A key that equal values of equal types share."""
        return type_text(self.type), self.array.shape, self.array.tobytes()


Held = mlir.Value | Known


@dataclass(slots=True)
class Instance:
    """A function specialized for certain types and values of arguments. `known` has the values of those
    results that are known.
    """

    name: str
    types: list[mlir.Type]
    known: list[Known | None]
    operation: mlir.Operation
    pure: bool  # whether it has no effects beside its results


@dataclass(slots=True)
class InstanceRequest:
    """A request for the instance of a function with these arguments. Known values are neither parameters nor
    results, unless `all_parameters` or `all_results` is set.
    """

    name: str
    arguments: Sequence[Held]
    all_parameters: bool = False
    all_results: bool = False

    def key(self) -> tuple:
        """A key that requests for the same instance share."""
        given = [a.key if isinstance(a, Known) else type_text(a.type) for a in self.arguments]
        return (self.name, self.all_parameters, self.all_results, *given)


Work = Generator[InstanceRequest, Any, Any]


def needs_work(operation: mlir.Operation) -> bool:
    """Whether an operation must be rewritten before the import."""
    name = operation.name
    if name in DYNAMIC or name.startswith(("shape.", "tensor.", "arith.")):
        return True
    if name == "stablehlo.custom_call":
        target = operation.attributes.get("call_target_name")
        if isinstance(target, str) and (target == ASSERTION or target.startswith("stablehlo.dynamic_")):
            return True
    if any([is_open(r.type) for r in operation.results]):
        return True
    return any([is_open(a.type) for block in operation.blocks for a in block.arguments])


class FunctionInstances:
    """The functions of a source, and the instances made for the types that they are called with."""

    def __init__(self, source: mlir.Source, writer: Callable[[FunctionInstances], Any]) -> None:
        self.writer = writer  # makes the writer of one instance
        self.functions = functions_of(source)
        # Functions that must be rewritten, because of themselves or of functions that they call.
        self.open: set[str] = set()
        self.callees: dict[str, set[str]] = {}
        self._survey()
        self.instances: dict[tuple, Instance] = {}
        self.kept: dict[str, None] = {}  # functions that are kept unchanged
        self.called: dict[str, mlir.Operation] = {}  # instances by name
        self.active: set[str] = set()
        self.names = set(self.functions)
        self.free = set(self.functions)  # names that no instance has taken
        self.written = 0

    def _survey(self) -> None:
        """Finds the functions that each function calls, and the functions that must be rewritten."""
        callers: dict[str, list[str]] = {}
        for name, function in self.functions.items():
            self.callees[name] = {callee for inside in function.walk() for callee in callees(inside)}
            for callee in self.callees[name]:
                callers.setdefault(callee, []).append(name)
            if any(map(needs_work, function.walk())):
                self.open.add(name)
        stack = list(self.open)
        while stack:
            found = [caller for caller in callers.get(stack.pop(), ()) if caller not in self.open]
            self.open.update(found)
            stack += found

    def name_for(self, name: str) -> str:
        """A name for an instance of the function `name`. The first instance gets this name itself, unless the
        function is also kept unchanged.
        """
        if name in self.free and name in self.open:
            self.free.discard(name)
            return name
        number = len(self.instances)
        while f"{name}_{number}" in self.names:
            number += 1
        self.names.add(f"{name}_{number}")
        return f"{name}_{number}"

    def keep(self, name: str) -> None:
        """Keeps a function unchanged, with all functions that it calls."""
        stack = [name]
        while stack:
            name = stack.pop()
            if name not in self.functions:
                raise VerifyError(f"there is no function @{name}")
            if name not in self.kept:
                if name in self.open:
                    raise UnsupportedError(f"function @{name} has unknown sizes, and no call gives them")
                self.kept[name] = None
                stack.extend(self.callees[name])

    def count(self) -> None:
        """Counts an operation that is written; raises UnsupportedError beyond `MOST`."""
        self.written += 1
        if self.written > MOST:
            raise UnsupportedError(f"with its sizes known the program has more than {MOST} operations")

    def run(self, request: InstanceRequest) -> Instance:
        """Makes an instance and those that it calls. It does not recurse, so that calls may be nested
        deeply.
        """
        stack = [self._instance(request)]
        answer: Any = None
        while True:
            try:
                wanted = stack[-1].send(answer)
            except StopIteration as end:
                answer = end.value
                stack.pop()
                if not stack:
                    return answer
                continue
            answer = self.instances.get(wanted.key())
            if answer is None:
                stack.append(self._instance(wanted))

    def _instance(self, request: InstanceRequest) -> Work:
        self.active.add(request.name)
        try:
            found = yield from self.writer(self).function(self.functions[request.name], request)
        except AxlaError as error:
            raise placed(error, self.functions[request.name]) from None
        self.active.discard(request.name)
        self.instances[request.key()] = found
        return found
