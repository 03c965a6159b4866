"""Oracles: each judges whether a program behaves as it should. `ORACLES` has them by name.

The first line of the docstring of each oracle is printed by `scripts/fuzz --list`.
"""

from __future__ import annotations

import os
import pickle
import random
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from verify_lib import mutate

import axla
from axla import hlo
from axla.backends.cpu import CpuBackend, CpuExecutable
from axla.backends.options import CompileOptions
from axla.codegen.host import host_target, one_lane_target
from axla.comparison import parameter_leaves
from axla.core import flags
from axla.core.errors import AxlaError, DeadlineExceeded, UnsupportedError
from axla.core.shape import Shape
from axla.ir.clone import clone_module
from axla.ir.graph import Computation, Module
from axla.passes import driver, rewrite
from axla.passes.pipelines import CPU, PASSES
from axla.passes.simplify.match import neutral
from axla.passes.steps import flat
from axla.target.machine import X86_LEVELS, CpuTarget, Limits
from axla.text import parse_hlo
from axla.text.forms import implied_type

from . import cases
from .cases import Case, Skip
from .judge import differs

ORACLES: dict[str, Oracle] = {}


class Oracle:
    """A check of a case. `share` is the part of the cases that it is asked about, from 0 to 1."""

    name: ClassVar[str] = ""
    share: ClassVar[float] = 1.0
    peer: ClassVar[bool] = False
    """Whether it runs a compiler other than axla. A crash of that compiler is not a failure."""
    reduces: ClassVar[bool] = True
    """Whether the oracle judges the module of the case, so that the module can be reduced. Other oracles make
    programs of their own, and append the program's text to their message.
    """

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if cls.name:
            ORACLES[cls.name] = cls()

    @cached_property
    def is_there(self) -> bool:
        """Whether this machine has the software and the devices that the oracle needs."""
        return True

    def fits(self, case: Case) -> bool:
        return True

    def forget(self) -> None:
        """Deletes state of earlier cases, so that the next answer depends on its case alone."""

    def check(self, case: Case) -> str:
        """Describes how the case fails; "" if it does not.

        Raises Skip if the oracle cannot judge the case; any other exception is a failure.
        """
        raise NotImplementedError


def compiled(case: Case, module: Module | None = None, **options: Any) -> Any:
    """Compiles a case, or another module for it, with random flags. Raises Skip if the backend does not
    support it.
    """
    backend = options.pop("backend", "cpu")
    changes = {
        "cache_dir": "",
        "optimization_level": case.draw.choice((0, 0, 1, 3)),
        **options.pop("flags", {}),
    }
    LATEST["donate"], LATEST["flags"] = options.get("donate", ()), changes
    with flags.override(**changes), warnings.catch_warnings():
        if "disable_hlo_passes" in changes:  # without some passes, rules may undo each other for ever
            warnings.simplefilter("ignore")
        try:
            return axla.compile(module or case.module, backend=backend, **options)
        except UnsupportedError as error:
            raise Skip(str(error)) from error


def ran(case: Case, executable: Any, inputs: Any = None, **options: Any) -> cases.Found:
    """Runs a case once. Raises Skip if the deadline passes, since that only shows a busy machine."""
    try:
        return case.run(executable, case.inputs if inputs is None else inputs, **options)
    except DeadlineExceeded as error:
        raise Skip(str(error)) from error


class Cpu(Oracle):
    """Native code for this machine computes what the interpreter computes."""

    name = "cpu"

    def check(self, case: Case) -> str:
        return differs(case, ran(case, compiled(case)))


class OneLane(Oracle):
    """Native code without vector instructions computes what the interpreter computes."""

    name, share = "one-lane", 0.2

    def check(self, case: Case) -> str:
        return differs(case, ran(case, compiled(case, backend="one-lane")))


class Small(CpuBackend):
    """The backend cpu, for a target that is chosen before each compilation. Its limits are low, so that small
    programs are divided as large ones are.
    """

    name = "fuzz"
    chosen: CpuTarget

    def target(self, options: CompileOptions) -> CpuTarget:
        return self.chosen


