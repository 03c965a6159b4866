"""Writes straight-line code as LLVM text: values, constants, arithmetic, structs and memory."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Sequence

from axla.codegen.module import LlvmModule
from axla.codegen.types import element_type, float_text, lane_count, mangle, vector
from axla.program.abi import Struct


class CodeRegion:
    """Code with one entry: the body of a function or loop, or a side of a branch. `lines` grow until the
    region is closed.
    """

    __slots__ = ("code", "depth", "lines", "label", "known", "open", "arithmetic_floor", "load_floor", "work")

    def __init__(self, code: Code, depth: int, label: str, arithmetic_floor: int, load_floor: int):
        self.code = code
        self.depth = depth
        self.lines: list[str] = []
        self.label = label  # of the basic block being written, for phis
        self.known: dict[str, Ssa] = {}
        self.open = True
        # The outermost depth to which pure code written here may move. Branches keep all their code (it may
        # be slow); loops that may not run at all keep only their loads (the address may not exist).
        self.arithmetic_floor = arithmetic_floor
        self.load_floor = load_floor
        self.work = 0.0  # instructions that inner loops execute, where known; -inf: they poll

    def begin(self, label: str) -> None:
        """Begins the next basic block."""
        self.lines.append(f"{label}:")
        self.label = label

    def jump(self, label: str) -> None:
        """Ends the code with a jump, unless it already ended with a return or another jump."""
        if not self.lines or not self.lines[-1].startswith(("  ret ", "  br ")):
            self.lines.append(f"  br label %{label}")


def _operator(opcode: str) -> Callable[[Ssa, Ssa | int], Ssa]:
    def write(a: Ssa, b: Ssa | int) -> Ssa:
        return a.code.binary(opcode, a, a.same(b))

    return write


def _comparison(predicate: str) -> Callable[[Ssa, Ssa | int], Ssa]:
    def write(a: Ssa, b: Ssa | int) -> Ssa:
        return a.code.icmp(predicate, a, a.same(b))

    return write


class Ssa:
    """An LLVM value: its text (`%12`, `3`, `splat (float 0x..)`), its type, and the region that defines it
    (the whole function for constants, arguments and globals).

    Its operators write integer instructions that wrap; `Code.add` and the like are for operations that cannot
    overflow, and fold constants. Loads and stores through a pointer are aligned to their type.
    """

    __slots__ = ("text", "type", "region", "constant")

    def __init__(self, text: str, type_: str, region: CodeRegion, constant: int | None = None):
        self.text = text
        self.type = type_
        self.region = region
        self.constant = constant  # the value of a scalar integer constant, for folding

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{self.type} {self.text}"

    @property
    def code(self) -> Code:
        """The function that the value belongs to."""
        return self.region.code

    def same(self, value: Ssa | int) -> Ssa:
        """Converts a number to a constant of this value's type; a value is returned as it is."""
        return value if isinstance(value, Ssa) else self.code.const(self.type, value)

    __add__ = _operator("add")
    __sub__ = _operator("sub")
    __mul__ = _operator("mul")
    __and__ = _operator("and")
    __or__ = _operator("or")
    __xor__ = _operator("xor")
    __lshift__ = _operator("shl")
    __rshift__ = _operator("lshr")
    udiv = _operator("udiv")
    eq = _comparison("eq")
    ne = _comparison("ne")
    lt = _comparison("slt")
    le = _comparison("sle")
    gt = _comparison("sgt")
    ge = _comparison("sge")
    ugt = _comparison("ugt")

    def cast(self, type_: str) -> Ssa:
        """Converts the value to another integer type (extending with zeros) or to a pointer."""
        if "ptr" in (type_, self.type):
            opcode = "inttoptr" if type_ == "ptr" else "ptrtoint"
        else:
            opcode = "zext" if int(type_[1:]) > int(self.type[1:]) else "trunc"
        return self.code.cast(opcode, self, type_)

    def at(self, offset: Ssa | int) -> Ssa:
        """The address `offset` bytes after this one."""
        index = self.code.const("i64", offset) if isinstance(offset, int) else offset
        return self.code.gep("i8", self, index, inbounds=False)

    def item(self, index: Ssa | int, size: int = 8) -> Ssa:
        """The address of element `index` of an array at this address; `size` is the number of bytes of an
        element.
        """
        return self.at(index * size)

    def load(self, type_: str, order: str = "") -> Ssa:
        """Loads a value from this address; `order`, a memory ordering of LLVM, makes the load atomic."""
        kind = "atomic " if order else ""
        align = self.code.module.align(type_)
        return self.code.effect(type_, f"load {kind}{type_}, {self!r} {order}, align {align}")

    def store(self, value: Ssa, order: str = "") -> None:
        """Stores a value at this address; `order`, a memory ordering of LLVM, makes the store atomic."""
        kind = "atomic " if order else ""
        align = self.code.module.align(value.type)
        self.code.line(f"store {kind}{value!r}, {self!r} {order}, align {align}")

    def atomic(self, op: str, value: Ssa, order: str = "seq_cst") -> Ssa:
        """Atomically changes the value at this address by `op` (add, sub, and, or, umin, xchg) with `value`;
        returns the old value.
        """
        return self.code.effect(value.type, f"atomicrmw {op} {self!r}, {value!r} {order}")

    def exchange(self, expected: Ssa, value: Ssa) -> Ssa:
        """Compares and swaps: returns true (i1) if the value at this address was `expected` and has been
        replaced.
        """
        kind = f"{{ {value.type}, i1 }}"
        pair = self.code.effect(kind, f"cmpxchg {self!r}, {expected!r}, {value!r} seq_cst seq_cst")
        return self.code.effect("i1", f"extractvalue {pair!r}, 1")

    def field(self, struct: Struct, name: str) -> Ssa:
        """The address of field `name` of the struct at this address."""
        return self.at(struct.offset(name, self.code.module.pointer_bytes))

    def get(self, struct: Struct, name: str, order: str = "") -> Ssa:
        """Loads field `name` of the struct at this address; `order`, a memory ordering of LLVM, makes the
        load atomic.
        """
        return self.field(struct, name).load(struct.fields[struct.index(name)].llvm, order)

    def set(self, struct: Struct, name: str, value: Ssa | int, order: str = "") -> None:
        """Stores to field `name` of the struct at this address; `order`, a memory ordering of LLVM, makes the
        store atomic.
        """
        if isinstance(value, int):
            value = self.code.const(struct.fields[struct.index(name)].llvm, value)
        self.field(struct, name).store(value, order)


