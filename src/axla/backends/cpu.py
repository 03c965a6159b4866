"""The backends `cpu` and `one-lane`. They compile to native code for this machine; `one-lane` uses no vector
instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from axla.backends.executable import Executable
from axla.backends.interface import Backend, Capabilities, Client
from axla.backends.native import NativeExecutable
from axla.backends.options import CompileOptions
from axla.backends.parallel import Programs, run_parallel
from axla.backends.prepare import has_whole_arrays
from axla.core import flags
from axla.core.errors import InvalidArgument, UnsupportedError, did_you_mean
from axla.core.literal import Literal
from axla.core.profile import Row
from axla.custom.built_in import BUILT_IN
from axla.ir.graph import Module
from axla.ir.places import located
from axla.passes.expand.parallel import TARGET
from axla.program.packed import Packed, decode, encode
from axla.runtime.array import Array
from axla.target.machine import X86_LEVELS, CpuTarget, cpu_target, with_features

MOST = 256
"""The largest number of participants of a program."""


class CpuBackend(Backend):
    """Compiles modules to native code for this machine."""

    name = "cpu"
    about = "native code for this machine, by LLVM"
    any_devices = copies_constants = True
    capabilities = Capabilities(MOST, {"participants": f"each is a thread, and there are at most {MOST}"})

    def target(self, options: CompileOptions) -> CpuTarget:
        """The target of code generation for these options. UnsupportedError if this machine cannot run its
        code.
        """
        from axla.codegen.host import host_target

        host, cpu = host_target(), options.target_cpu
        if cpu is None:
            return _with_features(host, options)
        names = [*X86_LEVELS] if host.name in X86_LEVELS else [host.name]
        if cpu not in names:
            raise InvalidArgument(
                f"compile: target_cpu={cpu!r}, wanted one of {', '.join(names)}{did_you_mean(cpu, names)}"
            )
        if names.index(cpu) > names.index(host.name):
            raise UnsupportedError(f"compile: target_cpu={cpu!r}, but this machine is of level {host.name}")
        return _with_features(cpu_target(cpu, host.triple), options)

    def made(self, client: Client, module: Module, options: CompileOptions) -> Executable:
        """Returns an executable for a module. The cache is searched by the module's text first: if it has the
        program, the module was already verified.
        """
        from axla.cpu import programs

        if has_whole_arrays(module):
            return super().made(client, module, options)
        key = self._key(module, options)
        found = programs.found(key)
        if found is None:
            module = self.verified(module, options)
            found = self._new(module, options, key)
        return _executable(found, client, options, module)

    def compile(self, client: Client, module: Module, options: CompileOptions) -> Executable:
        """Compiles a module to machine code for `target(options)`. Code for equal modules comes from the
        cache.
        """
        return _executable(self.compiled(module, options), client, options, module)

    def compiled(self, module: Module, options: CompileOptions) -> Packed:
        """Returns the machine code of a module, from the cache if it is there."""
        from axla.cpu import programs

        key = self._key(module, options)
        return programs.found(key) or self._new(module, options, key)

    def _key(self, module: Module, options: CompileOptions) -> str | None:
        from axla.cpu import programs

        donate, counts = tuple(options.donate or ()), options.participants(module)
        return programs.program_key(module, self.target(options), self.name, donate, counts)

    def _new(self, module: Module, options: CompileOptions, key: str | None) -> Packed:
        from axla.cpu import programs

        work, target = self.work(module, options), self.target(options)
        with located(module.file, module):
            return programs.compiled(work, target, key)

    def execute_parallel(
        self, modules: Sequence[Module], rows: Sequence[Sequence[Any]], deadline: float | None = None
    ) -> list[list[Array]]:  # fmt: skip
        """Compiles the modules and runs them at the same time, each as one participant with its own row of
        arguments. Returns the results of each; `deadline` limits the runs, in seconds.
        """
        return Programs([[module] for module in modules], self.compiled).run(rows, deadline)

    def load(self, client: Client, payload: bytes, options: CompileOptions) -> Executable:
        """Loads machine code, which runs in this process with all its permissions."""
        try:
            made = decode(payload)
        except ValueError as error:
            raise InvalidArgument(f"load: the bytes are not a compiled program of axla ({error})") from error
        client.check(made.interface.name, made.interface.participants, options)
        return _executable(made, client, options)

    def work(self, module: Module, options: CompileOptions) -> Module:
        """A copy of the module for the passes: the parameters whose indices are in `options.donate` are
        donated, and the numbers of participants are set.
        """
        from axla.lowering.donation import work_of

        work = work_of(module, options.donate)
        replicas, partitions = options.participants(module)
        work.set_config(replica_count=replicas, num_partitions=partitions)
        return work


BUILT_IN[TARGET] = partial(run_parallel, CpuBackend().compiled)


class OneLaneBackend(CpuBackend):
    """Compiles for this machine with vectors of one lane and 32-bit indices, as small devices need."""

    name = "one-lane"
    about = "the same compiler without vectors and with 32-bit indices, as for small devices"

    def target(self, options: CompileOptions) -> CpuTarget:
        """The target of code generation: this machine with one lane. InvalidArgument if the options name a
        CPU.
        """
        from axla.codegen.host import one_lane_target

        if options.target_cpu is not None:
            raise InvalidArgument(
                f"compile: the backend {self.name} has no option target_cpu, found {options.target_cpu!r}"
            )
        return _with_features(one_lane_target(), options)


cpu, one_lane = CpuBackend, OneLaneBackend


def _with_features(target: CpuTarget, options: CompileOptions) -> CpuTarget:
    if options.target_features is None:
        return target
    from axla.codegen.llvm import host_features

    known = host_features()
    for feature in options.target_features:
        if feature[:1] not in ("+", "-") or feature[1:] not in known:
            raise InvalidArgument(
                f"compile: target_features has {feature!r}; wanted + or - and one of LLVM's features"
            )
        if feature[0] == "+" and not known[feature[1:]]:
            raise UnsupportedError(f"compile: target_features has {feature!r}, which this machine lacks")
    return with_features(target, options.target_features)


class CpuExecutable(NativeExecutable):
    """A program that was compiled from a module to machine code of this machine."""

    __slots__ = ()

    stages = ("hlo", "optimized", "program", "llvm", "asm")

    def _payload(self) -> bytes:
        return encode(Packed(self._images, self.interface, self._loaded.constants() or b""))

    def _target(self) -> CpuTarget:
        return self._backend().target(self.options)

    def _text(self, stage: str) -> str:
        if stage == "hlo":
            return super()._text(stage)
        with flags.override(**dict(self.options.flags)):
            return text_of(self._work(), stage, self._target())

    def _timed(self) -> tuple[Packed, Sequence[Row]] | None:
        from axla.cpu.timed import timed_program

        if self._module is None:
            return None
        with flags.override(**dict(self.options.flags)):
            return timed_program(self._work(), self._target())

    def _optimized(self) -> Module:
        from axla.lowering.pipeline import optimize

        work = self._work()
        with flags.override(**dict(self.options.flags)):
            optimize(work, self._target())
        return work

    def _work(self) -> Module:
        return self._backend().work(self._source(), self.options)

    def _backend(self) -> CpuBackend:
        assert isinstance(self.client, Client) and isinstance(self.client.backend, CpuBackend)
        return self.client.backend


def _executable(
    code: Packed, client: Client, options: CompileOptions, module: Module | None = None
) -> CpuExecutable:
    return CpuExecutable(
        code.images, code.interface, code.constants, client=client, module=module, options=options
    )


def text_of(
    module: Module, stage: str, target: CpuTarget, constants: dict[Literal, int] | None = None
) -> str:
    """The text of a module at a compilation stage: "optimized", "program", "llvm" or "asm". The module is
    changed by the passes. `constants` receives the offset of each constant in the program's memory.
    """
    from axla.codegen.llvm import emit_assembly
    from axla.cpu.compiler import llvm_modules
    from axla.cpu.tuning import tuner
    from axla.lowering.pipeline import optimize, program_of
    from axla.program.text import print_program

    optimize(module, target)
    if stage == "optimized":
        return module.to_string(print_large_constants=True)
    program = program_of(module, target, constants, tuner(module, target))
    if stage == "program":
        return print_program(program)
    [text] = llvm_modules(program, target, parts=1)
    return text if stage == "llvm" else emit_assembly(text, target)