def some_target(draw: random.Random) -> CpuTarget:
    """A random target that this machine can run: this machine or an older one, with random limits."""
    base = host_target()
    if draw.random() < 0.3 and base.name in X86_LEVELS:
        names = list(X86_LEVELS)
        level = X86_LEVELS[draw.choice(names[: names.index(base.name) + 1])]
        base = replace(level, triple=base.triple)
    changes: dict[str, Any] = {
        "parallel_cost": draw.choice((50, 500)),
        "chunk_cost": draw.choice((20, 200, 2000)),
    }
    changes |= {
        "unit_work": draw.choice((100, 2000)),
        "vector_work": draw.choice((50, 1000)),
        "whole_row": draw.choice((8, 64, 500)),
    }
    others = {
        "tiny": (0, 4, 16), "line_kernel": (0, 256, 2000), "inner_row": (2, 8, 32),
        "row_in_lane": (2, 8, 16), "inner_column": (4, 32), "hero_piece": (4, 64),
        "hero_transpose": (16, 64, 256), "hero_minor": (2, 4), "members": (3, 10, 200), "operands": (3, 24),
        "roots": (1, 3, 12), "parts": (2, 5, 64), "transpose_block": (8, 32), "column_rows": (2, 8),
        "column_bytes": (64, 512, 4096), "step_cost": (10, 1000), "line_block": (20, 500),
        "constant_bytes": (8, 256), "pieces": (3, 64), "chosen_pieces": (1, 3),
    }  # fmt: skip
    for name, values in others.items():
        if draw.random() < 0.25:
            changes[name] = draw.choice(values)
    known = {f.name for f in fields(Limits)}
    limits = replace(base.limits, **{n: v for n, v in changes.items() if n in known})
    LATEST["target"] = found = replace(base, limits=limits)
    return found


class Latest(dict[str, Any]):
    """A dictionary that is also written to `file`, if set, after each change, since the process may crash."""

    file: Path | None = None

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        if self.file is not None:
            self.file.write_bytes(pickle.dumps(dict(self)))


LATEST = Latest()
"""The last compilation: the "target" that was chosen, the "flags", the parameters to "donate", and the
"module", if it has more control edges than that of the case.
"""


def loading(target: CpuTarget | None, changes: Mapping[str, Any]) -> str:
    """The text of a Python file for the option --load, by which `cpu` compiles for this target and with these
    flags, as the fuzzer did.
    """
    words = [
        f"--{flags.spellings_of(name)[0]}={','.join(value) if isinstance(value, tuple) else value}"
        for name, value in changes.items()
        if name != "cache_dir" and value != getattr(flags.Flags(), name)
    ]
    text = FLAGS.format(flags=" ".join(words)) if words else ""
    if target is not None:
        level = f"replace(X86_LEVELS[{target.name!r}], triple=HERE.triple)"
        base = "HERE" if target.name == host_target().name else level
        text += LOADING.format(base=base, limits=target.limits)
    return text and f"# How the fuzzer compiled: axla bisect reduced.hlo --load compiled.py\n{text}"


FLAGS = """\
import os

os.environ["AXLA_FLAGS"] = {flags!r}
"""
LOADING = """\
from dataclasses import replace

from axla.backends.cpu import CpuBackend
from axla.codegen.host import host_target
from axla.target.machine import X86_LEVELS, Limits

HERE = host_target()
TARGET = replace({base}, limits={limits})
CpuBackend.target = lambda self, options: TARGET
"""


@cache
def small_client() -> Any:
    return axla.Client(Small())


def small(case: Case) -> Any:
    """Compiles a case for a random target."""
    client = small_client()
    client.backend.chosen = some_target(case.draw)
    return compiled(case, backend=client)


class Targets(Oracle):
    """Code for a random target with low limits computes what the interpreter computes."""

    name, share = "targets", 0.5

    def check(self, case: Case) -> str:
        return differs(case, ran(case, small(case)))


class Threads(Oracle):
    """All runs with one, two and three threads give the same bits, which agree with the interpreter."""

    name, share = "threads", 0.3

    def check(self, case: Case) -> str:
        if case.opcodes & {"rng", "rng-get-and-update-state"}:
            raise Skip("its numbers are new in every run")
        executable = small(case) if case.family != "wide" or case.draw.random() < 0.3 else compiled(case)
        before, first = axla.num_threads(), None
        try:
            for threads in (1, 2, 2, 3, 2):
                axla.set_num_threads(threads)
                found = ran(case, executable)
                first = first or found
                if why := differs(case, found, first, bits=True):
                    return f"{threads} threads against 1: {why}"
        finally:
            axla.set_num_threads(before)
        return differs(case, first)  # type: ignore[arg-type]


