"""Mutates programs and runs each in a child process with limits, for scripts/fuzz_text and
scripts/fuzz_stablehlo.

A case must end with a result, an AxlaError or a DeadlineExceeded. A child that crashes or hangs is a failure,
and so is an exception of another class. An InternalError is a bug too, but is counted separately, since the
caller can handle it.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import selectors
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from conformance_lib.corpora import corpus

ROOT = Path(__file__).resolve().parents[1]
ADDRESS_SPACE = 4 << 30
COMPILE_SECONDS = 20.0
DEADLINE = 5.0
GRACE = 10.0  # seconds after its deadline in which a run must end, even on a busy machine
INPUT_BYTES = 64 << 20  # programs with more bytes of parameters are compiled only

# The outcomes of a case.
RESULT, ERROR, PARSED, COMPILED, INTERNAL, BARE, CRASH, HANG, DIFFERS = (
    "result", "error", "parsed", "compiled", "internal", "bare", "crash", "hang", "differs",
)  # fmt: skip
FAILURES = (BARE, CRASH, HANG, DIFFERS)
KINDS = (RESULT, ERROR, PARSED, COMPILED, INTERNAL, BARE, DIFFERS)  # the outcomes that a child reports


@dataclass(frozen=True, slots=True)
class Case:
    """A program to try. `options` are arguments of axla.parse. Without `runs` it is only parsed and
    verified.
    """

    name: str
    text: bytes
    runs: bool = True
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    case: Case
    kind: str
    detail: str
    seconds: float

    @property
    def signature(self) -> str:
        """A text that is equal for failures with probably the same cause: numbers and names are left out."""
        last = self.detail.strip().splitlines()[-1] if self.detail.strip() else ""
        return f"{self.kind} {re.sub(r'%?[-a-z_.A-Z0-9]*[0-9][-a-z_.A-Z0-9]*', '#', last)[:90]}"


# Texts.


def repository_texts() -> list[Case]:
    """The programs of tests/hlo, section by section, without those that must be rejected."""
    found = []
    for path in sorted((ROOT / "tests" / "hlo").rglob("*.hlo")):
        for number, part in enumerate(re.split(r"^// -----.*$", path.read_text(), flags=re.M)):
            code = "\n".join(line for line in part.splitlines() if not line.lstrip().startswith("//"))
            if re.search(r"\bparameter\(|\bconstant\(", code) and "// error:" not in code:
                found.append(Case(f"{path.stem}.{number}", code.encode()))
    return found


def source_texts() -> list[Case]:
    """The texts of the conformance corpus or, if that is missing, those of the repository."""
    root = corpus("hlo-open")
    if root is None:
        return repository_texts()
    found = []
    # Many texts of the second folder use ops of other hardware. So the first folder counts double, and enough
    # programs run.
    for folder, times in (("exec", 2), ("parse", 1)):
        for path in sorted((root / folder).glob("*.hlo")):
            if path.stat().st_size < 20_000:
                found += [Case(path.stem, path.read_bytes())] * times
    return found


def flip_bytes(text: bytearray, rng: random.Random) -> None:
    """Changes one to three bytes, in most cases to printable ones, with which more texts remain valid."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text))
        text[at] = text[at] ^ (1 << rng.randrange(8)) if rng.random() < 0.3 else rng.choice(PRINTABLE)


def change_lines(text: bytearray, rng: random.Random) -> None:
    """Removes, doubles or exchanges lines."""
    lines = bytes(text).split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.choice(("drop", "drop", "double", "swap"))
    if way == "drop":
        del lines[at]
    elif way == "double":
        lines.insert(other, lines[at])
    else:
        lines[at], lines[other] = lines[other], lines[at]
    text[:] = b"\n".join(lines)


