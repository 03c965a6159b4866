"""`Executable`: a compiled program that can be called."""

from __future__ import annotations

import ctypes as c
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from axla.core.errors import DeadlineExceeded, InvalidArgument
from axla.program import abi
from axla.program.interface import Interface, Tree, is_flat, tree_leaves
from axla.runtime.arguments import check_count, check_donation
from axla.runtime.array import Array
from axla.runtime.dynamic import DynamicCall
from axla.runtime.native import native
from axla.runtime.program import LoadedProgram

Image = bytes | Sequence[bytes]


class Executable:
    """A program in the process. `image` is one object file or several that refer to each other.

    Calls from several threads may overlap. An array passed for a parameter that a result takes the place of
    (an alias of the interface) is donated: it is deleted by the call.
    """

    __slots__ = ("interface", "_images", "_loaded", "_native_call", "_flat", "__weakref__")

    def __init__(
        self,
        image: Image,
        interface: Interface,
        constants: bytes | memoryview | None = None,
        functions: Mapping[str, int] | None = None,
    ) -> None:
        self.interface = interface
        self._images = (bytes(image),) if isinstance(image, bytes | bytearray | memoryview) else tuple(image)
        self._loaded = LoadedProgram(self._images, interface.of_code(), constants, functions)
        self._native_call: Any = native().callable_new(self._loaded.address, self._loaded)
        if interface.is_dynamic:
            self._native_call = DynamicCall(self._native_call, interface)
        trees = interface.parameter_trees
        flat = trees is None or all(not isinstance(tree, tuple) for tree in trees)
        self._flat = flat and is_flat(interface.result_tree)

    @property
    def name(self) -> str:
        return self.interface.name

    def __call__(self, *arguments: Any) -> Any:
        """Runs the program; arguments and result are nested as the program's parameters and result are."""
        if self._flat:
            return self._native_call(*arguments)
        return _nest(self.interface.result_tree, self.execute(self._flatten(arguments)))

    def execute(
        self, inputs: Iterable[Any], *, deadline: float | None = None, donate: Iterable[int] = ()
    ) -> list[Array]:
        """Runs the program on its parameter leaves; gives its result leaves.

        `deadline` is in seconds; DeadlineExceeded when it passes. `donate` names leaves to delete besides the
        aliased.
        """
        inputs = list(inputs)
        donated = self._check_donated(inputs, donate) if donate else []
        result = self._native_call(*inputs) if deadline is None else self._run_until(deadline, inputs)
        for array in donated:
            array.delete()
        return [result] if isinstance(result, Array) else list(result)

    def cancel(self) -> int:
        """Stops the runs in progress, which raise Cancelled; gives their number."""
        return native().cancel(self._loaded.address, abi.CANCELLED)

    def _run_until(self, deadline: float, inputs: list[Any]) -> Any:
        if not deadline > 0:
            raise DeadlineExceeded(
                f"{self.name}: the deadline of {deadline} s had passed before the run", abi.DEADLINE
            )
        flags = (c.c_int32 * 2)()

        def expire() -> None:
            flags[0] = abi.DEADLINE

        timer = threading.Timer(min(deadline, threading.TIMEOUT_MAX), expire)
        timer.daemon = True
        timer.start()
        try:
            return self._native_call.with_flag(c.addressof(flags), *inputs)
        finally:
            timer.cancel()

    def _check_donated(self, inputs: list[Any], donate: Iterable[int]) -> list[Array]:
        interface = self.interface
        check_count(interface, len(inputs))
        places = set(donate)
        for index in sorted(places):
            if index not in range(len(inputs)):
                raise InvalidArgument(f"{self.name}: donate names parameter {index}; there are {len(inputs)}")
            if not isinstance(inputs[index], Array):
                name = interface.parameters[index].name
                found = type(inputs[index]).__name__
                raise InvalidArgument(
                    f"{self.name}, parameter {index} ({name}): only an Array can be donated, not {found}"
                )
        aliased = {alias.parameter for alias in interface.aliases}
        check_donation(interface, inputs, places | aliased)
        return [inputs[index] for index in sorted(places - aliased)]

    def _flatten(self, arguments: tuple[Any, ...]) -> list[Any]:
        """The leaves of nested arguments in order."""
        trees = self.interface.parameter_trees
        if trees is None:
            return list(arguments)
        if len(arguments) != len(trees):
            raise InvalidArgument(f"{self.name}: {len(arguments)} arguments, wanted {len(trees)}")
        leaves: list[Any] = [None] * sum(len(tree_leaves(tree)) for tree in trees)
        stack: list[tuple[Tree, Any, str]] = [
            (tree, argument, f"argument {i}")
            for i, (tree, argument) in enumerate(zip(trees, arguments, strict=True))
        ]
        while stack:
            tree, value, where = stack.pop()
            if not isinstance(tree, tuple):
                leaves[tree] = value
                continue
            if not isinstance(value, tuple | list) or len(value) != len(tree):
                found = f"{len(value)} values" if isinstance(value, tuple | list) else type(value).__name__
                raise InvalidArgument(f"{self.name}, {where}: wanted a tuple of {len(tree)}, found {found}")
            stack.extend((t, v, f"{where}[{i}]") for i, (t, v) in enumerate(zip(tree, value, strict=True)))
        return leaves

    def __reduce__(self) -> tuple:
        return Executable, (self._images, self.interface, self._loaded.constants())

    def __repr__(self) -> str:
        interface = self.interface
        return f"<Executable {self.name}: {len(interface.parameters)} -> {len(interface.results)} arrays>"


def _nest(tree: Tree, leaves: list[Array]) -> Any:
    """The leaves as nested tuples; without recursion."""
    if not isinstance(tree, tuple):
        return leaves[tree]
    root: list[Any] = []
    stack: list[tuple[tuple[Tree, ...], list[Any]]] = [(tree, root)]
    order: list[tuple[list[Any], int, list[Any]]] = []
    while stack:
        node, out = stack.pop()
        for child in node:
            if isinstance(child, tuple):
                inner: list[Any] = []
                order.append((out, len(out), inner))
                out.append(None)
                stack.append((child, inner))
            else:
                out.append(leaves[child])
    for out, place, inner in reversed(order):  # parents come before their children in `order`
        out[place] = tuple(inner)
    return tuple(root)
