"""Writes LLVM IR text for the runtime glue: a function builder with structs, atomics and structured control.

`codegen.function` builds numeric kernels and moves pure instructions; glue is the opposite, all memory and
control, so it has this small writer, which keeps instructions where they are written. Variables that change
are stack slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from axla.program.abi import Struct

Body = TypeVar("Body", bound=Callable[..., None])

_LLVM_FIELD = {"i8": "i8", "i32": "i32", "i64": "i64", "u64": "i64", "ptr": "ptr"}


class V:
    """An LLVM value: its type and its name, with the operators of unsigned and signed integers."""

    __slots__ = ("f", "type", "text")

    def __init__(self, f: Function, type: str, text: str) -> None:
        self.f, self.type, self.text = f, type, text

    def __str__(self) -> str:
        return f"{self.type} {self.text}"

    def _binary(self, op: str, other: V | int) -> V:
        return self.f.emit(self.type, f"{op} {self}, {self._other(other)}")

    def _compare(self, predicate: str, other: V | int) -> V:
        return self.f.emit("i1", f"icmp {predicate} {self}, {self._other(other)}")

    def _other(self, other: V | int) -> str:
        if isinstance(other, V):
            return other.text
        return "null" if self.type == "ptr" and other == 0 else str(other)

    def __add__(self, other: V | int) -> V:
        return self._binary("add", other)

    def __sub__(self, other: V | int) -> V:
        return self._binary("sub", other)

    def __mul__(self, other: V | int) -> V:
        return self._binary("mul", other)

    def __and__(self, other: V | int) -> V:
        return self._binary("and", other)

    def __or__(self, other: V | int) -> V:
        return self._binary("or", other)

    def __lshift__(self, other: V | int) -> V:
        return self._binary("shl", other)

    def __rshift__(self, other: V | int) -> V:
        return self._binary("lshr", other)

    def udiv(self, other: V | int) -> V:
        return self._binary("udiv", other)

    def eq(self, other: V | int) -> V:
        return self._compare("eq", other)

    def ne(self, other: V | int) -> V:
        return self._compare("ne", other)

    def lt(self, other: V | int) -> V:
        return self._compare("slt", other)

    def le(self, other: V | int) -> V:
        return self._compare("sle", other)

    def gt(self, other: V | int) -> V:
        return self._compare("sgt", other)

    def ge(self, other: V | int) -> V:
        return self._compare("sge", other)

    def ugt(self, other: V | int) -> V:
        return self._compare("ugt", other)

    def cast(self, type: str) -> V:
        """The value as another integer type (zero extended) or as a pointer."""
        if type == self.type:
            return self
        if "ptr" in (type, self.type):
            op = "inttoptr" if type == "ptr" else "ptrtoint"
        else:
            op = "zext" if int(type[1:]) > int(self.type[1:]) else "trunc"
        return self.f.emit(type, f"{op} {self} to {type}")

    def at(self, offset: V | int) -> V:
        """The address so many bytes on."""
        if isinstance(offset, int):
            return self if offset == 0 else self.f.emit("ptr", f"getelementptr i8, {self}, i64 {offset}")
        return self.f.emit("ptr", f"getelementptr i8, {self}, {offset}")

    def item(self, index: V | int, size: int = 8) -> V:
        """The address of an element of an array of elements of this size."""
        return self.at(index * size)

    def load(self, type: str, order: str = "") -> V:
        """What lies at the address; `order` makes the load atomic."""
        if not order:
            return self.f.emit(type, f"load {type}, {self}")
        return self.f.emit(type, f"load atomic {type}, {self} {order}, align {_SIZES[type]}")

    def store(self, value: V, order: str = "") -> None:
        if not order:
            self.f.line(f"store {value}, {self}")
        else:
            self.f.line(f"store atomic {value}, {self} {order}, align {_SIZES[value.type]}")

    def get(self, struct: Struct, name: str) -> V:
        """A field of the struct at the address."""
        field = struct.fields[struct.index(name)]
        return self.at(struct.offset(name)).load(_LLVM_FIELD[field.type])

    def set(self, struct: Struct, name: str, value: V | int) -> None:
        field = struct.fields[struct.index(name)]
        kind = _LLVM_FIELD[field.type]
        self.at(struct.offset(name)).store(value if isinstance(value, V) else self.f.const(kind, value))

    def atomic(self, op: str, value: V, order: str = "seq_cst") -> V:
        """Changes what lies at the address by add, sub, and, or, umin, xchg; gives the value before."""
        return self.f.emit(value.type, f"atomicrmw {op} {self}, {value} {order}")


_SIZES = {"i32": 4, "i64": 8, "ptr": 8}


class Module:
    """A set of functions and globals; `text()` is the LLVM module."""

    def __init__(self, machine: str = "", *, checks: bool = False) -> None:
        self.machine = machine
        self.checks = checks
        self.functions: list[Function] = []
        self.globals: dict[str, str] = {}
        self.externals: dict[str, str] = {}

    def function(self, name: str, result: str, parameters: str = "", *, exported: bool = False) -> Function:
        """A new function; `parameters` reads `"frame:ptr, count:i64"`. Others call it by name."""
        f = Function(self, name, result, parameters, exported)
        self.functions.append(f)
        return f

    def variable(self, name: str, type: str, value: str = "zeroinitializer", align: int = 64) -> None:
        """A global variable that Python can find by name. Each has a cache line of its own."""
        self.globals[name] = f"@{name} = global {type} {value}, align {align}"

    def text_constant(self, name: str, text: str) -> None:
        data = text.encode()
        escaped = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02x}" for b in data)
        self.globals[name] = f'@{name} = internal constant [{len(data) + 1} x i8] c"{escaped}\\00"'

    def text(self) -> str:
        defined = {f.name for f in self.functions}
        declared = [text for name, text in self.externals.items() if name not in defined]
        return "\n".join([*self.globals.values(), *declared, *(f.text() for f in self.functions)])

    @property
    def exports(self) -> list[str]:
        return [f.name for f in self.functions if f.exported] + [
            name for name, text in self.globals.items() if " = global " in text
        ]

    @property
    def imports(self) -> list[str]:
        defined = {f.name for f in self.functions}
        return [name for name in self.externals if name not in defined]


class Function:
    """A function being written; instructions go to its end."""

    def __init__(self, module: Module, name: str, result: str, parameters: str, exported: bool) -> None:
        self.module, self.name, self.result, self.exported = module, name, result, exported
        pairs = [p.strip().split(":") for p in parameters.split(",") if p.strip()]
        self.parameters = [V(self, kind, f"%{p}") for p, kind in pairs]
        self.slots: list[str] = []
        self.lines: list[str] = []
        self.counter = 0
        self.ended = False

    # Instructions.

    def _name(self) -> str:
        self.counter += 1
        return f"%t{self.counter}"

    def line(self, text: str) -> None:
        if self.ended:  # code behind a return or a jump: give it a block of its own
            self._label(self._block())
        self.lines.append("  " + text)

    def emit(self, type: str, text: str) -> V:
        name = self._name()
        self.line(f"{name} = {text}")
        return V(self, type, name)

    def const(self, type: str, value: int) -> V:
        return V(
            self,
            type,
            ("null" if value == 0 else f"inttoptr (i64 {value} to ptr)") if type == "ptr" else str(value),
        )

    def i32(self, value: int) -> V:
        return V(self, "i32", str(value))

    def i64(self, value: int) -> V:
        return V(self, "i64", str(value))

    @property
    def null(self) -> V:
        return V(self, "ptr", "null")

    def glob(self, name: str) -> V:
        """The address of a global or function of the module."""
        return V(self, "ptr", f"@{name}")

    def slot(self, value: V) -> V:
        """A stack variable with a first value: its address."""
        address = self.space(value.type)
        address.store(value)
        return address

    def space(self, type: str, align: int = 8) -> V:
        """Uninitialised stack memory of an LLVM type, made once at the function's start."""
        name = self._name()
        self.slots.append(f"  {name} = alloca {type}, align {align}")
        return V(self, "ptr", name)

    def pointers(self, count: V) -> V:
        """An array of pointers on the stack, its length known when run. Only outside of loops."""
        return self.emit("ptr", f"alloca ptr, {count}, align 8")

    def select(self, condition: V, yes: V, no: V) -> V:
        return self.emit(yes.type, f"select {condition}, {yes}, {no}")

    def call(self, result: str, name: str, *arguments: V, variadic: int = -1) -> V:
        """Calls a function by name, ours or an external one; `variadic` counts its fixed parameters."""
        if self.module.checks and name in _WITHOUT_LOCKS:
            self.call("void", "lock_check", self.i32(int(name in _WAITS)))
        kinds = [a.type for a in arguments]
        signature = ", ".join(kinds if variadic < 0 else [*kinds[:variadic], "..."])
        self.module.externals.setdefault(name, f"declare {result} @{name}({signature})")
        kind = result if variadic < 0 else f"{result} ({signature})"
        return self._call(kind, result, f"@{name}", arguments)

    def call_pointer(self, result: str, function: V, *arguments: V) -> V:
        if self.module.checks:
            self.call("void", "lock_check", self.i32(0))
        return self._call(result, result, function.text, arguments)

    def _call(self, kind: str, result: str, target: str, arguments: tuple[V, ...]) -> V:
        text = f"call {kind} {target}({', '.join(map(str, arguments))})"
        if result == "void":
            self.line(text)
            return V(self, "void", "")
        return self.emit(result, text)

    def exchange(self, address: V, expected: V, value: V) -> V:
        """Compare and swap: true when the value was as expected and is now replaced."""
        pair = self.emit("", f"cmpxchg {address}, {expected}, {value} seq_cst seq_cst")
        return self.emit("i1", f"extractvalue {{ {value.type}, i1 }} {pair.text}, 1")

    def ret(self, value: V | None = None) -> None:
        self.line("ret void" if value is None else f"ret {value}")
        self.ended = True

    # Control.

    def _block(self) -> str:
        self.counter += 1
        return f"b{self.counter}"

    def _label(self, block: str) -> None:
        self.ended = False
        self.lines.append(f"{block}:")

    def _jump(self, block: str) -> None:
        if not self.ended:
            self.line(f"br label %{block}")
            self.ended = True

    @contextmanager
    def when(self, condition: V, likely: bool | None = None) -> Iterator[None]:
        """The body runs if the condition holds."""
        then, after = self._block(), self._block()
        self.line(f"br {condition}, label %{then}, label %{after}" + _WEIGHTS[likely])
        self._label(then)
        yield
        self._jump(after)
        self._label(after)

    @contextmanager
    def unless(self, condition: V) -> Iterator[None]:
        """The body runs if the condition does not hold: the rare case."""
        with self.when(self.emit("i1", f"xor {condition}, 1"), likely=False):
            yield

    @contextmanager
    def loop(self) -> Iterator[Loop]:
        """Runs the body until `leave`."""
        loop = Loop(self, self._block(), self._block())
        self._jump(loop.head)
        self._label(loop.head)
        yield loop
        self._jump(loop.head)
        self._label(loop.after)

    @contextmanager
    def each(self, count: V) -> Iterator[tuple[V, Loop]]:
        """Runs the body for 0, 1, ... below an i64 count."""
        slot = self.slot(self.i64(0))
        head, step, after = self._block(), self._block(), self._block()
        self._jump(head)
        self._label(head)
        index = slot.load("i64")
        body = self._block()
        self.line(f"br {index.lt(count)}, label %{body}, label %{after}")
        self._label(body)
        yield index, Loop(self, step, after)
        self._jump(step)
        self._label(step)
        slot.store(slot.load("i64") + 1)
        self._jump(head)
        self._label(after)

    def text(self) -> str:
        linkage = "" if self.exported else "internal "
        parameters = ", ".join(map(str, self.parameters))
        head = f"define {linkage}{self.result} @{self.name}({parameters}) nounwind {{"
        return "\n".join([head, "entry:", *self.slots, *self.lines, "}\n"])


