"""Programs as text: `print_program`, `parse_program`, and a digest that identifies programs.

    axla-program 1
    program name=axpy target="host/0f3c..."
      interface: interface name=axpy
        parameters:
          value-spec name=a shape=f32[64]{0} bytes=256
      ...
      steps:
        kernel name=sum kernel=k8c... operands=(%a f32[64] in parameter0[0:256]) results=(...)

A value is written as its name, its shape and, if it is in memory, its slice. Computations are HLO text. The
bytes of the constants are not part of the text, which has their offsets and digests. A program that is read
is verified (`axla.program.verify`). Whether plans fit their kernels is checked where the planners are
available (`axla.lowering.loading`).
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from typing import Any, Union

from axla.core.collector import collector_paused
from axla.core.errors import ParseError, VerifyError
from axla.core.literal import digest_of
from axla.core.regex import ascii_regex, regex
from axla.core.shape import Shape
from axla.custom.site import CallSite, TableFunction
from axla.ir.clone import fingerprint
from axla.ir.graph import Computation
from axla.ir.verify import verify
from axla.kernels.kind import Kind
from axla.kernels.kinds import kinds
from axla.kernels.plan import Phase, Plan
from axla.program.codec import Format, TextCodec, TextReader, read_array, read_text, write_text
from axla.program.interface import Alias, Interface, RendezvousKey, Tree, ValueSpec, tree_text
from axla.program.kernels import Kernel
from axla.program.memory import Allocation, AllocationKind, BufferSlice
from axla.program.program import ConstantSpec, Program
from axla.program.steps import ArrayValue, Branch, Carried, Step
from axla.program.verify import verify_program
from axla.text.lexer import BLANK
from axla.text.parser import parse_hlo
from axla.text.printer import print_module
from axla.text.strings import quote

FORMAT = "axla-program"
VERSION = 1

_FIRST = regex(r"([\w-]+) +(\S+)[ \t]*\n")
_RANGE = ascii_regex(BLANK + r"(\w+)\[(\d+):(\d+)\]")
_PLACED = ascii_regex(r"[ ]*+in\b")
_NAME = regex("\x01([^\x01]*)\x01")


def print_program(program: Program) -> str:
    """The text of a program. Equal programs have equal texts."""
    return f"{FORMAT} {VERSION}\n{_codec(kinds()).print(program)}"


def print_kernel(kernel: Kernel) -> str:
    """The text of a kernel as its program's text has it: its computation and its plan."""
    return _codec(kinds()).print(kernel)


def program_digest(program: Program) -> str:
    """A digest (40 hexadecimal digits) of what a program computes, and for which target. Names, metadata and
    the bytes of constants do not count.
    """
    numbers: dict[str, int] = {}
    text = _NAME.sub(
        lambda m: f"%{numbers.setdefault(m[1], len(numbers))}", _codec(kinds(), bare=True).print(program)
    )
    return blake2b(f"{VERSION}{text}".encode(), digest_size=20).hexdigest()


@collector_paused()
def parse_program(text: str, segment: bytes = b"") -> Program:
    """Reads a program from its text and verifies it. `segment`: the bytes of its constants.

    ParseError, with the position, if the text is malformed, or has another format or version. VerifyError if
    the program is inconsistent: a slice is not within its memory, a value is not where it is read...
    """
    first = _FIRST.match(text)
    if first is None or first[1] != FORMAT:
        raise ParseError.at(f"not a program: the first line must be '{FORMAT} {VERSION}'", text, 0)
    if first[2] != str(VERSION):
        raise ParseError.at(
            f"the program has version {first[2][:20]}, but only {VERSION} can be read", text, first.start(2)
        )
    program = _codec(kinds()).parse(Program, text, 1)
    check_segment(program, segment)
    verify_program(program)
    return program


def check_segment(program: Program, segment: bytes) -> None:
    """Raises VerifyError if the bytes of the constants do not belong to the program."""
    wanted = program.interface.constants_bytes
    if len(segment) != wanted:
        raise VerifyError(f"the segment of constants must have {wanted} bytes, found {len(segment)}")
    for constant in program.constants:
        found = digest_of(segment[constant.offset : constant.offset + constant.shape.byte_size])
        if found != constant.digest:
            said = str(constant.digest)[:40]
            raise VerifyError(f"the constant at {constant.offset} has the digest {found}, wanted {said}")


