"""Writes LLVM IR as text: one function at a time, structured, hoisted and numbered as it is written.

Code is a tree of regions: the function body, loop bodies, branches. A *pure* instruction goes into the
outermost open region where all its operands exist (loop-invariant code is hoisted while it is written), and
an equal pure instruction of a region that is still open is not written twice. These two replace the LLVM
passes that axla does not run.

    f = Function(module, "kernel", "i32", [("ptr", "frame"), ("ptr", "args")])
    with f.loop(0, 128, 16) as i:
        f.store(f.binary("fadd", x, f.load("<16 x float>", f.gep("float", p, i.index))), q)
    f.ret(f.const("i32", 0))
    text = module.text()
"""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Iterator, Sequence

from axla.program import abi

INDEX = "i64"
"""The default type of index arithmetic; a Target with 32-bit addresses sets `Module.index_type`."""

UNPOLLED_WORK = 1 << 22
"""Lines of a loop that may run, some milliseconds, until it looks whether the run is cancelled."""
UNPOLLED_INDICES = 1 << 16
"""How far the index of a loop may go until it looks: not beyond what 32 bits have left behind an array."""


class Region:
    """Code with one entry: body of a function or loop, branch. `lines` grow until it is closed."""

    __slots__ = ("depth", "lines", "label", "known", "open", "arithmetic_floor", "load_floor", "work")

    def __init__(self, depth: int, label: str, arithmetic_floor: int, load_floor: int):
        self.depth = depth
        self.lines: list[str] = []
        self.label = label  # of the basic block being written, for phis
        self.known: dict[str, Ssa] = {}
        self.open = True
        # The outermost depth that pure code written here may move to. Branches keep all their code (it may be
        # dear); loops that may not run at all keep only their loads (the address may not exist).
        self.arithmetic_floor = arithmetic_floor
        self.load_floor = load_floor
        self.work = 0.0  # lines that loops inside run, as far as is known; minus infinity: they poll


class Ssa:
    """An LLVM value: its text (`%12`, `3`, `splat (float 0x..)`), its type, the region that defines it."""

    __slots__ = ("text", "type", "region", "constant")

    def __init__(self, text: str, type_: str, region: Region | None, constant: int | None = None):
        self.text = text
        self.type = type_
        self.region = region  # None: exists everywhere (constants, arguments, globals)
        self.constant = constant  # the value of a scalar integer constant, for folding

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{self.type} {self.text}"


class Loop:
    """An open counted loop: `index` and `carried` inside; `results` after it has closed."""

    __slots__ = ("index", "carried", "next", "results")

    def __init__(self, index: Ssa, carried: list[Ssa]):
        self.index = index
        self.carried = carried
        self.next: list[Ssa] = []
        self.results: list[Ssa] = []

    def yield_(self, values: Sequence[Ssa]) -> None:
        """Sets what the carried values are in the next iteration."""
        self.next = list(values)


class Module:
    """The text of one LLVM module: declarations, globals, functions, metadata."""

    def __init__(self, index_type: str = INDEX, attributes: str = "", pointer_bytes: int = 8):
        self.index_type = index_type
        self.pointer_bytes = pointer_bytes
        self.common = attributes and " " + attributes  # attributes of every function
        self.declared: dict[str, str] = {}
        self.globals: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self.attributes: dict[str, int] = {}
        self.outlined: dict[str, str] = {}  # shared internal functions and their result types
        self.in_process = True  # its code is run by the glue of this process, whose parallel_for polls

    def declare(self, name: str, signature: str) -> None:
        """Declares external symbol or intrinsic `name`; `signature` is the whole `declare` line."""
        self.declared.setdefault(name, signature)

    def publish(self, name: str) -> None:
        """Makes an internal function of this module visible to the modules it is linked with, and to no
        others.
        """
        self.functions[name] = self.functions[name].replace("define internal ", "define hidden ", 1)

    def enclose(self, name: str) -> None:
        """Makes a function of this module invisible to all others."""
        self.functions[name] = self.functions[name].replace("define ", "define internal ", 1)

    def attribute_group(self, text: str) -> int:
        return self.attributes.setdefault(text, len(self.attributes))

    def text(self) -> str:
        declared = (line for name, line in self.declared.items() if name not in self.functions)
        groups = (
            f"attributes #{number} = {{ {text}{self.common} }}" for text, number in self.attributes.items()
        )
        metadata = (
            ("!0 = !{i32 1}",) if any("!nontemporal !0" in body for body in self.functions.values()) else ()
        )
        parts = (declared, self.globals.values(), self.functions.values(), groups, metadata)
        return "\n".join(line for part in parts for line in part) + "\n"