# What a thread calls only while it holds no lock of the glue, and of these, what no holder of the interpreter
# lock calls (locks.py).
_WAITS = {"futex_wait", "futex_wait_briefly", "usleep"}
_WITHOUT_LOCKS = _WAITS | {
    "PyEval_RestoreThread", "PyGILState_Ensure", "PyObject_Vectorcall", "PyObject_CallNoArgs", "Py_DecRef",
}  # fmt: skip

_WEIGHTS = {None: "", True: ", !prof !{!\"branch_weights\", i32 1000, i32 1}",
            False: ", !prof !{!\"branch_weights\", i32 1, i32 1000}"}  # fmt: skip


class Loop:
    """A loop being written: where `again` and `leave` jump to."""

    def __init__(self, f: Function, head: str, after: str) -> None:
        self.f, self.head, self.after = f, head, after

    def again(self) -> None:
        self.f._jump(self.head)

    def leave(self) -> None:
        self.f._jump(self.after)


class Functions:
    """The functions of one file of the glue, in order; what it decorates writes the body of one:

    @FUNCTIONS("name", "i32", "frame:ptr, count:i64")
    def _name(f: Function, frame: V, count: V) -> None: ...
    """

    def __init__(self) -> None:
        self.found: list[tuple[Callable[..., None], tuple[str, ...], bool]] = []

    def __call__(self, *head: str, exported: bool = False) -> Callable[[Body], Body]:
        """`head` and `exported` as `Module.function` takes them."""

        def add(body: Body) -> Body:
            self.found.append((body, head, exported))
            return body

        return add

    def emit(self, m: Module) -> None:
        """Adds the functions to a module. One without a result returns at its end."""
        for body, head, exported in self.found:
            f = m.function(*head, exported=exported)
            body(f, *f.parameters)
            if f.result == "void":
                f.ret()
