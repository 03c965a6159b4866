"""Mutates texts of compiled programs and runs each in a child process, for scripts/fuzz_program.

While a program runs, each parameter, each result, its constants and its workspace lie between protected
pages; read-only memory is write-protected. The code for this machine and the code for one lane each run with
different bytes in the workspace and the results beforehand.
"""

from __future__ import annotations

import contextlib
import ctypes as c
import mmap
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import fuzz_text_cases as texts
import numpy as np
from fuzz_text_cases import COMPILED, DIFFERS, ERROR, RESULT, Case, Mutation, put, some

PAGE = mmap.PAGESIZE
LARGEST = 256 << 20  # programs that need more bytes of memory are not run


# Texts.


def program_texts(sources: Sequence[Case], most: int) -> list[Case]:
    """The programs of the sources that give the same bits for this machine and for one lane."""
    found = []
    for case in dict.fromkeys(sources):
        with contextlib.suppress(Exception):
            made = program_text(case)
            kind, _ = attempt(made, "", "", lambda: None)
            if kind == RESULT:
                found.append(made)
        if len(found) == most:
            break
    return found


def program_text(case: Case) -> Case:
    import axla
    from axla.codegen.host import host_target
    from axla.lowering.donation import row_major_boundary
    from axla.lowering.pipeline import compile_program, constants_segment
    from axla.program.text import print_program

    module = axla.parse(case.text)
    row_major_boundary(module)
    constants: dict[Any, int] = {}
    program = compile_program(module, host_target(), constants)
    segment = constants_segment(constants)
    return replace(case, text=print_program(program).encode(), options={"segment": segment})


SLICE = rb"\b(?:parameter\d+|result\d+|workspace|constants)\[\d+:\d+\]"
VALUE = rb"%[\w.\-]+ \w+\[[\d,]*\](?: in \S+\])?"


def swap(pattern: bytes) -> Mutation:
    """Returns a mutation that replaces one match of a pattern by the text of another match."""

    def mutation(text: bytearray, rng: random.Random) -> None:
        at, other = some(pattern, text, rng), some(pattern, text, rng)
        if at is not None and other is not None:
            put(text, at, 0, other[0])

    return mutation


def move_slice(text: bytearray, rng: random.Random) -> None:
    """Moves a slice of memory, keeping its size, in one place or everywhere."""
    found = some(rb"(workspace|parameter\d+|result\d+)\[(\d+):(\d+)\]", text, rng)
    if found is None:
        return
    by = rng.choice((64, -64, 4, -4, 256, -256, 1, int(found[3]) - int(found[2])))
    new = b"%s[%d:%d]" % (found[1], int(found[2]) + by, int(found[3]) + by)
    if rng.random() < 0.5:
        text[:] = bytes(text).replace(found[0], new)
    else:
        put(text, found, 0, new)


def move_step(text: bytearray, rng: random.Random) -> None:
    """Removes, doubles or moves a step of one line."""
    steps = rb"^ +(?:kernel name=\S+ kernel|copy|store) .*\n"
    found, other = some(steps, text, rng), some(steps, text, rng)
    if found is None or other is None:
        return
    line, way = found[0], rng.choice(("drop", "double", "move"))
    text[other.start() : other.start()] = line if way != "drop" else b""
    if way != "double":
        text[:] = bytes(text).replace(line, b"", 1)


OPS = (b"add", b"subtract", b"multiply", b"divide", b"maximum", b"minimum", b"power", b"atan2"), (
    b"negate", b"abs", b"sine", b"exponential", b"tanh", b"floor", b"sign", b"copy",
)  # fmt: skip


def change_op(text: bytearray, rng: random.Random) -> None:
    """Replaces an op by another one, a constant by another number, or the numbers of an attribute."""
    way = rng.choice(("binary", "binary", "unary", "constant", "list"))
    if way in ("binary", "unary"):
        ops = OPS[way == "unary"]
        found = some(rb" (%s)\(" % b"|".join(ops), text, rng)
        new = rng.choice(ops)
    else:
        found = some(rb" constant\((-?\d+)\)" if way == "constant" else rb"=\{(\d+)(?:,\d+)*\}", text, rng)
        new = b"%d" % rng.choice((0, 1, 2, 3, 5, 100, -1))
    if found is not None:
        put(text, found, 1, new)


def planned(mutation: Mutation) -> Mutation:
    """Returns a mutation that also gives kernels the names and plans that their changed computations
    require.
    """

    def both(text: bytearray, rng: random.Random) -> None:
        from axla.codegen.host import host_target
        from axla.kernels.kinds import kinds
        from axla.lowering.lower import kernel_name
        from axla.program.kernels import plan_kernel
        from axla.program.program import Program
        from axla.program.text import FORMAT, VERSION, _codec

        mutation(text, rng)
        with contextlib.suppress(Exception):  # a text that cannot be read is not changed further
            codec = _codec(kinds())
            program = codec.parse(Program, text.decode(), 1)
            names = {k.name: kernel_name(k.computation, k.in_place) for k in program.kernels}
            kernels = [
                plan_kernel(names[k.name], k.computation, k.in_place, host_target()) for k in program.kernels
            ]
            made = f"{FORMAT} {VERSION}\n{codec.print(replace(program, kernels=tuple(kernels)))}"
            for old, new in names.items():
                made = made.replace(f"kernel={old}", f"kernel={new}")
            text[:] = made.encode()

    return both