class PassesOff(Oracle):
    """Native code is right if all optional passes are disabled."""

    name, share = "passes-off", 0.2

    def check(self, case: Case) -> str:
        off = tuple(n for n, p in PASSES.items() if not p.required and n != "float-normalization-bf16")
        if case.draw.random() < 0.5:
            off = tuple(n for n in off if n != "fusion")
        return differs(case, ran(case, compiled(case, flags={"disable_hlo_passes": off})))


class SomePasses(Oracle):
    """Native code is right with random passes and rules disabled, and a random order of instructions.

    Some cases also get more control edges. The module is verified after every pass.
    """

    name, share = "some-passes", 0.2

    def check(self, case: Case) -> str:
        draw = case.draw
        known = [n for n, p in PASSES.items() if not p.required and n != "float-normalization-bf16"]
        off = draw.sample(known, draw.randint(0, 6)) + draw.sample(
            sorted(rewrite.rules_by_name()), draw.randint(0, 30)
        )
        changes = {"disable_hlo_passes": tuple(off), "verify": True, "shuffle": draw.randrange(1000)}
        module = clone_module(case.module)
        if draw.random() < 0.5:
            mutate.bind(module, draw)
        LATEST["module"] = module
        return differs(case, ran(case, compiled(case, module, flags=changes)))


class EachPass(Oracle):
    """The interpreter computes the same after each pass of the CPU pipeline."""

    name, share = "each-pass", 0.05

    def fits(self, case: Case) -> bool:
        return case.module.schedule is None and sum(i.size for i in case.inputs) < 5000

    def check(self, case: Case) -> str:
        module, target = clone_module(case.module), host_target()
        from axla.lowering.donation import row_major_boundary

        row_major_boundary(module)
        text = module.to_string()
        for _ in range(1):
            for _, step in flat(CPU):
                before = module.version
                try:
                    driver.run(module, (step,), target, name="fuzz")
                except UnsupportedError as error:
                    raise Skip(str(error)) from error
                if module.version == before or (now := module.to_string()) == text:
                    continue
                text = now
                try:
                    found = case.run(axla.compile(clone_module(module), backend="interpreter"), case.inputs)
                except (UnsupportedError, DeadlineExceeded) as error:
                    raise Skip(str(error)) from error
                if why := differs(case, found):
                    return f"after {step.name}: {why}"
        return ""


class Texts(Oracle):
    """The text and the proto of a module are read back as the same module."""

    name, share = "text", 0.3

    def check(self, case: Case) -> str:
        from axla import proto

        text, module = case.module.to_string(print_large_constants=True), case.module
        if any(opcode.startswith("async-") for opcode in case.opcodes):
            # In short forms the computation has no names. The reader invents some, which may equal existing
            # names.
            module = parse_hlo(text, exact=True)
            text = module.to_string(print_large_constants=True)
        ways = {"text": parse_hlo(text, exact=True), "proto": proto.read(proto.to_proto(module))}
        for form, made in ways.items():
            if why := unequal(module, made):
                return f"read again from {form}: {why}"
            if made.to_string(print_large_constants=True) != text:
                return f"read again from {form} it prints another text"
        made = case.draw.choice(list(ways.values()))
        return differs(case, ran(case, axla.compile(made, backend="interpreter")))


def unequal(a: Module, b: Module) -> str:
    """The first difference between two modules in names, ops, shapes, operands or configuration; "" if there
    is none.
    """
    pairs = list(zip(a.computations, b.computations, strict=False))
    if len(a.computations) != len(b.computations):
        return f"{len(b.computations)} computations of {len(a.computations)}"
    mine = {i.name: i for c, _ in pairs for i in c.instructions}
    theirs = {i.name: i for _, c in pairs for i in c.instructions}
    if mine.keys() != theirs.keys():
        return f"instructions {sorted(mine.keys() ^ theirs.keys())[:4]}"
    for name, x in mine.items():
        y = theirs[name]
        if x.shape is not y.shape:
            return f"{name} is {y.shape}, was {x.shape}"
        if [o.name for o in x.operands] != [o.name for o in y.operands]:
            return f"{name} has operands {y.operands}, had {x.operands}"
        if [o.name for o in x.extra.control_predecessors] != [o.name for o in y.extra.control_predecessors]:
            return f"{name} follows {y.extra.control_predecessors}, followed {x.extra.control_predecessors}"
        for one in x.op.attributes:
            u, v = getattr(x.op, one.name), getattr(y.op, one.name)
            if x.opcode == "map" and u == ():
                continue  # () means all dimensions, and the reader lists them
            if x.opcode == "compare" and one.name == "type":
                u, v = (kind or implied_type(x.operands[0].shape) for kind in (u, v))
            if isinstance(u, float):  # protos store floats in single precision
                u, v = np.float32(u), np.float32(v)
            if one.name not in x.op.computation_fields and one.name != "literal" and u != v:
                return f"{name}: {one.name} is {v}, was {u}"
    for field in ("aliases", "buffer_donors", "replica_count", "num_partitions"):
        u, v = getattr(a.config, field), getattr(b.config, field)
        if u != v:
            return f"{field} is {v}, was {u}"
    return ""


