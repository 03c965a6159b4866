"""Parses HLO text to a Module: the header, computations, inline computations."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence

from axla.core.collector import collector_paused
from axla.core.errors import InvalidArgument
from axla.core.regex import ascii_regex, regex
from axla.core.shape import AnyShape, ProgramShape
from axla.hlo.family import show
from axla.ir.graph import Computation, Extra, Instruction, Module
from axla.ir.structure import Parameter
from axla.ir.typed import op_of
from axla.text.header import read_header
from axla.text.instructions import InstructionCursor
from axla.text.lexer import BLANK, NAME
from axla.text.shapes import compatible
from axla.text.short_forms import read_short_form

_ENTRY = ascii_regex(BLANK + r"ENTRY\b")
_COMPUTATION = ascii_regex(BLANK + f"(?:ENTRY{BLANK})?%?{NAME}{BLANK}[({{]")
_INSTRUCTION = ascii_regex(BLANK + f"(?:ROOT{BLANK})?%?{NAME}{BLANK}=")
_ANONYMOUS = regex(r"\.anon(?:\.\d+)?$")
_EXECUTION_THREAD = ascii_regex(BLANK + "," + BLANK + "execution_thread" + BLANK + "=")


def parse_hlo(text: str, *, exact: bool = False, elided: str = "keep", file: str = "") -> Module:
    """Parses HLO text to a module.

    The text may lack the HloModule line, or consist of instructions only, without a computation around them.
    Raises ParseError with the position for malformed text. `exact` is for text that axla printed: a complex
    number with a NaN is then read literally (see literals.py). Elided constants, `{...}`, are parsed and
    printed, but do not run; elided="fill" gives them the numbers that XLA's parser generates, with a warning.
    `file` is used in messages.
    """
    if elided not in ("keep", "fill"):
        raise InvalidArgument(f"parse: elided={elided!r}, wanted 'keep' or 'fill'")
    parser = Parser(text)
    parser.exact, parser.fills, parser.file = exact, elided == "fill", file and f"{file}: "
    with collector_paused():
        try:
            module = parser.parse()
        except RecursionError:
            # The parser bounds nesting, so it was the caller that had nearly filled the stack.
            parser.fail("nested too deeply for what is left of Python's stack")
    if parser.made_up != (0, 0):
        warnings.warn(f"module {module.name}: constants {{...}} hold numbers that were made up", stacklevel=4)
    return module


def looks_like_hlo(text: str) -> bool:
    """Whether a text begins like HLO: with a header, a computation or an instruction."""
    if re.match(BLANK + r"HloModule\b", text):
        return True
    if re.match(BLANK + r"(?:module|func|builtin\.module|#|!)", text):
        return False
    return _COMPUTATION.match(text) is not None or _INSTRUCTION.match(text) is not None


class Parser(InstructionCursor):
    """The parser of a module: it reads the header and the computations."""

    def parse(self) -> Module:
        """Reads a module: with a header, as computations without one, or as instructions only."""
        header = read_header(self)
        if header is not None:
            self.module = Module(header[0], header[1])
        entry: Computation | None = None
        if header is None and _INSTRUCTION.match(self.text, self.pos):
            entry = self._lone_instructions()
        else:
            entry = self._computations()
        self.module.set_entry(entry)
        if header is None:
            self.module.name = f"module_{entry.name}" if entry.name != "_" else "_"
        if self.module.config.is_scheduled:
            self._schedule()
        return self.module

    def _computations(self) -> Computation:
        """Reads all computations; returns the entry, which is marked ENTRY, or else the last one."""
        entry: Computation | None = None
        marked = False
        while not self.at_end():
            at = self.skip()
            is_entry = self.match(_ENTRY) is not None
            if is_entry and marked:
                self.fail("a module has only one ENTRY", at)
            computation = self._named_computation()
            if is_entry or not marked:
                entry = computation
            marked = marked or is_entry
        if entry is None:
            self.fail(f"expected a computation, found {self.saw()}")
        return entry

    def _lone_instructions(self) -> Computation:
        """Reads a text of instructions only. They form the entry; its root is the one marked ROOT, or else
        the last one.
        """
        self.invents_operands = True
        return self._body("_", self.at_end)

    def _named_computation(self) -> Computation:
        at = self.skip()
        name = self.name("the name of a computation")
        if name in self.computations:
            self.fail(f"there is a computation '{name}' already", at)
        shape = self.program_shape() if self.peek("(") else None
        self.expect("{", "to begin the instructions of a computation")
        self.inlined = []
        computation = self._body(name, shape=shape, shape_at=at)
        if self.inlined:
            self._rename([*self.inlined, (computation, name, self.scope)])
        self.computations[name] = computation
        if self.match(_EXECUTION_THREAD):
            computation.set_own_extra(Extra(more=(("execution_thread", self.quoted()),)))
        return computation

    def inline_computation(self) -> Computation:
        """Reads `{ instructions }`, which may stand instead of the name of a computation."""
        target, scope = self.target, self.scope
        with self.inside("inline computations"):
            self.expect("{")
            computation = self._body("_")
        self.inlined.append((computation, "_", self.scope))
        self.target, self.scope = target, scope
        return computation

    def short_form(self, name: str, shape: AnyShape | None, opcode: str, at: int) -> Instruction:
        """Reads an instruction of an asynchronous call in short form, after `call-start(`, and adds it."""
        return read_short_form(self, name, shape, opcode, at)

    def _rename(self, read: Sequence[tuple[Computation, str, dict[str, Instruction]]]) -> None:
        """Makes the names of computations and instructions unique. Of equal names the first one stays; as in
        XLA, computations count in the order in which they end. `read` has each computation with its name and
        its instructions by name.
        """
        instructions = [
            (inst, _ANONYMOUS.sub(".anon", name)) for _, _, scope in read for name, inst in scope.items()
        ]
        self.module.rename(instructions, [(computation, name) for computation, name, _ in read])

    def _body(
        self, name: str, at_end: Callable[[], bool] | None = None,
        shape: ProgramShape | None = None, shape_at: int = 0,
    ) -> Computation:  # fmt: skip
        """Reads the instructions of a computation up to and including the closing brace, or until `at_end()`.
        `shape` is the shape in the computation's header, at position `shape_at` of the text; it must fit the
        root.
        """
        computation = self.module.add_computation(name)
        self.target, self.scope = computation, {}
        root: Instruction | None = None
        last: Instruction | None = None
        begin = self.skip()
        while not (self.accept("}") if at_end is None else at_end()):
            last, is_root = self.instruction()
            if is_root and root is not None:
                self.fail(f"computation {name} has two roots, {root.name} and {last.name}", begin)
            if is_root:
                root = last
            begin = self.skip()
        if last is None:
            self.fail(f"computation {name} has no instructions", begin)
        computation.set_root(root or last)
        self._check_parameters(computation, begin)
        if shape is not None and not compatible(shape.result, computation.root.shape):
            found = show(computation.root.shape)
            message = f"computation {name} returns {show(shape.result)}, but its root is {found}"
            self.fail(message, shape_at)
        return computation

    def _check_parameters(self, computation: Computation, at: int) -> None:
        for number, parameter in enumerate(computation.parameters):
            found = op_of(parameter, Parameter).parameter_number
            if found != number:
                problem = f"two parameters {found}" if found < number else f"no parameter {number}"
                self.fail(f"computation {computation.name} has {problem}", at)

    def _schedule(self) -> None:
        """Sets the schedule of a scheduled module: the order of the text. Fused computations have none."""
        fused = {
            called
            for computation in self.module.computations
            for inst in computation.instructions
            if inst.opcode == "fusion"
            for called in inst.op.computations()
        }
        order = {c: tuple(c.instructions) for c in self.module.computations if c not in fused}
        self.module.set_schedule(order)