@functools.cache
def vector(element: str, lanes: int) -> str:
    """The LLVM type of `lanes` elements: a plain scalar for one lane."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


@functools.cache
def element_type(type_: str) -> str:
    return type_[type_.index("x") + 2 : -1] if type_[0] == "<" else type_


@functools.cache
def lane_count(type_: str) -> int:
    return int(type_[1 : type_.index("x") - 1]) if type_[0] == "<" else 1


def float_text(element: str, value: float) -> str:
    """A float constant exactly as LLVM reads it (hex; f32 is written as the double it equals)."""
    # Not through the cache: 0.0 equals -0.0 there, and no NaN equals another.
    return _float_text(element, value) if value else _float_text.__wrapped__(element, value)


@functools.lru_cache(maxsize=4096)
def _float_text(element: str, value: float) -> str:
    if element == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if element == "float":
        with contextlib.suppress(OverflowError):
            value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class Function:
    """One function being written. Methods return `Ssa` values; see the module's docstring for how they are
    placed.
    """

    def __init__(
        self, module: Module, name: str, result: str, params: Sequence[tuple[str, str]], *,
        linkage: str = "", attributes: str = "nounwind",
    ):  # fmt: skip
        self.module = module
        self.name = name
        self.result = result
        self.linkage = linkage
        self.attributes = attributes
        self.params = {
            p.split()[-1]: Ssa(f"%{p.split()[-1]}", t if t[0] in "<{[" else t.split()[0], None)
            for t, p in params
        }
        self._signature = ", ".join(f"{t} %{p}" for t, p in params)
        self.polls = False  # whether long loops poll; the function gives a code and has a frame
        self.made = 0  # names given to values and blocks: the length of the code
        self._slots: dict[int, tuple[int, Ssa]] = {}
        self._top = Region(0, "entry", 0, 0)
        self._stack = [self._top]

    # -- placement ---------------------------------------------------------------------------------------

    @property
    def region(self) -> Region:
        return self._stack[-1]

    def _home(self, operands: Sequence[Ssa], depth: int) -> Region:
        """The outermost open region, not above `depth`, where `operands` exist."""
        for operand in operands:
            region = operand.region
            if region is not None:
                if not region.open:
                    raise AssertionError(
                        f"{self.name}: {operand!r} is used outside the region that defines it"
                    )
                if region.depth > depth:
                    depth = region.depth
        return self._stack[depth]

    def fresh(self) -> str:
        self.made += 1
        return f"%v{self.made}"

    def pure(self, type_: str, expression: str, operands: Sequence[Ssa]) -> Ssa:
        """The value of an instruction without effects, hoisted and numbered; `operands` say where it may
        stand.
        """
        return self._place(self._home(operands, self._stack[-1].arithmetic_floor), type_, expression)

    def _place(self, home: Region, type_: str, expression: str) -> Ssa:
        found = home.known.get(expression)
        if found is not None:
            return found
        value = Ssa(self.fresh(), type_, home)
        home.known[expression] = value
        home.lines.append(f"  {value.text} = {expression}")
        return value

    def effect(self, type_: str, expression: str) -> Ssa:
        """The value of an instruction that must stay here, such as a load from memory that changes."""
        region = self._stack[-1]
        value = Ssa(self.fresh(), type_, region)
        region.lines.append(f"  {value.text} = {expression}")
        return value

    def line(self, text: str) -> None:
        """A void instruction, here."""
        self._stack[-1].lines.append("  " + text)

    # -- values ------------------------------------------------------------------------------------------

    def const(self, type_: str, value: int | float | bool) -> Ssa:
        """A constant; of a vector type, splatted."""
        element = element_type(type_)
        number = int(value) if element[0] == "i" else None
        if number is None:
            text = float_text(element, float(value))
        elif element == "i1":
            text = "true" if number else "false"
        else:
            text = str(number)
        if type_[0] == "<":
            return Ssa(f"splat ({element} {text})", type_, None)
        return Ssa(text, type_, None, number)

    def index(self, value: int) -> Ssa:
        return self.const(self.module.index_type, value)

    def undef(self, type_: str) -> Ssa:
        return Ssa("poison", type_, None)

    def null(self) -> Ssa:
        return Ssa("null", "ptr", None)

    def zero(self, type_: str) -> Ssa:
        return Ssa("zeroinitializer", type_, None) if type_[0] in "<[{" else self.const(type_, 0)

    def binary(self, opcode: str, a: Ssa, b: Ssa, flags: str = "") -> Ssa:
        return self.pure(
            a.type, f"{opcode}{' ' + flags if flags else ''} {a.type} {a.text}, {b.text}", (a, b)
        )

    def unary(self, opcode: str, a: Ssa) -> Ssa:
        return self.pure(a.type, f"{opcode} {a.type} {a.text}", (a,))

    def icmp(self, predicate: str, a: Ssa, b: Ssa) -> Ssa:
        if (
            a.constant is not None
            and b.constant is not None
            and predicate in ("eq", "ne", "slt", "sle", "sgt", "sge")
        ):
            x, y = a.constant, b.constant
            table = {"eq": x == y, "ne": x != y, "slt": x < y, "sle": x <= y, "sgt": x > y, "sge": x >= y}
            return self.const("i1", table[predicate])
        return self.pure(
            vector("i1", lane_count(a.type)), f"icmp {predicate} {a.type} {a.text}, {b.text}", (a, b)
        )

    def fcmp(self, predicate: str, a: Ssa, b: Ssa) -> Ssa:
        return self.pure(
            vector("i1", lane_count(a.type)), f"fcmp {predicate} {a.type} {a.text}, {b.text}", (a, b)
        )

    def select(self, condition: Ssa, a: Ssa, b: Ssa) -> Ssa:
        if a.text == b.text:
            return a
        if condition.constant is not None:
            return a if condition.constant else b
        text = f"select {condition.type} {condition.text}, {a.type} {a.text}, {b.type} {b.text}"
        return self.pure(a.type, text, (condition, a, b))

    def cast(self, opcode: str, a: Ssa, type_: str) -> Ssa:
        """`opcode` is trunc, zext, sext, fptrunc, fpext, fptosi, sitofp, bitcast, ptrtoint...; same type:
        `a`.
        """
        if a.type == type_:
            return a
        return self.pure(type_, f"{opcode} {a.type} {a.text} to {type_}", (a,))

    def call(
        self, type_: str, name: str, args: Sequence[Ssa], *, effect: bool = False, flags: str = ""
    ) -> Ssa:
        """Calls `@name`, declared on the way when it is an intrinsic. Pure unless `effect`; a void call needs
        it.
        """
        if name.startswith("llvm.") and name not in self.module.declared:
            self.module.declare(name, f"declare {type_} @{name}({', '.join(a.type for a in args)})")
        flags = flags + " " if flags else ""
        text = f"call {flags}{type_} @{name}({', '.join(f'{a.type} {a.text}' for a in args)})"
        if type_ == "void":
            self.line(text)
            return Ssa("", "void", None)
        return self.effect(type_, text) if effect else self.pure(type_, text, args)

    def call_pointer(self, type_: str, pointer: Ssa, args: Sequence[Ssa]) -> Ssa:
        text = f"call {type_} {pointer.text}({', '.join(f'{a.type} {a.text}' for a in args)})"
        if type_ == "void":
            self.line(text)
            return Ssa("", "void", None)
        return self.effect(type_, text)

    # -- vectors -----------------------------------------------------------------------------------------

    def splat(self, a: Ssa, lanes: int) -> Ssa:
        """`a` in every lane; a value that is a vector already is returned as it is."""
        if lanes == 1 or a.type[0] == "<":
            return a
        type_ = vector(a.type, lanes)
        if a.region is None and a.text[0] not in "%@":
            return Ssa(f"splat ({a.type} {a.text})", type_, None)
        first = self.pure(type_, f"insertelement {type_} poison, {a.type} {a.text}, i32 0", (a,))
        return self.pure(
            type_,
            f"shufflevector {type_} {first.text}, {type_} poison, <{lanes} x i32> zeroinitializer",
            (first,),
        )

    def extract(self, a: Ssa, lane: int) -> Ssa:
        return (
            self.pure(element_type(a.type), f"extractelement {a.type} {a.text}, i32 {lane}", (a,))
            if a.type[0] == "<"
            else a
        )

    def insert(self, a: Ssa, b: Ssa, lane: int) -> Ssa:
        return (
            self.pure(a.type, f"insertelement {a.type} {a.text}, {b.type} {b.text}, i32 {lane}", (a, b))
            if a.type[0] == "<"
            else b
        )

    def shuffle(self, a: Ssa, b: Ssa, lanes: Sequence[int]) -> Ssa:
        """Lanes of a (0..n-1) and b (n..2n-1) in a new order; -1 is any."""
        mask = ", ".join("i32 poison" if k < 0 else f"i32 {k}" for k in lanes)
        type_ = vector(element_type(a.type), len(lanes))
        return self.pure(
            type_,
            f"shufflevector {a.type} {a.text}, {b.type} {b.text}, <{len(lanes)} x i32> <{mask}>",
            (a, b),
        )

    def lanes_constant(self, type_: str, values: Sequence[int]) -> Ssa:
        element = element_type(type_)
        return Ssa("<" + ", ".join(f"{element} {v}" for v in values) + ">", type_, None)

    # -- index arithmetic, folded ------------------------------------------------------------------------

    def add(self, a: Ssa, b: Ssa) -> Ssa:
        if a.constant is not None and b.constant is not None:
            return self.const(a.type, a.constant + b.constant)
        if a.constant == 0:
            return b
        if b.constant == 0:
            return a
        return self.pure(a.type, f"add nsw {a.type} {a.text}, {b.text}", (a, b))

    def sub(self, a: Ssa, b: Ssa) -> Ssa:
        if a.constant is not None and b.constant is not None:
            return self.const(a.type, a.constant - b.constant)
        if b.constant == 0:
            return a
        return self.pure(a.type, f"sub nsw {a.type} {a.text}, {b.text}", (a, b))

    def mul(self, a: Ssa, b: Ssa) -> Ssa:
        if a.constant is not None and b.constant is not None:
            return self.const(a.type, a.constant * b.constant)
        if 0 in (a.constant, b.constant):
            return self.const(a.type, 0)
        if a.constant == 1:
            return b
        if b.constant == 1:
            return a
        return self.pure(a.type, f"mul nsw {a.type} {a.text}, {b.text}", (a, b))

    def udiv(self, a: Ssa, divisor: int) -> Ssa:
        """a // divisor for a >= 0."""
        if divisor == 1:
            return a
        if a.constant is not None:
            return self.const(a.type, a.constant // divisor)
        return self.pure(a.type, f"udiv {a.type} {a.text}, {divisor}", (a,))

    def urem(self, a: Ssa, divisor: int) -> Ssa:
        """a % divisor for a >= 0."""
        if divisor == 1:
            return self.const(a.type, 0)
        if a.constant is not None:
            return self.const(a.type, a.constant % divisor)
        return self.pure(a.type, f"urem {a.type} {a.text}, {divisor}", (a,))

    def smin(self, a: Ssa, b: Ssa) -> Ssa:
        if a.constant is not None and b.constant is not None:
            return self.const(a.type, min(a.constant, b.constant))
        return self.call(a.type, f"llvm.smin.{mangle(a.type)}", (a, b))

    def smax(self, a: Ssa, b: Ssa) -> Ssa:
        if a.constant is not None and b.constant is not None:
            return self.const(a.type, max(a.constant, b.constant))
        return self.call(a.type, f"llvm.smax.{mangle(a.type)}", (a, b))

    # -- memory ------------------------------------------------------------------------------------------

    def gep(self, element: str, pointer: Ssa, index: Ssa, *, inbounds: bool = True) -> Ssa:
        """The address of element `index` of an array of `element` at `pointer`; not `inbounds`: it may lie
        outside of the array.
        """
        if index.constant == 0:
            return pointer
        kind = "getelementptr inbounds" if inbounds else "getelementptr"
        text = f"{kind} {element}, ptr {pointer.text}, {index.type} {index.text}"
        return self.pure(
            "ptr" if index.type[0] != "<" else vector("ptr", lane_count(index.type)), text, (pointer, index)
        )

    def load(self, type_: str, pointer: Ssa, align: int, *, readonly: bool = False) -> Ssa:
        """Loads here; `readonly` memory (not written while this function runs) may be read earlier and only
        once.
        """
        if type_ == "ptr":
            align = min(align, self.module.pointer_bytes)
        text = f"load {type_}, ptr {pointer.text}, align {align}"
        if not readonly:
            return self.effect(type_, text)
        return self._place(self._home((pointer,), self._stack[-1].load_floor), type_, text)

    def read(self, type_: str, expression: str, operands: Sequence[Ssa], *, readonly: bool = False) -> Ssa:
        """The value of an instruction that reads memory, placed as `load` places one."""
        if not readonly:
            return self.effect(type_, expression)
        return self._place(self._home(operands, self._stack[-1].load_floor), type_, expression)

    def stack(self, type_: str, count: int, *, slot: int = 0) -> Ssa:
        """The address of `count` elements on the stack, aligned to 8: the same memory for every use of a slot
        number.
        """
        used, address = self._slots.get(slot, (0, Ssa(f"%stack{slot}", "ptr", None)))
        size = count * (8 if type_ in ("ptr", "i64", "double") else 16)
        self._slots[slot] = (max(used, size, 1), address)
        return address

    def store(self, value: Ssa, pointer: Ssa, align: int, *, nontemporal: bool = False) -> None:
        hint = ", !nontemporal !0" if nontemporal else ""
        if value.type == "ptr":
            align = min(align, self.module.pointer_bytes)
        self.line(f"store {value.type} {value.text}, ptr {pointer.text}, align {align}{hint}")

    # -- control -----------------------------------------------------------------------------------------

    def _push(self, label: str, *, branch: bool = False, may_not_run: bool = False) -> Region:
        parent, depth = self._stack[-1], len(self._stack)
        arithmetic_floor = depth if branch else parent.arithmetic_floor
        region = Region(depth, label, arithmetic_floor, depth if branch or may_not_run else parent.load_floor)
        self._stack.append(region)
        return region

    def _pop(self) -> Region:
        region = self._stack.pop()
        region.open = False
        region.known = {}
        self.region.work += region.work
        return region

    def _labels(self, *names: str) -> list[str]:
        self.made += 1
        return [f"{name}{self.made}" for name in names]

    @contextlib.contextmanager
    def loop(
        self,
        start: Ssa | int,
        stop: Ssa | int,
        step: int = 1,
        carry: Sequence[Ssa] = (),
        *,
        nonempty: bool = False,
    ) -> Iterator[Loop]:
        """`for index in range(start, stop, step)` with carried values. Yields a `Loop`; call
        `loop.yield_(next)` inside.

        `nonempty` promises at least one iteration: no guard, and loads may be hoisted out.
        """
        begin = self.index(start) if isinstance(start, int) else start
        end = self.index(stop) if isinstance(stop, int) else stop
        known = begin.constant is not None and end.constant is not None
        if known and begin.constant >= end.constant:  # type: ignore[operator]
            raise AssertionError(f"{self.name}: loop from {begin} to {end} never runs")
        nonempty = nonempty or known
        labels = self._labels("loop", "done")
        body = self._push(labels[0], may_not_run=not nonempty)
        index = Ssa(self.fresh(), begin.type, body)
        carried = [Ssa(self.fresh(), value.type, body) for value in carry]
        loop = Loop(index, carried)
        yield loop
        following = self._opaque(self.effect(begin.type, f"add nsw {begin.type} {index.text}, {step}"))
        if len(loop.next) != len(carried):
            raise AssertionError(f"{self.name}: loop carries {len(carried)} values, yields {len(loop.next)}")
        once = body.work + len(body.lines)
        body.work = once * (-(-(end.constant - begin.constant) // step) if known else 1)  # type: ignore[operator]
        self._pop()
        if not self.polls or body.work <= UNPOLLED_WORK:
            self._close(loop, body, following, labels, (begin, end, carry), nonempty)
            return
        stretch = step * max(1, int(min(UNPOLLED_WORK // once, UNPOLLED_INDICES // step)))
        with self.loop(begin, end, stretch, carry) as rounds:
            limit = self.add(rounds.index, self.smin(self.sub(end, rounds.index), self.index(stretch)))
            self._close(loop, body, following, labels, (rounds.index, limit, rounds.carried), True)
            self.poll()
            rounds.yield_(loop.results)
        loop.results = rounds.results

    def _close(self, loop: Loop, body: Region, following: Ssa, labels, span, nonempty: bool) -> None:
        """Writes a loop of this body."""
        (begin, end, carry), (head, done) = span, labels
        parent, index, latch = self.region, loop.index, body.label
        entry, out = parent.label, parent.lines
        if nonempty:
            out.append(f"  br label %{head}")
        else:
            guard = Ssa(self.fresh(), "i1", parent)
            out.append(f"  {guard.text} = icmp slt {begin.type} {begin.text}, {end.text}")
            out.append(f"  br i1 {guard.text}, label %{head}, label %{done}")
        out.append(f"{head}:")
        self._phis(entry, latch, (index, *loop.carried), (begin, *carry), (following, *loop.next))
        out.extend(body.lines)
        again = self.fresh()
        out.append(f"  {again} = icmp slt {begin.type} {following.text}, {end.text}")
        out.append(f"  br i1 {again}, label %{head}, label %{done}")
        out.append(f"{done}:")
        parent.label = done
        for first, later in zip(carry, loop.next, strict=True):
            skipped = "" if nonempty else f"[ {first.text}, %{entry} ], "
            result = Ssa(self.fresh(), later.type, parent)
            out.append(f"  {result.text} = phi {later.type} {skipped}[ {later.text}, %{latch} ]")
            loop.results.append(result)

    def _phis(self, entry: str, latch: str, *values: Sequence[Ssa]) -> None:
        """What a loop carries: names, first values and later ones."""
        for value, first, later in zip(*values, strict=True):
            sources = f"[ {first.text}, %{entry} ], [ {later.text}, %{latch} ]"
            self.region.lines.append(f"  {value.text} = phi {value.type} {sources}")

    def _opaque(self, value: Ssa) -> Ssa:
        """The same value, about which LLVM knows nothing. It costs no instruction.

        A loop index made so is no induction variable to loop strength reduction, a third of LLVM's time,
        which does not make our loops faster: what is invariant is hoisted already, and addresses fold into
        loads and stores.
        """
        zero = self.const(value.type, 0)
        return self.call(value.type, f"llvm.expect.{value.type}", (value, zero), effect=True)

    @contextlib.contextmanager
    def while_loop(self, carry: Sequence[Ssa]) -> Iterator[WhileLoop]:
        """A loop with its test on top. Inside: compute the condition, call `test(condition)`, then the body,
        then `yield_`.
        """
        head, body_label, done = self._labels("while", "body", "end")
        parent = self.region
        region = self._push(head, may_not_run=True)
        carried = [Ssa(self.fresh(), value.type, region) for value in carry]
        loop = WhileLoop(self, carried, body_label, done)
        yield loop
        self._pop()
        out = parent.lines
        entry, latch = parent.label, region.label
        out.append(f"  br label %{head}")
        out.append(f"{head}:")
        self._phis(entry, latch, carried, carry, loop.next)
        out.extend(region.lines)
        out.append(f"  br label %{head}")
        out.append(f"{done}:")
        parent.label = done
        # The header dominates the exit and is its only predecessor: its phis are the results.
        loop.results = [Ssa(value.text, value.type, parent) for value in carried]

    def branch(self, condition: Ssa) -> Branch:
        """`if condition`: use `with b.then(): ...` and `with b.otherwise(): ...`, then `b.merge(pairs)`."""
        return Branch(self, condition)

    @contextlib.contextmanager
    def if_(self, condition: Ssa) -> Iterator[None]:
        """Runs the body only when `condition` holds; nothing comes out of it."""
        branch = Branch(self, condition)
        with branch.then():
            yield
        branch.merge([])

    def guard(self, condition: Ssa, code: Ssa) -> None:
        """Returns `code` from the function when `condition` holds."""
        stop, go = self._labels("stop", "go")
        region = self.region
        region.lines.append(f"  br i1 {condition.text}, label %{stop}, label %{go}")
        region.lines.append(f"{stop}:")
        region.lines.append(f"  ret {code.type} {code.text}")
        region.lines.append(f"{go}:")
        region.label = go

    def frame_field(self, name: str, type_: str = "ptr") -> Ssa:
        """A field of the frame, which is a parameter."""
        offset = self.const("i64", abi.FRAME.offset(name, self.module.pointer_bytes))
        address = self.gep("i8", self.params["frame"], offset)
        return self.load(type_, address, 8 if type_ == "ptr" else 4, readonly=True)

    def poll(self) -> None:
        """Returns a code when the run is cancelled or, in this process, when a handler of a signal raises."""
        if not self.polls:
            return
        frame, type_ = self.params["frame"], "i64" if self.module.in_process else "i32"
        flags = self.effect(type_, f"load volatile {type_}, ptr {self.frame_field('cancel')}, align 4")
        stop = self.icmp("ne", flags, self.const(type_, 0))
        if self.module.in_process:
            with self.if_(stop):
                ranges = self.null(), self.null(), self.const(type_, 0), self.const(type_, 1)
                code = self.call_pointer("i32", self.frame_field("parallel_for"), (frame, *ranges))
                self.guard(self.icmp("ne", code, self.const("i32", 0)), code)
        else:
            self.guard(stop, flags)
        self.region.work = float("-inf")

    def ret(self, value: Ssa | None = None) -> None:
        """Ends the function and hands its text to the module."""
        if len(self._stack) != 1:
            raise AssertionError(f"{self.name}: return inside an open region")
        self.line("ret void" if value is None else f"ret {value.type} {value.text}")
        group = self.module.attribute_group(self.attributes)
        linkage = self.linkage + " " if self.linkage else ""
        head = f"define {linkage}{self.result} @{self.name}({self._signature}) #{group} {{\nentry:\n"
        head += "".join(f"  {a.text} = alloca [{size} x i8], align 8\n" for size, a in self._slots.values())
        self.module.functions[self.name] = head + "\n".join(self._top.lines) + "\n}"


class WhileLoop:
    """An open `while_loop`: `carried` inside, `results` after."""

    __slots__ = ("_function", "carried", "next", "results", "_body", "_done", "_tested")

    def __init__(self, function: Function, carried: list[Ssa], body: str, done: str):
        self._function = function
        self.carried = carried
        self.next: list[Ssa] = []
        self.results: list[Ssa] = []
        self._body = body
        self._done = done
        self._tested = False

    def test(self, condition: Ssa) -> None:
        """Leaves the loop when `condition` is false."""
        region = self._function.region
        region.lines.append(f"  br i1 {condition.text}, label %{self._body}, label %{self._done}")
        region.lines.append(f"{self._body}:")
        region.label = self._body
        self._tested = True

    def yield_(self, values: Sequence[Ssa]) -> None:
        if not self._tested:
            raise AssertionError("while_loop: test() comes before yield_()")
        self.next = list(values)


class Branch:
    """The two sides of a condition. A side that is not written is empty."""

    def __init__(self, function: Function, condition: Ssa):
        self._function = function
        self._condition = condition
        self._sides: list[Region | None] = [None, None]
        self._labels = function._labels("then", "else", "join")

    @contextlib.contextmanager
    def _side(self, number: int) -> Iterator[None]:
        f = self._function
        f._push(self._labels[number], branch=True)
        yield
        self._sides[number] = f._pop()

    def then(self) -> contextlib.AbstractContextManager[None]:
        return self._side(0)

    def otherwise(self) -> contextlib.AbstractContextManager[None]:
        return self._side(1)

    def merge(self, pairs: Sequence[tuple[Ssa, Ssa]]) -> list[Ssa]:
        """Joins the sides; each pair is (value if true, value if false)."""
        f = self._function
        parent = f.region
        join = self._labels[2]
        targets = [
            label if side is not None else join
            for label, side in zip(self._labels, self._sides, strict=False)
        ]
        out = parent.lines
        out.append(f"  br i1 {self._condition.text}, label %{targets[0]}, label %{targets[1]}")
        sources = []
        for label, side in zip(self._labels[:2], self._sides, strict=True):
            if side is None:
                sources.append(parent.label)
                continue
            out.append(f"{label}:")
            out.extend(side.lines)
            out.append(f"  br label %{join}")
            sources.append(side.label)
        out.append(f"{join}:")
        parent.label = join
        results = []
        for a, b in pairs:
            result = Ssa(f.fresh(), a.type, parent)
            out.append(
                f"  {result.text} = phi {a.type} [ {a.text}, %{sources[0]} ], [ {b.text}, %{sources[1]} ]"
            )
            results.append(result)
        return results


_MANGLED = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}


@functools.cache
def mangle(type_: str) -> str:
    """The suffix of overloaded intrinsics: `v16f32` for <16 x float>."""
    element = element_type(type_)
    name = _MANGLED.get(element, element)
    return f"v{lane_count(type_)}{name}" if type_[0] == "<" else name
