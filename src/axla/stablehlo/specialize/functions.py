"""A source written again with its sizes known, function by function for the arguments of its calls."""

from __future__ import annotations

from typing import Any

from axla.core.errors import AxlaError, UnsupportedError, VerifyError
from axla.stablehlo import mlir
from axla.stablehlo.importer.program import functions_of
from axla.stablehlo.importer.scope import placed
from axla.stablehlo.specialize.calls import Instance, Request, Work, facts_of
from axla.stablehlo.specialize.writer import Writer

MOST = 1_000_000  # operations written, copies of functions included


class Specializer:
    """Functions of a source for the types that they are called with."""

    def __init__(self, source: mlir.Source) -> None:
        self.functions = functions_of(source)
        self.facts = facts_of(self.functions)
        self.instances: dict[tuple, Instance] = {}
        self.kept: dict[str, None] = {}  # functions as they are
        self.called: dict[str, mlir.Operation] = {}  # instances by name
        self.active: set[str] = set()
        self.names = set(self.functions)
        self.free = set(self.functions)  # names that no instance has taken
        self.written = 0

    def run(self, request: Request) -> Instance:
        """Makes an instance and those that it calls. Calls do not nest here, however deep they are."""
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

    def _instance(self, request: Request) -> Work:
        name, function = request.name, self.functions[request.name]
        self.active.add(name)
        try:
            found = yield from Writer(self).function(function, request)
        except AxlaError as error:
            raise placed(error, function) from None
        self.active.discard(name)
        self.instances[request.key()] = found
        return found

    def name_for(self, name: str) -> str:
        """A name for an instance. A function that may be kept as it is keeps its name."""
        if name in self.free and name in self.facts.open:
            self.free.discard(name)
            return name
        number = len(self.instances)
        while f"{name}_{number}" in self.names:
            number += 1
        self.names.add(f"{name}_{number}")
        return f"{name}_{number}"

    def keep(self, name: str) -> None:
        """Keeps a function as it is, with all that it calls."""
        stack = [name]
        while stack:
            name = stack.pop()
            if name not in self.functions:
                raise VerifyError(f"there is no function @{name}")
            if name not in self.kept:
                if name in self.facts.open:
                    raise UnsupportedError(f"function @{name} has sizes that are not known and is not called")
                self.kept[name] = None
                stack.extend(self.facts.callees[name])

    def count(self) -> None:
        self.written += 1
        if self.written > MOST:
            raise UnsupportedError(f"with its sizes known the program has more than {MOST} operations")
