"""Machines: all facts that passes and code generation may assume.

A `Target` answers questions; nobody asks it what it is. `CpuTarget` serves every CPU, the one-lane machine
included, `nvptx_target` an NVIDIA GPU. Targets are values: equal targets give equal code. That of the running
machine, which only LLVM knows, is `axla.codegen.host.host_target`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Literal

from axla.core.dataclass import dataclass
from axla.core.dtypes import DType
from axla.core.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class MathKnobs:
    """Machine instructions that vector math may use by the name of their intrinsic."""

    avx512: bool = False  # scalef, getexp, getmant, rsqrt14 on 128, 256 and 512 bits


@dataclass(frozen=True, slots=True)
class Caches:
    """Bytes of the data caches a kernel is planned for: typical of the class of CPU, not read from it."""

    l1: int = 32 << 10
    l2: int = 1 << 20


MOST_ACCESS = 8  # elements; of the smallest, 16 bytes would be longer code than they are worth
ALIGNMENT = 64  # one cache line, and what the widest vector store (AVX-512) needs


def aligned(size: int) -> int:
    """`size` bytes, and as many more as alignment takes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds of a machine for kernels, registers and threads. The numbers are those of a CPU.

    Operations are those on single elements. A function is one of the expensive ones: exp, tanh, divide...
    """

    # In registers, and in line
    tiny: int = 16  # elements of an array that registers hold
    line: int = 4_000  # operations: a basic block of 8,000 takes LLVM 0.5 s, one of 32,000 takes 3.7 s
    line_kernel: int = 256  # operations that are as long in line as a kernel and its call
    line_function: int = 60  # operations that a function is as long as in line
    line_call: int = 12  # instructions from which on a function is worth a call
    constant_bytes: int = 256  # of a constant that stands in code
    line_block: int = 500  # values in a row before the code polls, which ends a basic block
    pieces: int = 64  # of a concatenation that is one kernel

    reads_elements: bool = True  # registers are filled from, and stored into, bigger arrays in memory

    # What a kernel is built around
    sorts_in_place: bool = True  # not by blocks of threads, which write before all is read
    scans: bool = True  # windows over all before an element are a kernel of their own
    inner_row: int = 8  # a row this short is one strided load per lane of neighbouring rows
    row_in_lane: int = 8  # a row this short is computed whole by each lane, with what reads its sums
    inner_column: int = 32  # a column this short is unrolled in registers
    hero_piece: int = 64  # pieces of a concatenation below this are cheaper to select from than to loop over
    chosen_pieces: int = 3  # so many are read, and all but one dropped, in less time than storing one takes
    hero_transpose: int = 256  # elements; below, blocks do not pay
    hero_minor: int = 4  # a minor dimension below this fits no block

    # What goes into one kernel
    members: int = 200  # instructions: LLVM's time grows faster than linearly beyond
    operands: int = 24  # pointers that a loop keeps in registers or close
    emitted: int = 400  # (instruction, index) pairs: what is really emitted
    roots: int = 12
    whole_row: int = 8192  # elements; a longer single row is reduced by all threads, in a kernel of its own
    cheap_work: float = 4  # times that something cheap may be computed rather than stored
    costly_work: float = 1.5  # the same for something costly: overlapping windows at most

    # How its work is cut
    parts: int = 64  # most pieces that have scratch memory of their own
    unit_work: int = 1 << 18  # multiply-adds of a product (some 5 us) that are worth handing out
    vector_work: int = 1 << 17  # the same for a product with a vector
    turned_block: int = 32  # rows and columns of a transpose's block: its lines of input stay in L1
    column_rows: int = 8  # rows combined at once: so many streams a prefetcher follows
    busy_blocks: int = 1024  # blocks of threads that keep a whole device busy
    column_bytes: int = 4096  # of a row that a step covers: long for the prefetcher, sums short enough for L1

    # Time
    function_cost: int = 12  # operations that a function takes as long as
    parallel_cost: int = 100_000  # operations of a kernel (some 20 us) that are worth waking another thread
    chunk_cost: int = 60_000  # operations of one piece of a parallel kernel, which a thread is given
    step_cost: int = 60_000  # operations that one step of a loop should have, to be worth handing out


@dataclass(frozen=True, slots=True)
class ObjectForm:
    """How object files of a machine are made. `attributes`: LLVM's, of every function of a module."""

    format: str = "elf"  # elf, coff, macho or wasm; spirv; ptx, which is text
    pointer_bytes: int = 8
    byte_order: Literal["little", "big"] = "little"  # of numbers in memory
    abi: str = ""  # LLVM's name, where the triple does not say it
    relocation: str = "pic"
    code_model: str = "small"
    attributes: str = ""
    externals: frozenset[str] = frozenset()  # functions that whoever links an object brings