def change_numbers(text: bytearray, rng: random.Random) -> None:
    """Changes one to three numbers: to a near or a small one, or to a limit of an integer type."""
    for _ in range(rng.randint(1, 3)):
        numbers = list(re.finditer(rb"\d+", bytes(text)))
        if not numbers:
            return
        match = rng.choice(numbers)
        old = int(match[0]) if len(match[0]) < 20 else 1
        near = (0, 1, 2, old + 1, old - 1, old * 2, -old, rng.randrange(10), rng.randrange(100))
        far = (1 << 31, (1 << 31) - 1, (1 << 63) - 1, 1 << 63, 1 << 64, 10**18, 100_000, "nan", "-0", "1e999")
        new = rng.choice(near if rng.random() < 0.8 else far)
        text[match.start() : match.end()] = str(new).encode()


def put(text: bytearray, match: re.Match[bytes], group: int, new: bytes) -> None:
    """Replaces a group of a match by `new`."""
    text[match.start(group) : match.end(group)] = new


def some(pattern: bytes, text: bytearray, rng: random.Random) -> re.Match[bytes] | None:
    found = list(re.finditer(pattern, bytes(text), re.M))
    return rng.choice(found) if found else None


SIZES = (
    b"0",
    b"-1",
    b"1",
    b"2",
    b"65",
    b"65536",
    b"2147483648",
    b"4611686018427387904",
    b"9223372036854775807",
)
TYPES = b"pred s4 s8 s32 s64 u2 u8 u32 u64 f4e2m1fn f8e4m3fn f16 bf16 f32 f64 c64 c128".split()


def change_sizes(text: bytearray, rng: random.Random) -> None:
    """Changes one size in a shape or a list, or adds or removes a dimension, everywhere."""
    found = some(rb"\[(\d+(?:,\d+)*|)\]", text, rng)
    if found is None:
        return
    sizes = [s for s in found[1].split(b",") if s]
    way = rng.choice(("change", "change", "more", "many", "less"))
    if way == "change" and sizes:
        sizes[rng.randrange(len(sizes))] = rng.choice(SIZES)
    elif way == "less" and sizes:
        del sizes[rng.randrange(len(sizes))]
    else:
        sizes += [rng.choice(SIZES[:4])] * (70 if way == "many" else 1)
    new = b"[" + b",".join(sizes) + b"]"
    if rng.random() < 0.7:
        text[:] = bytes(text).replace(found[0], new)
    else:
        put(text, found, 0, new)


def change_arity(text: bytearray, rng: random.Random) -> None:
    """Removes, doubles, exchanges or repeats operands."""
    found = some(rb" [a-z][\w-]+\(([^()={}]*)\)", text, rng)
    if found is None:
        return
    operands = [o.strip() for o in found[1].split(b",") if o.strip()]
    way = rng.choice(("drop", "double", "swap", "long", "none"))
    if way == "drop" and operands:
        del operands[rng.randrange(len(operands))]
    elif way == "double" and operands:
        operands.insert(rng.randrange(len(operands) + 1), rng.choice(operands))
    elif way == "swap":
        rng.shuffle(operands)
    elif way == "long":
        operands *= rng.choice((10, 100, 1000))
    else:
        operands = []
    put(text, found, 1, b", ".join(operands))


def change_types(text: bytearray, rng: random.Random) -> None:
    """Changes an element type, in one place or everywhere."""
    found = some(rb"\b(pred|bf16|[sufc]\d+\w*)(?=\[)", text, rng)
    if found is None:
        return
    new = rng.choice(TYPES)
    if rng.random() < 0.5:
        put(text, found, 1, new)
    else:
        text[:] = re.sub(rb"\b%s(?=\[)" % re.escape(found[1]), new, bytes(text))


