"""LLVM modules and straight-line code as text: values, types, constants, arithmetic and memory."""

from __future__ import annotations

import contextlib
import functools
import operator
import struct
from collections.abc import Sequence

INDEX = "i64"
"""The default type of index arithmetic; a Target with 32-bit addresses sets `Module.index_type`."""


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


_COMPARED = {
    "eq": operator.eq, "ne": operator.ne, "slt": operator.lt, "sle": operator.le, "sgt": operator.gt,
    "sge": operator.ge,
}  # fmt: skip

_MANGLED = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}


@functools.cache
def mangle(type_: str) -> str:
    """The suffix of overloaded intrinsics: `v16f32` for <16 x float>."""
    element = element_type(type_)
    name = _MANGLED.get(element, element)
    return f"v{lane_count(type_)}{name}" if type_[0] == "<" else name


class Code:
    """One function being written, without branches and loops. Methods return `Ssa` values; see
    `axla.codegen.function` for how they are placed.
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
        if a.constant is not None and b.constant is not None and predicate in _COMPARED:
            return self.const("i1", _COMPARED[predicate](a.constant, b.constant))
        return self._compare("icmp", predicate, a, b)

    def fcmp(self, predicate: str, a: Ssa, b: Ssa) -> Ssa:
        return self._compare("fcmp", predicate, a, b)

    def _compare(self, opcode: str, predicate: str, a: Ssa, b: Ssa) -> Ssa:
        kind = vector("i1", lane_count(a.type))
        return self.pure(kind, f"{opcode} {predicate} {a.type} {a.text}, {b.text}", (a, b))

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
        return self.pure(type_, text, args) if type_ != "void" and not effect else self._called(type_, text)

    def call_pointer(self, type_: str, pointer: Ssa, args: Sequence[Ssa]) -> Ssa:
        arguments = ", ".join(f"{a.type} {a.text}" for a in args)
        return self._called(type_, f"call {type_} {pointer.text}({arguments})")

    def _called(self, type_: str, text: str) -> Ssa:
        if type_ != "void":
            return self.effect(type_, text)
        self.line(text)
        return Ssa("", "void", None)

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
        if a.type[0] != "<":
            return a
        return self.pure(element_type(a.type), f"extractelement {a.type} {a.text}, i32 {lane}", (a,))

    def insert(self, a: Ssa, b: Ssa, lane: int) -> Ssa:
        if a.type[0] != "<":
            return b
        return self.pure(a.type, f"insertelement {a.type} {a.text}, {b.type} {b.text}, i32 {lane}", (a, b))

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
        return self.read(
            type_, f"load {type_}, ptr {pointer.text}, align {align}", (pointer,), readonly=readonly
        )

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