class Programs(Oracle):
    """The text of a compiled program is read back as the same program, whose results are right."""

    name, share = "program", 0.12

    def check(self, case: Case) -> str:
        from axla.cpu.compiler import compile_text
        from axla.lowering.pipeline import compile_program, constants_segment
        from axla.program.text import parse_program, print_program

        client = small_client()
        target = some_target(case.draw)
        # The reader checks programs against the default limits, so the limits of the target must not exceed
        # them.
        line = min(target.limits.line_kernel, Limits().line_kernel)
        client.backend.chosen = target = replace(target, limits=replace(target.limits, line_kernel=line))
        with flags.override(cache_dir="", optimization_level=0):
            work = client.backend.work(case.module, CompileOptions())
            constants: dict[Any, int] = {}
            try:
                program = compile_program(work, target, constants)
            except UnsupportedError as error:
                raise Skip(str(error)) from error
            text, segment = print_program(program), constants_segment(constants)
            if print_program(parse_program(text, segment)) != text:
                return "read again it prints another text"
            made = compile_text(text, segment, target)
        executable = CpuExecutable(
            made.images, made.interface, made.constants, client=client, module=case.module
        )
        return differs(case, ran(case, executable))


def packed_for(case: Case, target: CpuTarget) -> Any:
    """Compiles a case for a target, as code that is not loaded. Raises Skip if that is not supported."""
    from axla.cpu.compiler import compile_module
    from axla.lowering.donation import row_major_boundary

    work = clone_module(case.module)
    row_major_boundary(work)
    LATEST["flags"] = {"optimization_level": 0}
    with flags.override(cache_dir="", **LATEST["flags"]):
        try:
            return compile_module(work, target)
        except UnsupportedError as error:
            raise Skip(str(error)) from error


class Guarded(Oracle):
    """A program accesses no memory but its own, and no result depends on bytes that it did not write.

    All its memory lies between protected pages, and is filled with different bytes in two runs.
    """

    name, share = "guarded", 0.15

    def fits(self, case: Case) -> bool:
        return not case.has_effects and "custom-call" not in case.opcodes

    def check(self, case: Case) -> str:
        from fuzz_program_cases import run

        target = case.draw.choice((host_target, one_lane_target, lambda: some_target(case.draw)))()
        packed = packed_for(case, target)
        face = packed.interface.of_code()
        if face.functions or packed.interface.is_dynamic or len(face.parameters) != len(case.inputs):
            raise Skip("it calls functions")
        inputs = [np.ascontiguousarray(a).tobytes() for a in case.inputs]
        if any(len(data) != spec.bytes for data, spec in zip(inputs, face.parameters, strict=True)):
            raise Skip("elements are packed")
        try:
            one, other = (run(packed, inputs, fill) for fill in (0xA5, 0x3C))
        except (TimeoutError, RuntimeError) as error:
            raise Skip(str(error)) from error
        if one == other:
            return ""
        for n, (spec, a, b) in enumerate(zip(face.results, one, other, strict=True)):
            x, y = (np.frombuffer(d, spec.shape.dtype.numpy) for d in (a, b))
            from .judge import unlike

            if why := unlike(x, y):
                return f"result {n} depends on what was in memory: {why}"
        return ""