def grow(text: bytearray, rng: random.Random) -> None:
    """Adds a long chain of instructions, or of tuples that double, after an instruction; later instructions
    use its end.
    """
    found = some(rb"^\s*(?:ROOT )?(%?[\w.\-]+) = (\w+\[[\d,]*\](?:\{[^}]*\})?) .*$", text, rng)
    if found is None or found[0].lstrip().startswith(b"ROOT"):
        return
    name, shape = found[1], found[2]
    lines, last = [], name
    if rng.random() < 0.6:
        op = rng.choice(
            (b"copy(%s)", b"negate(%s)", b"add(%s, %s)", b"sine(%s)", b"call(%s), to_apply=grown")
        )
        for n in range(rng.choice((20, 300, 1500))):
            lines.append(b"  grown.%d = %s %s" % (n, shape, op.replace(b"%s", last)))
            last = b"grown.%d" % n
    else:
        for n in range(rng.choice((3, 10, 20, 60))):
            lines.append(b"  grown.%d = tuple(%s, %s)" % (n, last, last))
            last = b"grown.%d" % n
        for n in range(rng.choice((0, len(lines)))):
            lines.append(b"  taken.%d = get-tuple-element(%s), index=%d" % (n, last, rng.randrange(2)))
            last = b"taken.%d" % n
    rest = bytes(text[found.end() :])
    rest = re.sub(rb"(?<![\w.%%\-])%s(?![\w.\-])" % re.escape(name), last, rest, count=1)
    text[found.end() :] = b"\n" + b"\n".join(lines) + rest


def double_calls(text: bytearray, rng: random.Random) -> None:
    """Replaces a called computation by one that calls it twice, and so on."""
    found = some(rb"(?:to_apply|body|calls)=(%?[\w.\-]+)", text, rng)
    if found is None:
        return
    old = found[1].lstrip(b"%")
    head = re.search(rb"^%%?%s [^\n]*\{\n(?:.*\n)*?\}\n" % re.escape(old), bytes(text), re.M)
    if head is None:
        return
    parameters = re.findall(rb"(\S+) = (\S+) parameter\((\d+)\)", head[0])
    root = re.search(rb"ROOT \S+ = (\S+) ", head[0])
    if root is None or not parameters:
        return
    made, called = b"", old
    listed = b"".join(b"  p%s = %s parameter(%s)\n" % (n, shape, n) for _, shape, n in parameters)
    names = [b"p" + n for _, _, n in parameters]
    for n in range(rng.choice((1, 5, 40))):
        first = b"  a = %s call(%s), to_apply=%s\n" % (root[1], b", ".join(names), called)
        second = b"  ROOT b = %s call(%s), to_apply=%s\n" % (root[1], b", ".join([b"a", *names[1:]]), called)
        called = b"doubled.%d" % n
        made += called + b" {\n" + listed + first + second + b"}\n"
    put(text, found, 1, called)
    text[head.end() : head.end()] = made


PRINTABLE = bytes(range(32, 127)) + b"\n"
Mutation = Callable[[bytearray, random.Random], None]
MUTATIONS: tuple[Mutation, ...] = (
    flip_bytes, change_lines, change_numbers, change_sizes, change_arity, change_types, grow, double_calls,
)  # fmt: skip


def mutated(
    sources: Sequence[Case], count: int, seed: int, mutations: Sequence[Mutation] = MUTATIONS
) -> Iterator[Case]:
    """Yields `count` cases, which depend only on the seed and the sources; each mutation is used equally
    often.
    """
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        source = rng.choice(sources)
        text = bytearray(source.text)
        mutations[number % len(mutations)](text, rng)
        if text == source.text:  # the mutation found nothing to change
            flip_bytes(text, rng)
        yield replace(source, name=f"{number}.{source.name}", text=bytes(text))


def flip_bits(data: bytearray, rng: random.Random) -> None:
    """Inverts one to four bits, in most cases after the strings at the beginning."""
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def change_bytes(data: bytearray, rng: random.Random) -> None:
    """Changes one to three bytes: to small numbers, or to the first bytes of large ones."""
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(len(data))] = rng.choice(
            (0, 1, 3, 5, 7, 0x10, 0x80, 0xFE, 0xFF, rng.randrange(256))
        )


def change_stretch(data: bytearray, rng: random.Random) -> None:
    """Removes or doubles a range of bytes, overwrites it with another one, or removes the end."""
    begin = rng.randrange(len(data))
    end = begin + rng.randint(1, 8)
    way = rng.choice(("drop", "double", "copy", "cut"))
    if way == "drop":
        del data[begin:end]
    elif way == "double":
        data[begin:begin] = data[begin:end]
    elif way == "copy":
        other = rng.randrange(len(data))
        data[begin:end] = data[other : other + end - begin]
    else:
        del data[begin:]