@dataclass(frozen=True, slots=True)
class Target:
    """Everything that emitters and `value.Values` ask about a machine; the defaults are those of a plain CPU.

    An instruction that a machine has is one fast instruction there, not a library call.
    """

    name: str  # short: part of kernel keys and dump file names
    triple: str
    cpu: str
    features: frozenset[str] = frozenset()  # of LLVM's, beyond those of `cpu`, each with its sign: `+avx2`
    index_type: str = "i64"  # LLVM type of index arithmetic, `i64` or `i32`
    vector_bytes: int = 16
    max_lanes: int = 64
    most_elements: int = 1 << 16  # of a vector of LLVM's; the parts of complex numbers count
    has_fma: bool = False  # else `llvm.fma` is a library call: never emitted
    has_rounding: bool = False  # floor, ceil, trunc and roundeven
    has_half_conversion: bool = False  # f32 to and from f16
    has_half: bool = False  # f16 arithmetic
    has_division: bool = True  # of 32-bit integers
    has_wide_division: bool = True  # of 64-bit integers, which are made from and into floats, too
    has_double: bool = True  # f64 arithmetic
    has_maximum: bool = True  # of floats, also minimum, where NaN wins
    has_ordered_maximum: bool = False  # also minimum, where the second one wins over and under NaN
    keeps_nan: bool = (
        False  # arithmetic gives an operand's NaN, quiet, or one with no more than the highest bits
    )
    has_square_root: bool = True  # of floats
    has_leading_zeros: bool = True  # counts them
    has_fast_gather: bool = False
    has_masked: bool = False  # masked loads and stores cost about as much as plain ones (AVX-512, SVE)
    blocks_products: bool = (
        True  # products by the tiles of CPUs; with neither these nor blocks they are loops
    )
    local_bytes: int = 0  # of memory that the threads of a step share; products by blocks of threads need it
    matrix_units: frozenset[str] = frozenset()  # types of the operands of tensor cores
    unroll: tuple[int, int] = (1, 4)  # fewest and most independent chains worth keeping in flight
    registers: int = 16  # of `vector_bytes`
    caches: Caches = Caches()
    math: MathKnobs = field(default_factory=MathKnobs)
    intrinsics: frozenset[str] = frozenset()  # without `llvm.`: instructions here, nowhere else
    flushes: bool = False  # denormals may be taken for zero, where that is faster
    threads: int = 1  # most threads that run one step of a kernel together: a power of two
    warp: int = 1  # threads of a step that exchange values without waiting for others
    access_bytes: int = 0  # that a thread of several in a step loads at once, where they lie in a row
    limits: Limits = Limits()
    launched: bool = False  # blocks of `threads` run a kernel's step; else a thread is called with a range
    form: ObjectForm = ObjectForm()  # how its object files are made

    def __hash__(self) -> int:
        return hash((self.name, self.cpu, self.features))  # of all its limits, it would take long

    def lanes(self, widest: DType) -> int:
        """How many lanes a kernel has whose widest element type is `widest`: those of its registers. Floats
        under 32 bits are computed, hence counted, as f32.
        """
        bits = widest.real.bits
        width = max(bits, 32) if widest.is_inexact else max(bits, 8)
        most = min(self.max_lanes, self.most_elements // 2 if widest.is_complex else self.most_elements)
        return max(1, min(most, self.vector_bytes * 8 // width))

    def access_lanes(self, widest: DType) -> int:
        """How many elements beside each other a thread of a loop takes at once: lanes, and more where threads
        share a step.
        """
        width = max(widest.bits, 32) if widest.is_inexact else max(widest.bits, 8)
        return max(self.lanes(widest), min(MOST_ACCESS, self.access_bytes * 8 // width))


@dataclass(frozen=True, slots=True, eq=False)  # Target says what is equal, and hashes it fast
class CpuTarget(Target):
    """A CPU, described by LLVM's words for it and by what they imply."""


LINUX_X86 = "x86_64-unknown-linux-gnu"

_SSE = CpuTarget(
    "x86-64",
    LINUX_X86,
    "x86-64",
    caches=Caches(32 << 10, 256 << 10),
    has_ordered_maximum=True,
    keeps_nan=True,
)
_SSE4 = replace(_SSE, name="x86-64-v2", cpu="x86-64-v2", has_rounding=True)
_AVX2 = replace(
    _SSE4, name="x86-64-v3", cpu="x86-64-v3", vector_bytes=32, has_fma=True, has_half_conversion=True,
    unroll=(2, 8), caches=Caches(32 << 10, 512 << 10),
)  # fmt: skip
_AVX512 = replace(
    _AVX2, name="x86-64-v4", cpu="x86-64-v4", features=frozenset({"-prefer-256-bit"}), vector_bytes=64,
    has_fast_gather=True, has_masked=True, registers=32, caches=Caches(32 << 10, 1 << 20),
    math=MathKnobs(avx512=True),
)  # fmt: skip
X86_LEVELS = {target.cpu: target for target in (_SSE, _SSE4, _AVX2, _AVX512)}

AARCH64 = CpuTarget(
    "aarch64", "aarch64-unknown-linux-gnu", "generic", has_fma=True, has_rounding=True,
    has_half_conversion=True, keeps_nan=True, unroll=(2, 8), registers=32, caches=Caches(64 << 10, 1 << 20),
)  # fmt: skip


# Feature: what its presence implies, and what its absence does. Others imply nothing that we ask.
_IMPLIED: dict[str, dict[str, dict[str, object]]] = {
    "x86": {
        "fma": {"has_fma": True},
        "f16c": {"has_half_conversion": True},
        "sse4.1": {"has_rounding": True},
        "avx2": {"vector_bytes": 32},
        "avx512vl": {"vector_bytes": 64, "registers": 32, "has_masked": True, "has_fast_gather": True,
                     "math": MathKnobs(avx512=True)},
        "avx512vnni": {"intrinsics": frozenset({"x86.avx512.vpdpbusd", "x86.avx512.vpdpwssd"})},
        "avx512fp16": {"has_half": True},
        "avx512bf16": {"intrinsics": frozenset({"x86.avx512bf16.dpbf16ps"})},
    },
    "arm": {
        "vfp4d16sp": {"has_fma": True},
        "hwdiv-arm": {"has_division": True},
        "fp64": {"has_double": True},
        "fp-armv8d16sp": {"has_rounding": True},
        "neon": {"vector_bytes": 16, "max_lanes": 16},
    },
    "riscv": {
        "m": {"has_division": True},
        "d": {"has_double": True},
        "zfhmin": {"has_half_conversion": True},
        "v": {"vector_bytes": 16, "max_lanes": 64, "registers": 32},
    },
    "wasm": {"simd128": {"vector_bytes": 16, "max_lanes": 64}},
    "aarch64": {"fullfp16": {"has_half": True},
                "dotprod": {"intrinsics": frozenset({"aarch64.neon.sdot", "aarch64.neon.udot"})},
                "bf16": {"intrinsics": frozenset({"aarch64.neon.bfdot"})}},
}  # fmt: skip
# Feature: features that it contains, by which facts follow.
_CONTAINS = {
    "avx512f": ("fma", "f16c", "avx2", "sse4.1"), "avx512vl": ("avx512f", "fma", "f16c", "avx2", "sse4.1"),
    "avx512vnni": ("avx512f", "fma", "f16c", "avx2", "sse4.1"),
    "avx512fp16": ("avx512f", "fma", "f16c", "avx2", "sse4.1"),
    "avx512bf16": ("avx512f", "fma", "f16c", "avx2", "sse4.1"),
    "avx2": ("avx", "sse4.1"), "avx": ("sse4.1",), "fma": ("avx", "sse4.1"), "f16c": ("avx", "sse4.1"),
    "sse4.2": ("sse4.1",), "vfp4": ("vfp4d16sp", "fp64"), "vfp4d16": ("vfp4d16sp", "fp64"),
    "zfh": ("zfhmin",),
    "fp-armv8d16": ("fp-armv8d16sp", "vfp4d16sp", "fp64"), "fp-armv8d16sp": ("vfp4d16sp",),
}  # fmt: skip


_FAMILIES = {"x86_64": "x86", "i686": "x86", "arm": "arm", "thumb": "arm", "riscv": "riscv", "wasm": "wasm"}


def _family(triple: str) -> str:
    """The key in `_IMPLIED` of a triple's architecture; "" for one that has no features there."""
    arch = triple.split("-")[0]
    if arch.startswith(("aarch64", "arm64")):
        return "aarch64"
    return next((name for prefix, name in _FAMILIES.items() if arch.startswith(prefix)), "")


def with_features(target: CpuTarget, features: Sequence[str]) -> CpuTarget:
    """The target with features of LLVM's added (`+fma`) or taken away (`-avx2`), and with what follows from
    it: lanes, fused multiply-add, rounding, conversions. A later word wins.

    What a target lacks is done as by one that never had it: without `avx2` in registers of 128 bits.
    """
    table = _IMPLIED.get(_family(target.triple), {})
    present = {one for one, facts in table.items() if all(_at_least(target, *fact) for fact in facts.items())}
    changed: set[str] = set()
    for word in features:
        sign, name = word[:1], word[1:]
        if sign not in ("+", "-") or not name:
            raise InvalidArgument(f"feature {word!r}: wanted + or - and one of LLVM's features")
        if sign == "+":
            touched = {name, *_CONTAINS.get(name, ())}
            present |= touched
        else:  # what contains the feature goes with it
            touched = {name, *(outer for outer, inner in _CONTAINS.items() if name in inner)}
            present -= touched
        changed |= touched
    facts: dict[str, Any] = {key: _LEAST[key] for one in changed for key in table.get(one, ())}
    for one, implied in table.items():
        if one in present:
            for key in implied.keys() & facts.keys():
                value = implied[key]
                facts[key] = facts[key] | value if isinstance(value, frozenset) else value
    if target.max_lanes == 1 and facts.get("max_lanes", 1) == 1:
        facts = {key: value for key, value in facts.items() if key not in _VECTORS_ONLY}
    last = {word[1:]: word for word in features}
    kept = {old for old in target.features if old[1:] not in last}
    return replace(target, features=frozenset(kept | set(last.values())), **facts)


_LEAST: dict[str, object] = {
    "has_fma": False, "has_half_conversion": False, "has_rounding": False, "has_double": False,
    "has_division": False, "has_masked": False, "has_fast_gather": False, "vector_bytes": 16, "registers": 16,
    "max_lanes": 1, "has_half": False, "intrinsics": frozenset(),
    "math": MathKnobs(),
}  # fmt: skip
_VECTORS_ONLY = ("has_masked", "has_fast_gather", "math", "intrinsics")


def _at_least(target: CpuTarget, fact: str, value: object) -> bool:
    """Whether the target has a fact, or more of it."""
    have = getattr(target, fact)
    return have >= value if isinstance(value, int | frozenset) else have == value


def cpu_target(cpu: str = "x86-64-v3", triple: str | None = None) -> CpuTarget:
    """The Linux target of an x86-64 level, `generic` or `aarch64`; KeyError for another CPU. All machines
    there are: `axla.target.names`.
    """
    found = AARCH64 if cpu in ("aarch64", "generic") else X86_LEVELS[cpu]
    return replace(found, triple=triple) if triple else found