class Apart(Oracle):
    """The ranges of a parallel kernel write different bytes and do not depend on each other.

    Each range runs with the memory as it was before the kernel; the combined results must be right.
    """

    name, share = "apart", 0.2

    def fits(self, case: Case) -> bool:
        return not case.has_effects and "custom-call" not in case.opcodes

    def check(self, case: Case) -> str:
        from axla.tools.ranges import run_apart

        here = case.family == "wide" and case.draw.random() < 0.5
        packed = packed_for(case, host_target() if here else some_target(case.draw))
        if len(packed.interface.of_code().parameters) != len(case.inputs):
            raise Skip("parameters that nobody reads")
        try:
            found, why = run_apart(
                packed, [np.ascontiguousarray(a).tobytes() for a in case.inputs], cases.SECONDS
            )
        except (AxlaError, UnsupportedError) as error:
            raise Skip(str(error)) from error
        arrays = [
            np.frombuffer(d, s.shape.dtype.numpy).reshape(s.shape.dims)
            for d, s in zip(found, packed.interface.of_code().results, strict=True)
        ]
        return why or differs(case, (arrays, []))


class Serialized(Oracle):
    """An executable that was serialized and loaded gives the same bits."""

    name, share = "serialized", 0.08

    def check(self, case: Case) -> str:
        executable = compiled(case)
        first = ran(case, executable)
        loaded = axla.Client("cpu").load(executable.serialize())
        return differs(
            case, ran(case, loaded), first, bits=not case.opcodes & {"rng", "rng-get-and-update-state"}
        )