_COMPARED = {
    "eq": operator.eq, "ne": operator.ne, "slt": operator.lt, "sle": operator.le, "sgt": operator.gt,
    "sge": operator.ge,
}  # fmt: skip


class Code:
    """Writes a function without branches and loops. Methods that write an instruction return its value;
    `axla.codegen.function` describes where they place it.
    """

    def __init__(
        self, module: LlvmModule, name: str, result: str, params: Sequence[tuple[str, str]], *,
        linkage: str = "", attributes: str = "nounwind",
    ):  # fmt: skip
        self.module = module
        self.name = name
        self.result = result
        self.linkage = linkage
        self.attributes = attributes
        self._signature = ", ".join(f"{t} %{p}" for t, p in params)
        self.polls = False  # whether long loops poll; then it has a frame and returns a code
        self.made = 0  # number of names of values and blocks: a measure of its length
        self._slots: dict[int, tuple[int, Ssa]] = {}
        self._spaces: list[str] = []
        self._top = CodeRegion(self, 0, "entry", 0, 0)
        self._stack = [self._top]
        self.params = {
            p.split()[-1]: self.anywhere(t if t[0] in "<{[" else t.split()[0], f"%{p.split()[-1]}")
            for t, p in params
        }

    # -- placement ---------------------------------------------------------------------------------------

    @property
    def region(self) -> CodeRegion:
        """The innermost open region, where new instructions go."""
        return self._stack[-1]

    def _home(self, operands: Sequence[Ssa], depth: int) -> CodeRegion:
        """The outermost open region, not outside of `depth`, in which `operands` exist."""
        for operand in operands:
            region = operand.region
            if not region.open:
                raise AssertionError(f"{self.name}: {operand!r} is used outside the region that defines it")
            if region.depth > depth:
                depth = region.depth
        return self._stack[depth]

    def fresh(self) -> str:
        """A new name of a value, unique in the function."""
        self.made += 1
        return f"%v{self.made}"

    def pure(self, type_: str, expression: str, operands: Sequence[Ssa]) -> Ssa:
        """Writes `expression`, an instruction without effects whose result has the type `type_`, in the
        outermost region where its `operands` exist, and returns its value. If an equal instruction is
        available, returns the value of that one.
        """
        return self._place(self._home(operands, self._stack[-1].arithmetic_floor), type_, expression)

    def _place(self, home: CodeRegion, type_: str, expression: str) -> Ssa:
        found = home.known.get(expression)
        if found is not None:
            return found
        value = Ssa(self.fresh(), type_, home)
        home.known[expression] = value
        home.lines.append(f"  {value.text} = {expression}")
        return value

    def effect(self, type_: str, expression: str) -> Ssa:
        """Writes `expression`, an instruction that must not be moved, such as a load from memory that
        changes; returns its value.
        """
        region = self._stack[-1]
        value = Ssa(self.fresh(), type_, region)
        region.lines.append(f"  {value.text} = {expression}")
        return value

    def line(self, text: str) -> None:
        """Writes an instruction without a result."""
        self._stack[-1].lines.append("  " + text)

    # -- values ------------------------------------------------------------------------------------------

    def anywhere(self, type_: str, text: str) -> Ssa:
        """A value that is valid everywhere in the function: an argument, a global, a constant."""
        return Ssa(text, type_, self._top)

    def const(self, type_: str, value: int | float | bool) -> Ssa:
        """A constant of a type: for a vector, the value in all lanes; for a pointer, an address."""
        if type_ == "ptr":
            return self.anywhere(type_, f"inttoptr (i64 {value} to ptr)") if value else self.null()
        element = element_type(type_)
        number = int(value) if element[0] == "i" else None
        if number is None:
            text = float_text(element, float(value))
        elif element == "i1":
            text = "true" if number else "false"
        else:
            text = str(number)
        if type_[0] == "<":
            return self.anywhere(type_, f"splat ({element} {text})")
        return Ssa(text, type_, self._top, number)

    def index(self, value: int) -> Ssa:
        """A constant of the module's type of indices."""
        return self.const(self.module.index_type, value)

    def undef(self, type_: str) -> Ssa:
        """The `poison` value of a type, which no code may use."""
        return self.anywhere(type_, "poison")

    def null(self) -> Ssa:
        """The null pointer."""
        return self.anywhere("ptr", "null")

    def zero(self, type_: str) -> Ssa:
        """Zero in all lanes or fields of a type."""
        return self.anywhere(type_, "zeroinitializer") if type_[0] in "<[{" else self.const(type_, 0)

    def glob(self, name: str) -> Ssa:
        """The address of a global or function."""
        return self.anywhere("ptr", f"@{name}")

    def data(self, content: bytes) -> Ssa:
        """The address of constant bytes, aligned to 64; equal bytes are stored once."""
        name = "c" + hashlib.blake2b(content, digest_size=8).hexdigest()
        text = "".join(f"\\{byte:02X}" for byte in content)
        kind = f"private unnamed_addr constant [{len(content)} x i8]"
        self.module.globals.setdefault(name, f'@{name} = {kind} c"{text}", align 64')
        return self.glob(name)

    def zeros(self, size: int) -> Ssa:
        """The address of at least `size` bytes of zeros, aligned to 64, to which nothing writes."""
        size = 1 << max(size - 1, 0).bit_length()
        text = f"@zeros{size} = internal global [{size} x i8] zeroinitializer, align 64"
        self.module.globals.setdefault(f"zeros{size}", text)
        return self.glob(f"zeros{size}")

    def binary(self, opcode: str, a: Ssa, b: Ssa, flags: str = "") -> Ssa:
        """Writes an instruction with two operands of one type; `opcode` and `flags` are LLVM's."""
        return self.pure(
            a.type, f"{opcode}{' ' + flags if flags else ''} {a.type} {a.text}, {b.text}", (a, b)
        )

    def unary(self, opcode: str, a: Ssa) -> Ssa:
        """Writes an instruction with one operand; `opcode` is LLVM's."""
        return self.pure(a.type, f"{opcode} {a.type} {a.text}", (a,))

    def icmp(self, predicate: str, a: Ssa | int, b: Ssa | int) -> Ssa:
        """Compares integers by LLVM's predicate. The comparison of two constants is a constant."""
        a, b = self._both(a, b)
        if a.constant is not None and b.constant is not None and predicate in _COMPARED:
            return self.const("i1", _COMPARED[predicate](a.constant, b.constant))
        return self._compare("icmp", predicate, a, b)

    def fcmp(self, predicate: str, a: Ssa, b: Ssa) -> Ssa:
        """Compares floats by LLVM's predicate."""
        return self._compare("fcmp", predicate, a, b)

    def _compare(self, opcode: str, predicate: str, a: Ssa, b: Ssa) -> Ssa:
        kind = vector("i1", lane_count(a.type))
        return self.pure(kind, f"{opcode} {predicate} {a.type} {a.text}, {b.text}", (a, b))

    def select(self, condition: Ssa, a: Ssa, b: Ssa) -> Ssa:
        """Selects `a` where the condition holds, else `b`; lane by lane if the condition is a mask."""
        if a.text == b.text:
            return a
        if condition.constant is not None:
            return a if condition.constant else b
        text = f"select {condition.type} {condition.text}, {a.type} {a.text}, {b.type} {b.text}"
        return self.pure(a.type, text, (condition, a, b))

    def cast(self, opcode: str, a: Ssa, type_: str) -> Ssa:
        """Converts `a` by LLVM's opcode: trunc, zext, sext, fptrunc, fpext, fptosi, sitofp, bitcast,
        ptrtoint...; returns `a` itself if it already has the type.
        """
        if a.type == type_:
            return a
        return self.pure(type_, f"{opcode} {a.type} {a.text} to {type_}", (a,))

    def call(self, type_: str, name: str, *args: Ssa, effect: bool = False, flags: str = "") -> Ssa:
        """Calls `@name`, and declares it if it is an intrinsic. The call counts as pure unless `effect`; a
        void call needs `effect`.
        """
        if name.startswith("llvm.") and name not in self.module.declared:
            self.module.declare(name, f"declare {type_} @{name}({', '.join(a.type for a in args)})")
        flags = flags + " " if flags else ""
        text = f"call {flags}{type_} @{name}({', '.join(f'{a.type} {a.text}' for a in args)})"
        return self.pure(type_, text, args) if type_ != "void" and not effect else self._called(type_, text)

    def call_pointer(self, type_: str, pointer: Ssa, *args: Ssa) -> Ssa:
        """Calls a function by its address; the call may have side effects."""
        arguments = ", ".join(f"{a.type} {a.text}" for a in args)
        return self._called(type_, f"call {type_} {pointer.text}({arguments})")

    def _called(self, type_: str, text: str) -> Ssa:
        if type_ != "void":
            return self.effect(type_, text)
        self.line(text)
        return self.anywhere("void", "")

    # -- vectors -----------------------------------------------------------------------------------------

    def splat(self, a: Ssa, lanes: int) -> Ssa:
        """Repeats a scalar in every lane; a vector is returned as it is."""
        if lanes == 1 or a.type[0] == "<":
            return a
        type_ = vector(a.type, lanes)
        if a.text[0] not in "%@":
            return self.anywhere(type_, f"splat ({a.type} {a.text})")
        first = self.pure(type_, f"insertelement {type_} poison, {a.type} {a.text}, i32 0", (a,))
        return self.pure(
            type_,
            f"shufflevector {type_} {first.text}, {type_} poison, <{lanes} x i32> zeroinitializer",
            (first,),
        )

    def extract(self, a: Ssa, lane: int) -> Ssa:
        """Lane number `lane` of a vector; a scalar is returned as it is."""
        if a.type[0] != "<":
            return a
        return self.pure(element_type(a.type), f"extractelement {a.type} {a.text}, i32 {lane}", (a,))

    def insert(self, a: Ssa, b: Ssa, lane: int) -> Ssa:
        """Replaces one lane of the vector `a` by `b`; returns `b` if `a` is a scalar."""
        if a.type[0] != "<":
            return b
        return self.pure(a.type, f"insertelement {a.type} {a.text}, {b.type} {b.text}, i32 {lane}", (a, b))

    def shuffle(self, a: Ssa, b: Ssa, lanes: Sequence[int]) -> Ssa:
        """Selects lanes in the given order: numbers 0 to n-1 are those of `a`, n to 2n-1 those of `b`; -1
        leaves a lane unspecified.
        """
        mask = ", ".join("i32 poison" if k < 0 else f"i32 {k}" for k in lanes)
        type_ = vector(element_type(a.type), len(lanes))
        return self.pure(
            type_,
            f"shufflevector {a.type} {a.text}, {b.type} {b.text}, <{len(lanes)} x i32> <{mask}>",
            (a, b),
        )

    def any_lane(self, mask: Ssa) -> Ssa:
        """Whether any lane of a mask is set, as one i1."""
        lanes = lane_count(mask.type)
        if lanes == 1:
            return mask
        if self.module.has_bit_masks:
            return self.icmp("ne", self.cast("bitcast", mask, f"i{lanes}"), 0)
        kind = vector("i8", lanes)
        flags = self.select(mask, self.const(kind, 1), self.zero(kind))
        if lanes <= 8:
            return self.icmp("ne", self.cast("bitcast", flags, f"i{8 * lanes}"), 0)
        words = self.cast("bitcast", flags, vector("i64", lanes // 8))
        found = self.extract(words, 0)
        for word in range(1, lanes // 8):
            found = self.binary("or", found, self.extract(words, word))
        return self.icmp("ne", found, 0)

    def lanes_constant(self, type_: str, values: Sequence[int]) -> Ssa:
        """A vector constant with these integers as its lanes."""
        element = element_type(type_)
        return self.anywhere(type_, "<" + ", ".join(f"{element} {v}" for v in values) + ">")

    # -- index arithmetic on values and numbers; constants are folded --------------------------------------

    def _both(self, a: Ssa | int, b: Ssa | int) -> tuple[Ssa, Ssa]:
        """Returns both operands as values: a number becomes a constant of the type of the other operand; two
        numbers become indices.
        """
        if isinstance(a, int):
            a = b.same(a) if isinstance(b, Ssa) else self.index(a)
        return a, a.same(b)

    def _folded(self, opcode: str, function: Callable[[int, int], int], a: Ssa, b: Ssa) -> Ssa:
        if a.constant is not None and b.constant is not None:
            return self.const(a.type, function(a.constant, b.constant))
        return self.binary(opcode, a, b)

    def add(self, a: Ssa | int, b: Ssa | int) -> Ssa:
        """The sum of two integers, which must not overflow."""
        a, b = self._both(a, b)
        if b.constant == 0:
            return a
        return b if a.constant == 0 else self._folded("add nsw", operator.add, a, b)

    def sub(self, a: Ssa | int, b: Ssa | int) -> Ssa:
        """The difference of two integers, which must not overflow."""
        a, b = self._both(a, b)
        return a if b.constant == 0 else self._folded("sub nsw", operator.sub, a, b)

    def mul(self, a: Ssa | int, b: Ssa | int) -> Ssa:
        """The product of two integers, which must not overflow."""
        a, b = self._both(a, b)
        if 0 in (a.constant, b.constant):
            return self.const(a.type, 0)
        if a.constant == 1:
            return b
        return a if b.constant == 1 else self._folded("mul nsw", operator.mul, a, b)

    def udiv(self, a: Ssa, divisor: int) -> Ssa:
        """Computes a // divisor for a >= 0."""
        return a if divisor == 1 else self._folded("udiv", operator.floordiv, a, a.same(divisor))

    def urem(self, a: Ssa, divisor: int) -> Ssa:
        """Computes a % divisor for a >= 0."""
        return a.same(0) if divisor == 1 else self._folded("urem", operator.mod, a, a.same(divisor))

    def smin(self, a: Ssa | int, b: Ssa | int) -> Ssa:
        """The smaller of two signed integers."""
        return self._extreme("smin", min, *self._both(a, b))

    def smax(self, a: Ssa | int, b: Ssa | int) -> Ssa:
        """The larger of two signed integers."""
        return self._extreme("smax", max, *self._both(a, b))

    def _extreme(self, name: str, function: Callable[[int, int], int], a: Ssa, b: Ssa) -> Ssa:
        if a.constant is not None and b.constant is not None:
            return self.const(a.type, function(a.constant, b.constant))
        return self.call(a.type, f"llvm.{name}.{mangle(a.type)}", a, b)

    # -- memory ------------------------------------------------------------------------------------------

    def gep(self, element: str, pointer: Ssa, index: Ssa | int, *, inbounds: bool = True) -> Ssa:
        """The address of element `index` of an array of `element` at `pointer`; without `inbounds` it may be
        outside the array.
        """
        if isinstance(index, int):
            index = self.index(index)
        if index.constant == 0:
            return pointer
        kind = "getelementptr inbounds" if inbounds else "getelementptr"
        text = f"{kind} {element}, ptr {pointer.text}, {index.type} {index.text}"
        return self.pure(
            "ptr" if index.type[0] != "<" else vector("ptr", lane_count(index.type)), text, (pointer, index)
        )

    def load(
        self, type_: str, pointer: Ssa, align: int, *, readonly: bool = False, exists: bool = False
    ) -> Ssa:
        """Loads from memory. `readonly`: nothing writes to the memory while this function runs, so the load
        may be hoisted and done once. It is hoisted out of a loop that may not run only if the memory `exists`
        in any case.
        """
        if type_ == "ptr":
            align = min(align, self.module.pointer_bytes)
        return self.read(
            type_, f"load {type_}, ptr {pointer.text}, align {align}", (pointer,), readonly, exists
        )

    def read(
        self,
        type_: str,
        expression: str,
        operands: Sequence[Ssa],
        readonly: bool = False,
        exists: bool = False,
    ) -> Ssa:
        """Writes an instruction that reads memory, placed like a `load`; returns its value."""
        if not readonly:
            return self.effect(type_, expression)
        region = self._stack[-1]
        floor = region.arithmetic_floor if exists else region.load_floor
        return self._place(self._home(operands, floor), type_, expression)

    def stack(self, type_: str, count: int, *, slot: int = 0) -> Ssa:
        """The address of `count` elements on the stack, aligned to 8 bytes. All calls with one slot number
        share the memory.
        """
        used, address = self._slots.get(slot, (0, self.anywhere("ptr", f"%stack{slot}")))
        size = count * (8 if type_ in ("ptr", "i64", "double") else 16)
        self._slots[slot] = (max(used, size, 1), address)
        return address

    def space(self, type_: str, align: int = 8) -> Ssa:
        """Reserves stack memory for a value of a type, aligned to `align` bytes; returns its address."""
        address = self.anywhere("ptr", self.fresh())
        self._spaces.append(f"  {address} = alloca {type_}, align {align}\n")
        return address

    def slot(self, value: Ssa) -> Ssa:
        """Makes a stack variable with an initial value; returns its address."""
        address = self.space(value.type)
        address.store(value)
        return address

    def store(self, value: Ssa, pointer: Ssa, align: int, *, nontemporal: bool = False) -> None:
        """Stores a value at an address that is aligned to `align` bytes; `nontemporal` bypasses the
        caches.
        """
        hint = ", !nontemporal !0" if nontemporal else ""
        if value.type == "ptr":
            align = min(align, self.module.pointer_bytes)
        self.line(f"store {value.type} {value.text}, ptr {pointer.text}, align {align}{hint}")