def change_fields(data: bytearray, rng: random.Random) -> None:
    """Changes a field of a nested message to another number or text, removes or doubles it."""
    from axla import proto

    whole = proto.decode(bytes(data), "HloModuleProto")
    places: list[tuple[Any, Any]] = []
    stack: list[Any] = [whole]
    while stack:
        part = stack.pop()
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        places += [(part, key) for key in keys]
        stack += [part[key] for key in keys if isinstance(part[key], dict | list)]
    for _ in range(rng.randint(1, 3)):
        part, key = rng.choice(places)
        value = part.get(key) if isinstance(part, dict) else part[key] if key < len(part) else None
        way = rng.choice(("other", "other", "drop", "double"))
        if way == "drop" and value is not None:
            del part[key]
        elif way == "double" and isinstance(value, list) and value:
            value += [rng.choice(value)] * rng.choice((1, 70, 1000))
        elif isinstance(value, bool):
            part[key] = not value
        elif isinstance(value, int):
            part[key] = rng.choice(
                (0, 1, 2, -1, value + 1, 1 << 31, (1 << 62), (1 << 63) - 1, rng.randrange(100))
            )
        elif isinstance(value, str):
            part[key] = rng.choice(["", "s32", "add", "F32", "S4", "C64", "tuple", "call", value + "x"])
    with contextlib.suppress(Exception):  # the field may not accept the number
        data[:] = proto.encode(whole, "HloModuleProto")


BYTES: tuple[Mutation, ...] = (flip_bits, change_bytes, change_stretch)
PROTOS: tuple[Mutation, ...] = (*BYTES, change_fields, change_fields, change_fields)


def protos(sources: Sequence[Case]) -> list[Case]:
    """The sources as HloModuleProto."""
    import axla
    from axla import proto

    found = []
    for case in dict.fromkeys(sources):
        with contextlib.suppress(axla.AxlaError):
            found.append(replace(case, text=proto.to_proto(axla.parse(case.text))))
    return found


# Child processes.


Attempt = Callable[[Case, str, str, Callable[[], None]], tuple[str, str]]


def end_of(attempt: Attempt, case: Case, backend: str, reference: str, pipe: int) -> tuple[str, str]:
    """The outcome of an attempt, with the details of its exception, if any."""
    import axla

    try:
        return attempt(case, backend, reference, lambda: (os.write(pipe, b"C"), None)[1])
    except axla.InternalError as error:
        return INTERNAL, f"{error}\n{error.__cause__!r}"
    except axla.AxlaError as error:
        return ERROR, type(error).__name__
    except BaseException:  # the failure that is looked for
        return BARE, traceback.format_exc()


def attempt(case: Case, backend: str, reference: str, compiled: Callable[[], None]) -> tuple[str, str]:
    """Parses, verifies, compiles and runs a case; calls `compiled` after compilation. The results are
    compared with those of the backend `reference`, if it gives any in time.
    """
    import axla
    from axla.comparison import compare, parameter_leaves, random_inputs, run_flat
    from axla.ir.verify import verify

    module = axla.parse(case.text, **case.options)
    if not case.runs:
        verify(module)
        return PARSED, ""
    executable = axla.compile(module, backend=backend, replicas="first")
    compiled()
    size = sum(shape.byte_size for _, shape in parameter_leaves(module))
    if size > INPUT_BYTES:
        return COMPILED, f"{size} bytes of parameters"
    inputs = random_inputs(module)
    results = [np.asarray(array) for array in executable.execute(inputs, deadline=DEADLINE)]
    if reference:
        with contextlib.suppress(axla.UnsupportedError, axla.DeadlineExceeded):
            wanted = run_flat(module, inputs, reference, DEADLINE, "first")
            report = compare(module, results, wanted, backend, reference)
            problems = [o.problem for o in report.outputs if o.problem]
            if problems:
                return DIFFERS, problems[0]
    return RESULT, f"{len(results)} results"