class Cache(Oracle):
    """Programs from the cache on disk are right, even if the cache has similar programs and other flags."""

    name, share = "cache", 0.15

    @cached_property
    def folder(self) -> str:
        made = cache_folder(os.getpid())
        made.mkdir(mode=0o700, exist_ok=True)
        return str(made)

    def fits(self, case: Case) -> bool:
        return sum(i.size for i in case.inputs) < 20_000

    def forget(self) -> None:
        self.clear()
        forget()

    def clear(self) -> None:
        """Deletes the contents of the cache folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        Path(self.folder).mkdir(mode=0o700, exist_ok=True)

    def check(self, case: Case) -> str:
        draw = case.draw
        here = {"cache_dir": self.folder}
        if draw.random() < 0.02:
            self.clear()
        ways: list[tuple[str, Module, dict[str, Any]]] = [("the program", case.module, {})]
        if (other := cases.twin(case)) is not None:
            ways.append(("a twin", other, {}))
        ways.append(draw.choice((
            ("other flags", case.module, {"flags": here | {"allow_excess_precision": False}}),
            ("no fusion", case.module, {"flags": here | {"disable_hlo_passes": ("fusion",)}}),
            ("one lane", case.module, {"backend": "one-lane"}),
            ("donation", case.module, {"donate": tuple(range(len(case.inputs)))[:2]}),
            ("fewer instructions", case.module, {"flags": here | {"cpu_max_isa": "AVX2"}}),
        )))  # fmt: skip
        free = ("fast math", case.module, {"flags": here | {"fast_math": True}})  # not compared
        order = [*draw.sample([*ways, free], len(ways) + 1), *draw.sample(ways, len(ways))]
        for what, module, options in order:
            if draw.random() < 0.5:
                forget()
            one = Case(case.seed, module, case.inputs, case.family, draw=draw) if what == "a twin" else case
            level = {"optimization_level": 0}
            given = {**options, "flags": here | level | options.get("flags", {})}
            found = ran(one, compiled(one, module, **given))
            if what != "fast math" and (why := differs(one, found)):
                return f"{what}, compiled with a cache: {why}"
        return ""


def cache_folder(process: int) -> Path:
    """The cache folder of a process; the process that started it deletes the folder."""
    return Path(tempfile.gettempdir()) / f"axla-fuzz-{process}"


def forget() -> None:
    """Empties the cache in the memory of this process, so that the cache on disk is read."""
    from axla.core import cache as store

    with store._lock:
        store._memory.clear()
        store._memory_bytes = 0


class Donated(Oracle):
    """Donated arguments are consumed, the others keep their values, and results are right."""

    name, share = "donated", 0.2

    def check(self, case: Case) -> str:
        draw = case.draw
        count = len(case.inputs)
        donate = tuple(sorted(draw.sample(range(count), draw.randint(0, count))))
        try:
            executable = compiled(case, donate=donate)
        except AxlaError as error:
            if "alias" in str(error) or "donat" in str(error):
                raise Skip(str(error)) from error
            raise
        arrays = [axla.device_put(a) for a in case.inputs]
        kept = [np.asarray(a) if draw.random() < 0.3 else None for a in arrays]
        found = ran(case, executable, arrays)
        if why := differs(case, found):
            return f"donated {donate}: {why}"
        from .judge import unlike

        for n, (view, given) in enumerate(zip(kept, case.inputs, strict=True)):
            if view is not None and (why := unlike(np.asarray(view), given)):
                return f"argument {n} was changed under a view: {why}"
        aliased = {a.parameter for a in executable.interface.aliases}
        for n, (array, given) in enumerate(zip(arrays, case.inputs, strict=True)):
            if n in aliased or n in donate:
                continue
            if why := unlike(np.asarray(array), given):
                return f"argument {n}, which was not donated, was changed: {why}"
        again = ran(case, executable, case.inputs)  # NumPy arrays must never be written
        return differs(case, again) and "a second run, of NumPy arrays: " + differs(case, again)


class Replicas(Oracle):
    """A program without collectives computes the same on each of two devices that run at once."""

    name, share = "devices", 0.06

    def fits(self, case: Case) -> bool:
        return (
            not case.has_effects
            and "custom-call" not in case.opcodes
            and not case.opcodes & {"rng", "replica-id", "partition-id"}
        )

    def check(self, case: Case) -> str:
        pair = case.draw.choice(((2, 1), (1, 2)))
        executable = compiled(case, num_replicas=pair[0], num_partitions=pair[1])
        other = again_of(case)
        other.wanted  # noqa: B018  (raises Skip if a loop does not end)
        try:
            found = executable.execute_replicated(
                [case.inputs, other.inputs], deadline=cases.SECONDS, asynchronous=case.draw.random() < 0.5
            )
            found = [[np.array(a) for a in row] for row in found]
        except DeadlineExceeded as error:
            raise Skip(str(error)) from error
        for n, (one, row) in enumerate(zip((case, other), found, strict=True)):
            if why := differs(one, (row, [[]])):
                return f"device {n}: {why}"
        return ""


def again_of(case: Case) -> Case:
    """A case with the same program and changed arguments."""
    draw = case.draw
    inputs = [np.array(a) for a in case.inputs]
    for array in inputs:
        if array.size and array.ndim:
            flat = array.reshape(-1)
            flat[:] = flat[::-1].copy() if draw.random() < 0.5 else np.roll(flat, 1)
            if array.dtype.kind in "f" and draw.random() < 0.7:
                flat[draw.randrange(array.size)] = 0.75
    other = Case(case.seed, case.module, inputs, case.family, case.text, draw=draw)
    return other


class Devices(Oracle):
    """Queues several runs with different arguments on a device before it waits for any of them."""

    backend: ClassVar[str] = ""

    def fits(self, case: Case) -> bool:
        return not case.has_effects and "custom-call" not in case.opcodes

    def check(self, case: Case) -> str:
        draw = case.draw
        executable = compiled(case, backend=self.backend)
        other = again_of(case)
        for one in (case, other):
            one.wanted  # noqa: B018  (before the device is busy)
        rows = [draw.choice((case, other)) for _ in range(draw.randint(2, 5))]
        kept = {len(rows) - 1, *(n for n in range(len(rows)) if draw.random() < 0.5)}
        try:
            # Results that are not kept free their memory while the queue is busy.
            queued = []
            for n, one in enumerate(rows):
                made = executable.execute(one.inputs, asynchronous=True, deadline=cases.SECONDS * len(rows))
                queued.append(made if n in kept else None)
            found = {n: [np.array(a) for a in queued[n]] for n in sorted(kept, reverse=True)}
        except (UnsupportedError, DeadlineExceeded) as error:
            raise Skip(str(error)) from error
        for n, results in found.items():
            if why := differs(rows[n], (results, [[]])):
                return f"run {n} of {len(rows)} in the queue: {why}"
        return ""


class Asynchronous(Devices):
    """Several runs in the queue of the CPU give the right results."""

    name, share, backend = "asynchronous", 0.06, "cpu"


class OpenCL(Devices):
    """Several runs in the queue of an OpenCL device give the right results."""

    name, share, backend = "opencl", 0.06, "opencl"

    @cached_property
    def is_there(self) -> bool:
        try:
            return bool(axla.device_put(np.ones(1), axla.Client("opencl").devices[0]))
        except Exception:  # noqa: BLE001  (no library or no device)
            return False


class Ptx(Devices):
    """Several runs in the queue of a simulated NVIDIA GPU give the right results.

    The simulator of tests/ptx takes the place of the CUDA driver.
    """

    name, share, backend = "ptx", 0.02, "ptx"

    def fits(self, case: Case) -> bool:
        return super().fits(case) and sum(i.size for i in case.inputs) < 3000 and case.family != "wide"

    @cached_property
    def is_there(self) -> bool:
        if shutil.which("gcc") is None:
            return False
        from ptx import gpu

        gpu.register()
        return True


class StableHlo(Oracle):
    """A program that was exported to StableHLO and imported again computes the same."""

    name, share = "stablehlo", 0.08

    def fits(self, case: Case) -> bool:
        return not case.has_effects

    def check(self, case: Case) -> str:
        from axla.stablehlo import export_text

        try:
            text = export_text(case.module)
        except UnsupportedError as error:
            raise Skip(str(error)) from error
        made = axla.parse(text)
        if [s.logical for _, s in parameter_leaves(made)] != [
            s.logical for _, s in parameter_leaves(case.module)
        ]:
            raise Skip("other parameters")
        backend = case.draw.choice(("cpu", "interpreter"))
        return differs(case, ran(case, compiled(case, made, backend=backend)))


class Ahead(Oracle):
    """A library that was compiled ahead of time computes what the interpreter computes."""

    name, share = "ahead", 0.01

    def fits(self, case: Case) -> bool:
        return not case.has_effects and "custom-call" not in case.opcodes

    def check(self, case: Case) -> str:
        import axla.aot

        ran(case, compiled(case))  # Skip if a loop has no end, as libraries have no deadline
        with tempfile.TemporaryDirectory() as folder, flags.override(cache_dir="", optimization_level=0):
            try:
                package = axla.aot.compile(case.module, name="fuzz", out=folder, self_test=False)
                library = axla.aot.load(folder, trust_cpu=True)
            except (UnsupportedError, axla.InvalidArgument) as error:
                raise Skip(str(error)) from error
            del package
            function = next(iter(library.functions.values()))
            if len(function.arguments) != len(case.inputs):
                raise Skip("nothing reads some of the arguments")
            found = function(*case.inputs)
        leaves = (
            list(found.values())
            if isinstance(found, dict)
            else list(found)
            if isinstance(found, tuple | list)
            else [found]
        )
        return differs(case, ([np.array(a) for a in leaves], [[]]))


def combines(computation: Computation) -> bool:
    """Whether a reduction with this computation has a result that, apart from rounding, does not depend on
    the order. True for computations whose arguments are not two scalars of one type: reductions do not call
    them.
    """
    root, given = computation.root, computation.parameters
    scalars = len(given) == 2 and all(
        p.shape is root.shape and p.shape == Shape(root.shape.dtype) for p in given
    )
    if not scalars:
        return True
    return root.opcode in COMBINING and set(root.operands) == set(given)


COMBINING = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})


class Xla(Oracle):
    """XLA:CPU computes the same, unless the program uses an op or a value on which it differs by design."""

    name, share, peer = "xla", 0.06, True
    types: ClassVar[frozenset[str]] = frozenset(
        {"f32", "f64", "s32", "s64", "u32", "u8", "s8", "pred", "u64", "s16", "u16"}
    )

    @cached_property
    def is_there(self) -> bool:
        try:
            import jax

            jax.config.update("jax_platforms", "cpu")
            jax.config.update("jax_enable_x64", True)
            return bool(jax.devices("cpu"))
        except Exception:  # noqa: BLE001  (not installed)
            return False

    def fits(self, case: Case) -> bool:
        types = {
            a.dtype.name for c in case.module.computations for i in c.instructions for a in i.shape.arrays()
        }
        known = types <= self.types and not case.opcodes & PECULIAR
        return known and not case.has_effects and all(a.size for a in case.inputs)

    def check(self, case: Case) -> str:
        from bench_lib import peers

        module = clone_module(case.module)
        if any(not s.layout.is_default for _, s in parameter_leaves(module)):
            raise Skip("layouts")
        if why := has_other_rules(case):
            raise Skip(why)
        if not all(
            combines(c) for m in module.computations for i in m.instructions for c in i.op.computations()
        ):
            raise Skip("what is combined first is open")
        module.set_config(aliases=(), entry_layout=None)
        try:
            executable = peers.xla_compile(
                peers.stablehlo_of(peers.xla_module(module.to_string(print_large_constants=True)))
            )
            import jax

            given = [jax.device_put(a) for a in case.inputs]
            found = [np.asarray(a) for a in executable.execute(given)]
        except Exception as error:  # noqa: BLE001  (a program that XLA refuses is not a failure of axla)
            raise Skip(str(error)) from error
        if len(found) != len(case.wanted[0]) or any(
            a.dtype != e.dtype for a, e in zip(found, case.wanted[0], strict=True)
        ):
            raise Skip("other results")
        from axla.comparison import array_leaves, compare_output

        from .judge import shaky

        for n, shape in enumerate(array_leaves(module.entry.root.shape)):
            problem = compare_output(n, shape, found[n], case.wanted[0][n]).problem
            if problem and fuses(module) and np.isfinite(found[n][~np.isfinite(case.wanted[0][n])]).any():
                raise Skip("it fuses products and sums, whose products do not overflow")
            if problem and not shaky(case, n, found[n], case.wanted[0][n]):
                return f"result {n} of XLA:CPU: {problem}"
        return ""


def has_other_rules(case: Case) -> str:
    """The reason why XLA:CPU may compute something else for a case by design; "" if there is none."""
    arrays = list(case.inputs)
    for inst in (i for c in case.module.computations for i in c.instructions):
        if isinstance(inst.op, hlo.Constant):
            arrays.append(array := inst.op.literal.array)
            if array.dtype.kind == "f" and (np.signbit(array) & (array == 0)).any():
                return "it reads -0 as 0"
        elif inst.opcode == "power" and inst.shape.dtype.is_integer:
            return "its simplifier has another power of integers than its code"
        elif inst.opcode == "dynamic-slice" and inst.operands[0].opcode == "dynamic-slice":
            return "its simplifier adds the starts of a slice of a slice before they are clamped"
        elif inst.opcode == "batch-norm-inference":
            return "it multiplies by the scale before it subtracts the mean"
        elif inst.opcode in ("dot", "convolution") and len({o.shape.dtype for o in inst.operands}) > 1:
            return "it has no products of several types"
        elif inst.opcode == "reduce" and inst.operands[0].shape.size == next(inst.shape.arrays()).size:
            return "it forgets where a reduction of one element begins"
        elif inst.opcode in ("reduce", "reduce-window") and len(inst.operands) == 2:
            start, op = inst.operands[1], inst.op.to_apply.root.op
            first = start.op.literal.array if isinstance(start.op, hlo.Constant) else np.nan
            if first != neutral(type(op), start.shape.dtype):
                return "its reductions begin with what their op is neutral to"
            if isinstance(op, hlo.Minimum | hlo.Maximum) and any(np.isnan(a).any() for a in case.inputs):
                return "its reductions may lose NaN"
    floats = [a for a in arrays if a.dtype.kind == "f"]
    if any(((a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny)).any() for a in floats):
        return "it takes denormals for zeros"
    return ""


def fuses(module: Module) -> bool:
    """Whether floats are added to a product, which XLA:CPU may compute with a single rounding."""
    products = (i for c in module.computations for i in c.instructions if isinstance(i.op, hlo.Multiply))
    return any(isinstance(user.op, hlo.Add | hlo.Subtract) for i in products for user in i.users)


PECULIAR = frozenset({
    "rng", "rng-bit-generator", "custom-call", "cholesky", "triangular-solve", "topk", "scan", "convert",
    "is-finite", "shift-left", "shift-right-logical", "shift-right-arithmetic", "mulhi", "scaled-dot",
    "ragged-dot", "map", "domain", "reduce-precision", "async-start", "bitcast", "copy-start",
    "set-dimension-size", "dynamic-reshape", "stochastic-convert",
})  # fmt: skip
"""Ops that XLA:CPU does not implement, or whose results it leaves undefined."""


class Participants(Oracle):
    """Collectives give each participant what a simple model says, on two backends."""

    name, share, reduces = "participants", 0.12, False

    def check(self, case: Case) -> str:
        from . import participants

        return participants.check(case.draw)
