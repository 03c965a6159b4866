"""Writes custom calls into the entry function: calls of functions at addresses, and of library routines."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from axla.codegen.function import Ssa
from axla.core.shape import Shape
from axla.cpu.places import ValuePlaces
from axla.custom.plan import NULL, OPERAND, RESULT, CallPlan, LeafAddress, Vectors
from axla.custom.site import AXLA, CHECK, EXTERNAL, FFI, ORIGINAL, PYTHON, STATUS, UNIFIED
from axla.program import abi
from axla.program.steps import CustomCallStep

_NOT_FINITE = -4  # the value of `info` if the routine is not called since the matrix has infinities or NaN


def emit_custom_call(entry: ValuePlaces, step: CustomCallStep) -> None:
    """Writes the code of a custom call. After it, the results are in the slices that `step.results` names."""
    operands, results = (
        [entry.pointer(value.memory) if value is not None else entry.f.null() for value in values]
        for values in (step.operands, step.results)
    )
    for result, operand in step.site.aliases:
        _copy(entry, step, operand, result, operands, results)
        operands[operand] = results[result]
    if step.api == CHECK:
        _check(entry, step.site.config, operands[0])
    elif step.plan is not None:
        _LibraryCall(entry, step, step.plan, operands, results).emit()
    else:
        _native(entry, step, operands, results)


def _check(entry: ValuePlaces, message: str, truth: Ssa) -> None:
    """Writes code that returns from the program with the error `message`, one of the program's own messages,
    if the pred at the address `truth` is false.
    """
    f, number = entry.f, entry.program.interface.messages.index(message)
    with f.if_(f.load("i8", truth, 1).eq(0), likely=False):
        f.params["frame"].set(abi.FRAME, "error_step", 0)
        f.ret(f.const("i32", abi.FIRST_MESSAGE + number))


def _copy(
    entry: ValuePlaces,
    step: CustomCallStep,
    operand: int,
    result: int,
    ins: Sequence[Ssa],
    outs: Sequence[Ssa],
) -> None:
    """Writes a copy of an operand to the memory of a result, unless both have the same memory. `operand` and
    `result` are numbers of leaves, whose addresses are in `ins` and `outs`.
    """
    shape = step.site.result_leaves[result]
    source, target = step.operands[operand], step.results[result]
    if isinstance(shape, Shape) and source and target and source.place != target.place:
        entry.copy_bytes(outs[result], ins[operand], shape.byte_size)


def _native(entry: ValuePlaces, step: CustomCallStep, operands: list[Ssa], results: list[Ssa]) -> None:
    f, site = entry.f, step.site
    if step.api == EXTERNAL:
        f.module.declare(site.target, f"declare void @{site.target}(ptr, ptr)")
        function = f.glob(site.target)
    else:
        function = entry.function(step.function)
    ins = entry.pointers(operands, 1)
    if step.api == FFI:  # the table has a struct, whose first field is the address of the code
        code, outs = f.load("ptr", function, 8), entry.pointers(results, 2)
        _stop_when_failed(
            entry,
            step,
            f.call_pointer("i32", code, f.params["frame"], ins, outs, function, f.const("i64", 0)),
        )
        return
    opaque = site.config.encode("utf-8", "surrogateescape")
    if step.api in (AXLA, PYTHON):
        outs = entry.pointers(results, 2)
        text = f.data(opaque + b"\0")
        code = f.call_pointer(
            "i32", function, f.params["frame"], ins, outs, text, f.const("i64", len(opaque))
        )
        _stop_when_failed(entry, step, code)
        return
    out = entry.pointers(results, 2) if site.result.is_tuple else results[0]
    if step.api in (ORIGINAL, EXTERNAL):
        f.call_pointer("void", function, out, ins)
        return
    status = f.stack("i64", -(-abi.STATUS.size // 8), slot=3)
    for name in ("failed", "length"):
        status.set(abi.STATUS, name, 0)
    if step.api == STATUS:
        f.call_pointer("void", function, out, ins, status)
    else:
        assert step.api == UNIFIED
        f.call_pointer(
            "void", function, out, ins, f.data(opaque + b"\0"), f.const("i64", len(opaque)), status
        )
    with f.if_(status.get(abi.STATUS, "failed").ne(0)):
        report = entry.function(step.report)
        code = f.call_pointer("i32", report, f.params["frame"], status, status, status, f.const("i64", 0))
        _stop_when_failed(entry, step, code)


def _stop_when_failed(entry: ValuePlaces, step: CustomCallStep, code: Ssa) -> None:
    """Writes code that returns from the program with an error code that is not 0, and records the failed
    call.
    """
    f = entry.f
    with f.if_(code.ne(0)):
        f.params["frame"].set(abi.FRAME, "error_step", step.function + 1)
        f.ret(code)


class _LibraryCall:
    """Writes the calls of a LAPACK routine, one for each matrix of a batch."""

    def __init__(
        self,
        entry: ValuePlaces,
        step: CustomCallStep,
        plan: CallPlan,
        operands: list[Ssa],
        results: list[Ssa],
    ) -> None:
        self.entry, self.step, self.plan = entry, step, plan
        self.f = entry.f
        self.bases = {OPERAND: operands, RESULT: results}
        self.float = "float" if plan.symbol[0] in "sc" else "double"
        self.width = 4 if self.float == "float" else 8

    def emit(self) -> None:
        plan, f = self.plan, self.f
        aliased = set(self.step.site.aliases)
        for operand, result in plan.copies:
            if (result, operand) not in aliased:
                _copy(self.entry, self.step, operand, result, self.bases[OPERAND], self.bases[RESULT])
        for result in plan.zeroed:
            size = self.step.site.result_leaves[result].byte_size
            self.entry.clear_bytes(self.bases[RESULT][result], size)
        if not plan.batch:
            return
        assert self.step.scratch is not None
        self.scratch = self.entry.pointer(self.step.scratch)
        for at, data in plan.stores:
            self.store(at, data)
        self.function = self.entry.function(self.step.function)
        if plan.batch == 1:
            self.one(f.index(0))
            return
        with f.loop(0, plan.batch) as loop:
            self.entry.f.poll()
            self.one(loop.index)

    def store(self, at: int, data: bytes) -> None:
        """Writes stores of numbers and letters that the routine reads, at offset `at` of scratch memory."""
        f = self.f
        for k in range(0, len(data), 4):
            word, place = data[k : k + 4], f.gep("i8", self.scratch, f.const("i64", at + k))
            if len(word) == 4:
                f.store(f.const("i32", struct.unpack("<i", word)[0]), place, 4)
            else:
                for n, byte in enumerate(word):
                    f.store(f.const("i8", byte), f.gep("i8", place, f.const("i64", n)), 1)

    def address(self, place: LeafAddress, index: Ssa) -> Ssa:
        """The address of a leaf for matrix number `index`."""
        f = self.f
        if place.base == NULL:
            return f.null()
        base = self.bases[place.base][place.leaf] if place.base in self.bases else self.scratch
        offset = f.add(f.mul(index, place.stride), place.offset)
        return f.gep("i8", base, offset)

    def one(self, index: Ssa) -> None:
        """Writes the call for one matrix."""
        plan, f = self.plan, self.f
        for source, target, size in plan.copied:
            if size:
                self.entry.copy_bytes(self.address(target, index), self.address(source, index), size)
        if plan.finite is None or not plan.finite[1]:
            self.call(index)
            return
        place, count = plan.finite
        assert plan.info is not None
        branch = f.branch(self.all_finite(self.address(place, index), count))
        with branch.then():
            self.call(index)
        with branch.otherwise():
            f.store(f.const("i32", _NOT_FINITE), self.address(plan.info, index), 4)
        branch.merge([])

    def call(self, index: Ssa) -> None:
        self.f.call_pointer("void", self.function, *(self.address(a, index) for a in self.plan.arguments))
        for vectors in self.plan.vectors:
            if self.plan.order:
                self.unpack(vectors, index)

    def all_finite(self, start: Ssa, count: int) -> Ssa:
        """Whether `count` numbers are finite: x - x is zero for finite numbers and NaN for all others."""
        f = self.f
        with f.loop(0, count, carry=[f.const("i1", True)]) as loop:
            value = f.load(self.float, f.gep(self.float, start, loop.index), self.width)
            zero = f.binary("fsub", value, value)
            fine = f.fcmp("oeq", zero, f.const(self.float, 0.0))
            loop.yield_([f.binary("and", loop.carried[0], fine)])
        return loop.results[0]

    def unpack(self, vectors: Vectors, index: Ssa) -> None:
        """Writes the unpacking of the complex eigenvectors of a real matrix, column by column."""
        f, n, real = self.f, self.plan.order, self.float
        packed, values = self.address(vectors.packed, index), self.address(vectors.imaginary, index)
        result = self.address(vectors.result, index)
        zero = f.const(real, 0.0)
        with f.loop(0, n) as column:
            k = column.index
            value = f.load(real, f.gep(real, values, k), self.width)
            first, second = f.fcmp("ogt", value, zero), f.fcmp("olt", value, zero)  # of a conjugate pair
            before = f.smax(f.add(k, -1), 0)
            after = f.smin(f.add(k, 1), n - 1)
            real_column = f.mul(f.select(second, before, k), n)
            other_column = f.mul(f.select(first, after, k), n)
            own_column = f.mul(k, n)
            with f.loop(0, n) as row:
                re = f.load(real, f.gep(real, packed, f.add(real_column, row.index)), self.width)
                im = f.load(real, f.gep(real, packed, f.add(other_column, row.index)), self.width)
                im = f.select(first, im, f.select(second, f.unary("fneg", im), zero))
                place = f.mul(f.add(own_column, row.index), 2)
                f.store(re, f.gep(real, result, place), self.width)
                f.store(im, f.gep(real, result, f.add(place, 1)), self.width)