# -- forms ---------------------------------------------------------------------------------------------------


def _write_computation(computation: Computation) -> str:
    module = computation.module
    header = f"HloModule {module.name}, is_scheduled=true\n" if module.schedule is not None else ""
    return header + print_module(module, print_large_constants=True).partition("\n")[2]


def _read_computation(text: str) -> Computation:
    module = parse_hlo(text, exact=True)
    verify(module)
    return module.entry


def _read_slice(reader: TextReader) -> BufferSlice:
    found = reader.take(_RANGE, "a slice of memory")
    allocation = reader.known.get(found[1]) or _SEGMENTS.get(found[1])
    if allocation is None:
        reader.fail(f"there is no memory '{found[1]}'", found.start(1))
    start, end = (reader.as_int64(found[n], found.start(n)) for n in (2, 3))
    return BufferSlice(allocation, start, end - start)


def _write_value(value: ArrayValue) -> str:
    place = f" in {value.place}" if value.place is not None else ""
    return f"%{write_text(value.name)} {_shape(value.shape)}{place}"


def _nameless(value: ArrayValue) -> str:
    return f"\x01{quote(value.name)}\x01 {_shape(value.shape)} {value.place}"


def _shape(shape: Shape) -> str:
    return shape.to_string(layout=shape.logical is not shape)


def _read_value(reader: TextReader) -> ArrayValue:
    reader.expect("%")
    name, shape = read_text(reader), read_array(reader)
    place = _read_slice(reader) if reader.match(_PLACED) is not None else None
    return ArrayValue(name, shape, place)


def _read_tree(reader: TextReader) -> Tree:
    if not reader.peek("("):
        return reader.integer()
    with reader.inside("tuples"):
        return tuple(reader.listed("(", lambda: _read_tree(reader), ")"))


def _remember(reader: TextReader, allocation: Allocation) -> None:
    if reader.known.setdefault(allocation.name, allocation) is not allocation:
        reader.fail(f"there are two allocations {allocation.name}")


_SEGMENTS = {
    "constants": Allocation(AllocationKind.CONSTANTS, 0, 0, writable=False),
    "workspace": Allocation(AllocationKind.WORKSPACE, 0, 0),
}


_LINES = (
    Program, Interface, RendezvousKey, ValueSpec, Alias, TableFunction, Allocation, ConstantSpec, Kernel,
    Phase, Carried, Branch,
    *Step.__args__, Plan, tuple[ArrayValue | None, ...],
)  # fmt: skip
_FORMS: dict[Any, Format] = {
    Computation: Format(_write_computation, _read_computation, block=True),
    BufferSlice: Format(str, _read_slice),
    ArrayValue: Format(_write_value, _read_value),
    "Tree": Format(tree_text, _read_tree),
    "ContentDigest": Format(lambda digest: write_text(str(digest)), read_text),
}
_NAMELESS = {ArrayValue: Format(_nameless, _read_value), Computation: Format(fingerprint, _read_computation)}
_SKIPPED = (
    {(kind, name) for kind in _LINES for name in ("name", "location")}
    - {(Kernel, "name"), (TableFunction, "name")}
    | {(Kernel, name) for name in ("kind", "computation", "plan")}
    | {(ConstantSpec, "digest"), (CallSite, "where")}
)  # fmt: skip


@cache
def _codec(known: tuple[type[Kind], ...], bare: bool = False) -> TextCodec:
    """The codec for programs whose kernels are of the kinds `known`. If `bare`, it writes the text from which
    `program_digest` makes the digest, without names and metadata.
    """
    plans = {Plan: Union[tuple(kind.planned for kind in known if kind.planned is not None)]}  # noqa: UP007
    if bare:
        return TextCodec(_FORMS | _NAMELESS, _LINES, skip=_SKIPPED, known=plans)
    return TextCodec(_FORMS, _LINES, {Allocation: _remember}, known=plans)
