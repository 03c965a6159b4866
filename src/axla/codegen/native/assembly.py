"""Writes functions of the runtime glue as LLVM text, with the writer of all code (`codegen.function`).

Glue is memory accesses and control flow, unlike a kernel, and is compiled at the lowest optimisation level:
instructions stay where they are written, and mutable variables are stack slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from axla.codegen import function, module
from axla.codegen.straight import CodeRegion, Ssa

Body = TypeVar("Body", bound=Callable[..., None])


class GlueModule(module.LlvmModule):
    """A module with functions and globals of the glue."""

    def __init__(self, machine: str = "", *, checks: bool = False) -> None:
        super().__init__()
        self.machine = machine
        self.checks = checks
        self.exports: list[str] = []

    def function(
        self, name: str, result: str, parameters: str = "", *, exported: bool = False
    ) -> GlueFunction:
        """Begins a function; `parameters` is text such as `"frame:ptr, count:i64"`. Other functions of the
        module call it by name; those of other modules do so only if it is `exported`.
        """
        if exported:
            self.exports.append(name)
        pairs = [p.strip().split(":") for p in parameters.split(",") if p.strip()]
        params = [(kind, p) for p, kind in pairs]
        return GlueFunction(self, name, result, params, linkage="dso_local" if exported else "internal")

    def variable(self, name: str, type: str, value: str = "zeroinitializer") -> None:
        """Adds a global variable that Python can find by name. Each variable has its own cache line."""
        self.exports.append(name)
        self.globals[name] = f"@{name} = dso_local global {type} {value}, align 64"

    @property
    def imports(self) -> list[str]:
        """The functions that are called but not defined here; the loader must know their addresses."""
        return [name for name in self.declared if name not in self.functions]


class GlueFunction(function.LlvmFunction):
    """Writes a function of the glue; the functions that it calls are declared automatically."""

    module: GlueModule

    def _place(self, home: CodeRegion, type_: str, expression: str) -> Ssa:
        return self.effect(type_, expression)

    def i32(self, value: int) -> Ssa:
        """A constant of type i32."""
        return self.const("i32", value)

    def i64(self, value: int) -> Ssa:
        """A constant of type i64."""
        return self.const("i64", value)

    def call(self, type_: str, name: str, *args: Ssa, effect: bool = True, flags: str = "") -> Ssa:
        """Calls a function by name: one of the glue, or an external one."""
        if self.module.checks and name in _WITHOUT_LOCKS:
            self.call("void", "lock_check", self.i32(int(name in _WAITS)))
        self.module.declare(name, f"declare {type_} @{name}({', '.join(a.type for a in args)})")
        return super().call(type_, name, *args, effect=effect, flags=flags)

    def call_pointer(self, type_: str, pointer: Ssa, *args: Ssa) -> Ssa:
        """Calls a function by its address; with checks, verifies first that the thread holds no lock."""
        if self.module.checks:
            self.call("void", "lock_check", self.i32(0))
        return super().call_pointer(type_, pointer, *args)

    @contextmanager
    def unless(self, condition: Ssa) -> Iterator[None]:
        """Runs the body if the condition does not hold, which must be the rare case."""
        with self.if_(condition ^ 1, likely=False):
            yield


# Functions that a thread may call only while it holds no lock of the glue. It may call those in _WAITS only
# while it does not hold the interpreter lock either (locks.py).
_WAITS = {"futex_wait", "futex_wait_briefly", "sleep"}
_WITHOUT_LOCKS = _WAITS | {
    "PyEval_RestoreThread", "PyGILState_Ensure", "PyObject_Vectorcall", "PyObject_CallNoArgs", "Py_DecRef",
}  # fmt: skip


class GlueFunctions:
    """The functions of one file of the glue, in order. An instance is used as a decorator of a function that
    writes a body:

    @FUNCTIONS("name", "i32", "frame:ptr, count:i64")
    def _name(f: GlueFunction, frame: Ssa, count: Ssa) -> None: ...
    """

    def __init__(self) -> None:
        self.found: list[tuple[Callable[..., None], tuple[str, ...], bool]] = []

    def __call__(self, *head: str, exported: bool = False) -> Callable[[Body], Body]:
        """A decorator that adds a function; `head` and `exported` are the arguments of
        `GlueModule.function`.
        """

        def add(body: Body) -> Body:
            self.found.append((body, head, exported))
            return body

        return add

    def emit(self, m: GlueModule) -> None:
        """Adds the functions to a module. A function without a result returns at its end."""
        for body, head, exported in self.found:
            f = m.function(*head, exported=exported)
            body(f, *f.params.values())
            if f.result == "void":
                f.ret()