MUTATIONS: tuple[Mutation, ...] = (
    planned(change_op), planned(change_op), planned(change_op), planned(change_op), planned(swap(VALUE)),
    planned(texts.change_types), planned(texts.change_sizes), change_op, change_op,
    texts.flip_bytes, texts.change_lines, texts.change_numbers, texts.change_sizes, texts.change_types,
    swap(SLICE), swap(VALUE), swap(rb"kernel=\w+"), swap(rb"[a-z_]+=[^ \n(]+"), move_slice, move_step,
    swap(rb"(?<== )(\S+ [a-z-]+)(?=\()"), texts.change_arity,
)  # fmt: skip


# Memory between protected pages.


class Guarded:
    """`size` bytes at an address that is a multiple of `alignment`, right before a protected page."""

    def __init__(self, size: int, alignment: int, fill: bytes | int, *, writable: bool = True) -> None:
        pages = -(-size // PAGE) + 1
        self.memory = mmap.mmap(-1, (pages + 2) * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.anchor = c.c_char.from_buffer(self.memory)
        base = c.addressof(self.anchor)
        at = ((pages + 1) * PAGE - size) // alignment * alignment
        self.address, self.size = base + at, size
        self.memory[at : at + size] = bytes([fill]) * size if isinstance(fill, int) else fill
        protect = c.CDLL(None).mprotect
        protect.argtypes = [c.c_void_p, c.c_size_t, c.c_int]
        protect(base, PAGE, 0)
        protect(base + (pages + 1) * PAGE, PAGE, 0)
        if not writable:
            protect(base + PAGE, pages * PAGE, mmap.PROT_READ)

    def read(self) -> bytes:
        return c.string_at(self.address, self.size)


def run(packed: Any, inputs: Sequence[bytes], fill: int) -> list[bytes]:
    """Runs a program that has no functions; returns the bytes of its results. `inputs` has the bytes of its
    parameters.
    """
    from axla.core.errors import DeadlineExceeded
    from axla.tools.ranges import call as run_program

    interface = packed.interface.of_code()
    becomes = {alias.parameter: alias.result for alias in interface.aliases}
    arguments = [
        Guarded(spec.bytes, spec.shape.dtype.real.itemsize, data, writable=n in becomes)
        for n, (spec, data) in enumerate(zip(interface.parameters, inputs, strict=True))
    ]
    places = {result: arguments[parameter] for parameter, result in becomes.items()}
    results = [
        places.get(n) or Guarded(spec.bytes, spec.shape.dtype.real.itemsize, fill)
        for n, spec in enumerate(interface.results)
    ]
    constants = Guarded(len(packed.constants), 64, packed.constants, writable=False)
    workspace = Guarded(interface.workspace_bytes, 64, fill)

    def ranges(call: Callable[[int, int], int], count: int, grain: int) -> int:
        for begin in range(0, count, grain):
            if code := call(begin, min(begin + grain, count)):
                return code
        return 0

    addresses = ([memory.address for memory in row] for row in (arguments, results))
    rest = constants.address, workspace.address
    try:
        run_program(packed, *addresses, *rest, ranges, texts.DEADLINE)
    except DeadlineExceeded:
        raise TimeoutError from None
    return [result.read() for result in results]


def attempt(case: Case, backend: str, reference: str, compiled: Callable[[], None]) -> tuple[str, str]:
    """Reads the text of a case, and compiles and runs it for the host and for one-lane, which must give the
    same bits. `compiled` is called when both are compiled. Returns (kind of outcome, detail).
    """
    from axla.codegen.host import host_target, one_lane_target
    from axla.cpu.compiler import compile_text

    text, segment = case.text.decode(errors="replace"), case.options["segment"]
    made = [compile_text(text, segment, target) for target in (host_target(), one_lane_target())]
    compiled()
    interface = made[0].interface
    code = interface.of_code()
    size = sum(spec.bytes for spec in (*code.parameters, *code.results)) + made[1].interface.workspace_bytes
    if size > LARGEST or interface.functions:
        return COMPILED, f"{size} bytes, {len(interface.functions)} functions"
    inputs = [_input(spec.shape, n) for n, spec in enumerate(code.parameters)]
    try:
        found = [run(one, inputs, fill) for one, fill in zip(made, (0xA5, 0x3C), strict=True)]
    except TimeoutError:
        return ERROR, "DeadlineExceeded"
    return (RESULT, "") if found[0] == found[1] else (DIFFERS, "cpu and one-lane differ")


def _input(shape: Any, number: int) -> bytes:
    """The bytes of small numbers that all types represent exactly."""
    values = np.random.default_rng(number).integers(0, 2 if shape.dtype.is_pred else 4, shape.size)
    return values.astype(shape.dtype.numpy).tobytes()


def mutated(sources: Sequence[Case], count: int, seed: int) -> Iterator[Case]:
    return texts.mutated(sources, count, seed, MUTATIONS)