def in_child(case: Case, backend: str, reference: str, pipe: int, attempt: Attempt) -> None:
    """Runs in the child process: sets limits, makes the attempt, and sends the outcome. Never returns."""
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        kind, detail = end_of(attempt, case, backend, reference, pipe)
        report = f"{kind}\t{detail}" if len(detail) < 60_000 else kind
        os.write(pipe, report.encode(errors="replace"))
        code = 0
    finally:
        os._exit(code)


@dataclass(slots=True)
class Child:
    case: Case
    pid: int
    pipe: int
    begin: float
    stop_at: float
    heard: bytes = b""


def start(case: Case, backend: str, reference: str, attempt: Attempt) -> Child:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        in_child(case, backend, reference, writer, attempt)
    os.close(writer)
    now = time.monotonic()
    return Child(case, pid, reader, now, now + COMPILE_SECONDS)


def finished(child: Child, hanging: bool) -> Outcome:
    """The outcome of a child that closed its pipe, or of one that hangs and is killed."""
    if hanging:
        os.kill(child.pid, signal.SIGKILL)
    os.close(child.pipe)
    _, status = os.waitpid(child.pid, 0)
    seconds = time.monotonic() - child.begin
    stage = "run" if child.heard.startswith(b"C") else "parsing or compiling"
    if hanging:
        return Outcome(child.case, HANG, f"no end while {stage}", seconds)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return Outcome(child.case, CRASH, f"{name} while {stage}", seconds)
    kind, _, detail = child.heard.removeprefix(b"C").decode(errors="replace").partition("\t")
    if os.WEXITSTATUS(status) or kind not in KINDS:
        return Outcome(child.case, CRASH, f"exit code {os.WEXITSTATUS(status)} while {stage}", seconds)
    return Outcome(child.case, kind, detail, seconds)


def run_cases(
    cases: Iterator[Case], backend: str = "cpu", jobs: int = 2, reference: str = "",
    attempt: Attempt = attempt,
) -> Iterator[Outcome]:  # fmt: skip
    """Yields the outcomes in the order in which the children end. The process of the caller must have one
    thread only.
    """
    selector = selectors.DefaultSelector()
    children: dict[int, Child] = {}
    waiting = True
    while waiting or children:
        while waiting and len(children) < jobs:
            case = next(cases, None)
            if case is None:
                waiting = False
                break
            child = start(case, backend, reference, attempt)
            children[child.pipe] = child
            selector.register(child.pipe, selectors.EVENT_READ)
        for key, _ in selector.select(timeout=0.5):
            child = children[key.fd]
            data = os.read(key.fd, 65536)
            if data and not child.heard.startswith(b"C") and data.startswith(b"C"):
                child.stop_at = time.monotonic() + DEADLINE * (2 if reference else 1) + GRACE
            child.heard += data
            if not data:
                selector.unregister(key.fd)
                yield finished(children.pop(key.fd), hanging=False)
        now = time.monotonic()
        for child in [c for c in children.values() if now > c.stop_at]:
            selector.unregister(child.pipe)
            yield finished(children.pop(child.pipe), hanging=True)


def reduced(
    outcome: Outcome, backend: str, seconds: float = 60.0, reference: str = "", attempt: Attempt = attempt
) -> bytes:
    """A shorter text that fails with the same signature: lines are removed as long as it does."""
    lines = outcome.case.text.split(b"\n")
    stop_at = time.monotonic() + seconds
    size = max(1, len(lines) // 2)
    while size:
        at = 0
        while at < len(lines) and time.monotonic() < stop_at:
            shorter = lines[:at] + lines[at + size :]
            case = replace(outcome.case, text=b"\n".join(shorter))
            [again] = run_cases(iter([case]), backend, 1, reference, attempt)
            if again.signature == outcome.signature:
                lines = shorter
            else:
                at += size
        size //= 2
    return b"\n".join(lines)
