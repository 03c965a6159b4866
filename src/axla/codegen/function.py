"""Writes LLVM IR as text: one function at a time, structured, with instructions hoisted and numbered as they
are written.

Code is a tree of regions: the function body, loop bodies, branches. A *pure* instruction goes into the
outermost open region where all its operands exist (loop-invariant code is hoisted at once), and a pure
instruction that is already in an open region is not written again. This replaces the LLVM passes that axla
does not run.

    f = LlvmFunction(module, "kernel", "i32", [("ptr", "frame"), ("ptr", "args")])
    with f.loop(0, 128, 16) as i:
        f.store(f.binary("fadd", x, f.load("<16 x float>", f.gep("float", p, i.index))), q)
    f.ret(f.const("i32", 0))
    text = module.text()
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from axla.codegen.module import LlvmModule
from axla.codegen.straight import Code, CodeRegion, Ssa
from axla.program import abi

__all__ = ["ForLoop", "GuardedLoop", "IfElse", "LlvmFunction", "LlvmModule", "Ssa", "WhileLoop"]

UNPOLLED_WORK = 1 << 22
"""The largest number of LLVM instructions that a loop may execute (some milliseconds) before it checks
whether the run is cancelled.
"""
UNPOLLED_INDICES = 1 << 16
"""The largest distance that the index of a loop may advance before the loop checks for cancellation. With it,
a 32-bit index that passes the end of an array does not overflow.
"""


class Carrying:
    """A loop being written that carries values from one iteration to the next. `carried` has their values in
    the current iteration; `results` has those after the loop, once it is closed.
    """

    __slots__ = ("carried", "next", "results")

    def __init__(self, carried: list[Ssa]):
        self.carried = carried
        self.next: list[Ssa] = []
        self.results: list[Ssa] = []

    def yield_(self, values: Sequence[Ssa]) -> None:
        """Sets the carried values for the next iteration."""
        self.next = list(values)


class ForLoop(Carrying):
    """A counted loop being written; `index` is its index."""

    __slots__ = ("index", "step")

    def __init__(self, index: Ssa, carried: list[Ssa]):
        super().__init__(carried)
        self.index = index
        self.step = ""

    def again(self) -> None:
        """Writes a jump to the next iteration. The loop must not carry values."""
        self.step = f"step{self.index.text[2:]}"
        self.index.code.line(f"br label %{self.step}")


class LlvmFunction(Code):
    """One function being written: straight-line code, loops and branches."""

    def _push(self, label: str, *, branch: bool = False, may_not_run: bool = False) -> CodeRegion:
        parent, depth = self._stack[-1], len(self._stack)
        arithmetic_floor = depth if branch else parent.arithmetic_floor
        load_floor = depth if branch or may_not_run else parent.load_floor
        region = CodeRegion(self, depth, label, arithmetic_floor, load_floor)
        self._stack.append(region)
        return region

    def _pop(self) -> CodeRegion:
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
    ) -> Iterator[ForLoop]:
        """Writes `for index in range(start, stop, step)`. Yields a `ForLoop`; the `with` block writes the
        body. `carry` has the first values of the carried values; the block calls `loop.yield_` with those of
        the next iteration.

        `nonempty` promises at least one iteration: the loop has no guard, and loads may be hoisted out of it.
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
        loop = ForLoop(index, carried)
        yield loop
        if loop.step:
            body.jump(loop.step)
            body.begin(loop.step)
        following = self._opaque(self.effect(begin.type, f"add nsw {begin.type} {index.text}, {step}"))
        if len(loop.next) != len(carried):
            raise AssertionError(f"{self.name}: loop carries {len(carried)} values, yields {len(loop.next)}")
        once = body.work + len(body.lines)
        body.work = once * (-(-(end.constant - begin.constant) // step) if known else 1)  # type: ignore[operator]
        self._pop()
        if not self.polls or body.work <= UNPOLLED_WORK:
            self._close(loop, body, following, labels, (begin, end, carry), nonempty)
            return
        chunk = step * max(1, int(min(UNPOLLED_WORK // once, UNPOLLED_INDICES // step)))
        with self.loop(begin, end, chunk, carry) as rounds:
            limit = self.add(rounds.index, self.smin(self.sub(end, rounds.index), chunk))
            self._close(loop, body, following, labels, (rounds.index, limit, rounds.carried), True)
            self.poll()
            rounds.yield_(loop.results)
        loop.results = rounds.results

    def _close(self, loop: ForLoop, body: CodeRegion, following: Ssa, labels, span, nonempty: bool) -> None:
        """Writes the code of a closed loop into the current region: a guard unless `nonempty`, the body, and
        a test at its end. `following` is the next index, `labels` are those of the body and the exit, and
        `span` is (start, stop, first carried values).
        """
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
        parent.begin(done)
        self._results(loop, carry, "" if nonempty else entry, latch)

    def _results(self, loop: Carrying, carry: Sequence[Ssa], entry: str, latch: str) -> None:
        """Writes a phi for each carried value after a loop and appends it to `loop.results`. Its sources are
        the loop's last block, `latch`, and block `entry` if the loop may be skipped from there ("": it may
        not).
        """
        parent = self.region
        for first, later in zip(carry, loop.next, strict=True):
            skipped = f"[ {first.text}, %{entry} ], " if entry else ""
            result = Ssa(self.fresh(), later.type, parent)
            parent.lines.append(f"  {result.text} = phi {later.type} {skipped}[ {later.text}, %{latch} ]")
            loop.results.append(result)

    def _phis(self, entry: str, latch: str, *values: Sequence[Ssa]) -> None:
        """Writes the phis of a loop's carried values. `values` are three sequences: the registers of the
        phis, the first values, and the values of the next iteration.
        """
        for value, first, later in zip(*values, strict=True):
            sources = f"[ {first.text}, %{entry} ], [ {later.text}, %{latch} ]"
            self.region.lines.append(f"  {value.text} = phi {value.type} {sources}")

    def _opaque(self, value: Ssa) -> Ssa:
        """Returns `value` unchanged, but hidden from LLVM's analyses. It costs no instruction.

        A loop index hidden in this way is not an induction variable for loop strength reduction. That pass
        takes a third of LLVM's time and does not make these loops faster: invariant code is hoisted already,
        and addresses fold into loads and stores.
        """
        zero = self.const(value.type, 0)
        return self.call(value.type, f"llvm.expect.{value.type}", value, zero, effect=True)

    @contextlib.contextmanager
    def while_loop(self, carry: Sequence[Ssa] = ()) -> Iterator[WhileLoop]:
        """Writes a loop that ends by a call of its `test` or `leave`. `carry` has the first values of the
        carried values. The `with` block computes the condition, calls `test(condition)`, writes the body, and
        calls `yield_`. A loop without carried values needs none of these calls.
        """
        head, body_label, done = self._labels("while", "body", "end")
        parent = self.region
        region = self._push(head, may_not_run=True)
        carried = [Ssa(self.fresh(), value.type, region) for value in carry]
        loop = WhileLoop(self, carried, head, body_label, done)
        yield loop
        self._pop()
        out = parent.lines
        entry, latch = parent.label, region.label
        out.append(f"  br label %{head}")
        out.append(f"{head}:")
        self._phis(entry, latch, carried, carry, loop.next)
        region.jump(head)
        out.extend(region.lines)
        parent.begin(done)
        # The header dominates the exit and is its only predecessor: its phis are the results.
        loop.results = [Ssa(value.text, value.type, parent) for value in carried]

    @contextlib.contextmanager
    def guarded_loop(self, carry: Sequence[Ssa], first: Ssa) -> Iterator[GuardedLoop]:
        """Writes a loop with its test at the end, which has one jump less per iteration than `while_loop`.
        `carry` has the first values of the carried values; `first` is the condition for the first iteration.
        The `with` block writes the body, then calls `yield_`, then `test(condition)`.
        """
        head, done = self._labels("loop", "end")
        parent = self.region
        region = self._push(head, may_not_run=True)
        loop = GuardedLoop([Ssa(self.fresh(), value.type, region) for value in carry])
        yield loop
        self._pop()
        out = parent.lines
        entry, latch = parent.label, region.label
        out.append(f"  br i1 {first.text}, label %{head}, label %{done}")
        out.append(f"{head}:")
        self._phis(entry, latch, loop.carried, carry, loop.next)
        out.extend(region.lines)
        out.append(f"  br i1 {loop.again}, label %{head}, label %{done}")
        parent.begin(done)
        self._results(loop, carry, entry, latch)

    def branch(self, condition: Ssa, likely: bool | None = None) -> IfElse:
        """Begins a branch on `condition`. The caller writes its sides in `with b.then(): ...` and `with
        b.otherwise(): ...`, then calls `b.merge(pairs)`. `likely` is a hint for branch prediction; None: no
        hint.
        """
        return IfElse(self, condition, likely)

    @contextlib.contextmanager
    def if_(self, condition: Ssa, likely: bool | None = None) -> Iterator[None]:
        """Runs the code that the `with` block writes only if `condition` holds. The block has no results.
        `likely` is a hint for branch prediction; None: no hint.
        """
        branch = self.branch(condition, likely)
        with branch.then():
            yield
        branch.merge([])

    def guard(self, condition: Ssa, value: Ssa | None = None) -> None:
        """Writes an early return: the function returns `value` (None: void) if `condition` holds."""
        stop, go = self._labels("stop", "go")
        region = self.region
        region.lines.append(f"  br i1 {condition.text}, label %{stop}, label %{go}")
        region.lines.append(f"{stop}:")
        self._ret(value)
        region.begin(go)

    def frame_field(self, name: str, type_: str = "ptr") -> Ssa:
        """Loads field `name` of the call frame, whose address is the parameter `frame`."""
        offset = self.const("i64", abi.FRAME.offset(name, self.module.pointer_bytes))
        address = self.gep("i8", self.params["frame"], offset)
        return self.load(type_, address, 8 if type_ == "ptr" else 4, readonly=True, exists=True)

    def poll(self) -> None:
        """Writes a check that returns an error code from the function if the run is cancelled. In code that
        runs in this process, it also returns one if a signal handler raises.
        """
        if not self.polls:
            return
        frame, type_ = self.params["frame"], "i64" if self.module.in_process else "i32"
        flags = self.effect(type_, f"load volatile {type_}, ptr {self.frame_field('cancel')}, align 4")
        stop = self.icmp("ne", flags, self.const(type_, 0))
        if self.module.in_process:
            with self.if_(stop, likely=False):
                ranges = self.null(), self.null(), self.const(type_, 0), self.const(type_, 1)
                code = self.call_pointer("i32", self.frame_field("parallel_for"), frame, *ranges)
                self.guard(self.icmp("ne", code, self.const("i32", 0)), code)
        else:
            self.guard(stop, flags)
        self.region.work = float("-inf")

    def ret(self, value: Ssa | None = None) -> None:
        """Writes a return of `value` (None: void). Outside of branches and loops this ends the function, and
        adds its text to the module.
        """
        self._ret(value)
        if len(self._stack) == 1:
            self._finish()

    def _ret(self, value: Ssa | None) -> None:
        self.line("ret void" if value is None else f"ret {value!r}")

    def _finish(self) -> None:
        group = self.module.attribute_group(self.attributes)
        linkage = self.linkage + " " if self.linkage else ""
        head = f"define {linkage}{self.result} @{self.name}({self._signature}) #{group} {{\nentry:\n"
        head += "".join(f"  {a.text} = alloca [{size} x i8], align 8\n" for size, a in self._slots.values())
        head += "".join(self._spaces)
        self.module.functions[self.name] = head + "\n".join(self._top.lines) + "\n}"


class GuardedLoop(Carrying):
    """A loop being written by `guarded_loop`."""

    __slots__ = ("again",)

    def test(self, condition: Ssa) -> None:
        """Sets the condition under which the loop continues."""
        self.again = condition.text


class WhileLoop(Carrying):
    """A loop being written by `while_loop`."""

    __slots__ = ("_function", "_head", "_body", "_done", "_tested")

    def __init__(self, function: LlvmFunction, carried: list[Ssa], head: str, body: str, done: str):
        super().__init__(carried)
        self._function, self._tested = function, False
        self._head, self._body, self._done = head, body, done

    def test(self, condition: Ssa) -> None:
        """Writes the test of the loop, which ends when `condition` is false."""
        region = self._function.region
        region.lines.append(f"  br i1 {condition.text}, label %{self._body}, label %{self._done}")
        region.begin(self._body)
        self._tested = True

    def yield_(self, values: Sequence[Ssa]) -> None:
        """Sets the carried values for the next iteration; `test` must have been called."""
        if not self._tested:
            raise AssertionError("while_loop: yield_() was called before test()")
        super().yield_(values)

    def again(self) -> None:
        """Writes a jump to the next iteration. The loop must not carry values."""
        self._function.line(f"br label %{self._head}")

    def leave(self) -> None:
        """Writes a jump out of the loop. The loop must not carry values."""
        self._function.line(f"br label %{self._done}")


_WEIGHTS = {None: "", True: ", !prof !{!\"branch_weights\", i32 1000, i32 1}",
            False: ", !prof !{!\"branch_weights\", i32 1, i32 1000}"}  # fmt: skip


class IfElse:
    """A branch with two sides: one for a condition that holds, one for a condition that does not. A side that
    is not written is empty. `likely` is a hint for branch prediction.
    """

    def __init__(self, function: LlvmFunction, condition: Ssa, likely: bool | None = None):
        self._function = function
        self._condition = condition
        self._weights = _WEIGHTS[likely]
        self._sides: list[CodeRegion | None] = [None, None]
        self._labels = function._labels("then", "else", "join")

    @contextlib.contextmanager
    def _side(self, number: int) -> Iterator[None]:
        f = self._function
        f._push(self._labels[number], branch=True)
        yield
        self._sides[number] = f._pop()

    def then(self) -> contextlib.AbstractContextManager[None]:
        """Opens the side for a condition that holds; the `with` block writes its code."""
        return self._side(0)

    def otherwise(self) -> contextlib.AbstractContextManager[None]:
        """Opens the side for a condition that does not hold; the `with` block writes its code."""
        return self._side(1)

    def merge(self, pairs: Sequence[tuple[Ssa, Ssa]]) -> list[Ssa]:
        """Joins the sides. Each pair is (value if the condition holds, value if not); returns one merged
        value per pair.
        """
        f = self._function
        parent = f.region
        join = self._labels[2]
        sides = zip(self._labels, self._sides, strict=False)
        targets = [label if side is not None else join for label, side in sides]
        out = parent.lines
        out.append(f"  br {self._condition!r}, label %{targets[0]}, label %{targets[1]}{self._weights}")
        sources = []
        for label, side in zip(self._labels[:2], self._sides, strict=True):
            if side is None:
                sources.append(parent.label)
                continue
            out.append(f"{label}:")
            side.jump(join)
            out.extend(side.lines)
            sources.append(side.label)
        parent.begin(join)
        results = []
        for a, b in pairs:
            result = Ssa(f.fresh(), a.type, parent)
            out.append(
                f"  {result.text} = phi {a.type} [ {a.text}, %{sources[0]} ], [ {b.text}, %{sources[1]} ]"
            )
            results.append(result)
        return results
