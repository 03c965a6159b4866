"""A source written again with its sizes known, function by function for the arguments of its calls."""

from __future__ import annotations

from typing import Any

from axla.core.errors import AxlaError
from axla.stablehlo.importer.scope import placed
from axla.stablehlo.specialize.calls import Functions, Instance, Request, Work
from axla.stablehlo.specialize.writer import Writer


class Specializer(Functions):
    """Functions of a source for the types that they are called with."""

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
