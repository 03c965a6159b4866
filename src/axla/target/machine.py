"""Target machines: all facts that passes and code generation may use about a machine.

Code reads the facts of a `Target`, and never asks which machine it is. `CpuTarget` describes every CPU, the
one-lane machine included; `nvptx_target` returns an NVIDIA GPU. Targets are values: equal targets give equal
code. `axla.codegen.host.host_target` returns the target of the running machine, which only LLVM knows.
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
    """Instruction sets that vector math may use through the intrinsics of LLVM."""

    avx512: bool = False  # scalef, getexp, getmant, rsqrt14 on 128, 256 and 512 bits


@dataclass(frozen=True, slots=True)
class Caches:
    """The sizes, in bytes, of the data caches for which kernels are planned. They are typical of a class of
    CPU, and not read from the machine.
    """

    l1: int = 32 << 10
    l2: int = 1 << 20


MOST_ACCESS = 8  # elements: for smaller types, more would make code longer, but not faster
ALIGNMENT = 64  # one cache line, and the alignment of the widest vector store (AVX-512)


def aligned(size: int) -> int:
    """`size` bytes, rounded up to ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds for kernels, registers and threads of a machine. The defaults are those of a CPU.

    Operations are counted per element of an array. A function is an expensive operation: exp, tanh, divide...
    """

    # For code in registers, inline in the entry
    tiny: int = 16  # the most elements of an array in registers
    line: int = 4_000  # most operations inline: a block of 8,000 takes LLVM 0.5 s, one of 32,000 3.7 s
    line_kernel: int = 256  # operations that make as much code inline as a kernel and its call
    line_function: int = 60  # operations that make as much code as an inlined function
    line_call: int = 12  # from this number of instructions, a computation is called rather than inlined
    constant_bytes: int = 256  # the most bytes of a constant inside code
    line_block: int = 500  # instructions after which code polls, which ends a basic block
    pieces: int = 64  # the most operands of a concatenation in one kernel

    reads_elements: bool = True  # code in registers may load from, and store into, larger arrays in memory

    # For heroes of kernels
    sorts_in_place: bool = True  # sorts may overwrite operands; thread blocks write before all is read
    scans: bool = True  # a reduce-window that is a scan has a kernel kind of its own
    inner_row: int = 8  # a reduce of rows this short is a loop within an element, with strided loads
    row_in_lane: int = 8  # rows this short are computed whole by one lane, with the ops that read their sums
    inner_column: int = 32  # a reduce of columns this short is unrolled within an element
    hero_piece: int = 64  # elements: smaller operands of a concatenation are selected from, not looped over
    chosen_pieces: int = 3  # operands: reading so many and selecting one is faster than storing one
    hero_transpose: int = 256  # elements: for smaller transposes, blocks do not pay
    hero_minor: int = 4  # a smaller minor dimension does not fill a block

    # For fusion into one kernel
    members: int = 200  # the most instructions: beyond, LLVM's time grows faster than linearly
    operands: int = 24  # the most operands: a loop keeps their pointers in registers or L1
    emitted: int = 400  # the most (instruction, key) pairs, each of which is emitted
    roots: int = 12
    whole_row: int = 8192  # elements: a longer single row is reduced by all threads, in a kernel of its own
    cheap_work: float = 4  # how often a cheap value may be computed instead of being stored
    costly_work: float = 1.5  # how often a costly value may be: for overlapping windows at most

    # For the division of work
    parts: int = 64  # the most pieces with scratch memory of their own
    unit_work: int = 1 << 18  # multiply-adds of a unit of a matrix product (some 5 us)
    vector_work: int = 1 << 17  # multiply-adds of a unit of a product with a vector
    transpose_block: int = 32  # rows and columns of a transpose's block: its input lines stay in L1
    column_rows: int = 8  # rows combined at once: as many streams as a prefetcher follows
    busy_blocks: int = 1024  # thread blocks that keep a whole device busy
    column_bytes: int = 4096  # bytes of a row in a step: long for the prefetcher, sums short enough for L1

    # Time
    function_cost: int = 12  # operations that take as long as a function
    parallel_cost: int = 100_000  # operations of a kernel (some 20 us) for which other threads are used
    chunk_cost: int = 60_000  # operations of a range of a parallel kernel
    step_cost: int = 60_000  # operations of a step of a loop


@dataclass(frozen=True, slots=True)
class ObjectForm:
    """The form of a machine's object files. `attributes` are LLVM attributes of every function of a
    module.
    """

    format: str = "elf"  # elf, coff, macho, wasm, spirv, or ptx (text)
    pointer_bytes: int = 8
    byte_order: Literal["little", "big"] = "little"  # of numbers in memory
    abi: str = ""  # LLVM's name of the ABI, if the triple does not determine it
    relocation: str = "pic"
    code_model: str = "small"
    attributes: str = ""
    externals: frozenset[str] = frozenset()  # functions that the linked program must define


@dataclass(frozen=True, slots=True)
class Target:
    """All facts about a machine that emitters and `value.Values` use; the defaults are those of a plain CPU.

    A field such as `has_fma` is true if the operation is one fast instruction on the machine, not a library
    call.
    """

    name: str  # short, as keys of kernels and names of dump files contain it
    triple: str
    cpu: str
    features: frozenset[str] = frozenset()  # of LLVM, besides those of `cpu`, each with its sign: `+avx2`
    index_type: str = "i64"  # LLVM type of index arithmetic, `i64` or `i32`
    vector_bytes: int = 16
    max_lanes: int = 64
    most_elements: int = 1 << 16  # elements of an LLVM vector; a complex number counts twice
    has_fma: bool = False  # else `llvm.fma` is a library call: never emitted
    has_rounding: bool = False  # floor, ceil, trunc and roundeven
    has_half_conversion: bool = False  # f32 to and from f16
    has_half: bool = False  # f16 arithmetic
    has_division: bool = True  # of 32-bit integers
    has_wide_division: bool = True  # of 64-bit integers, also their conversions from and to floats
    has_double: bool = True  # f64 arithmetic
    has_maximum: bool = True  # maximum and minimum of floats that return NaN if an operand is NaN
    has_ordered_maximum: bool = False  # maximum and minimum that return the second operand if one is NaN
    keeps_nan: bool = False  # arithmetic returns an operand's NaN, quieted, or the default NaN
    has_square_root: bool = True  # of floats
    has_leading_zeros: bool = True  # counts leading zeros
    has_fast_gather: bool = False
    has_masked: bool = False  # masked loads and stores cost about as much as plain ones (AVX-512, SVE)
    blocks_products: bool = (
        True  # products by micro-kernel tiles; without these and thread blocks they are loops
    )
    local_bytes: int = 0  # local memory of the threads of a step; products by thread blocks need it
    matrix_units: frozenset[str] = frozenset()  # names of operand types of tensor cores
    unroll: tuple[int, int] = (1, 4)  # (least, most) independent chains of operations that are interleaved
    registers: int = 16  # vector registers, of `vector_bytes` each
    caches: Caches = Caches()
    math: MathKnobs = field(default_factory=MathKnobs)
    intrinsics: frozenset[str] = frozenset()  # names, without `llvm.`, of those of this machine only
    flushes: bool = False  # denormals may be treated as zero, if that is faster
    threads: int = 1  # the most threads that share a step of a kernel: a power of two
    warp: int = 1  # threads that exchange values without a barrier
    access_bytes: int = 0  # adjacent bytes that one of several threads of a step loads at once
    limits: Limits = Limits()
    launched: bool = False  # a block of `threads` runs a step; else a thread is called with a range
    form: ObjectForm = ObjectForm()  # how its object files are made

    def __hash__(self) -> int:
        return hash((self.name, self.cpu, self.features))  # a hash of all fields would take long

    def lanes(self, widest: DType) -> int:
        """The number of lanes of a kernel whose widest element type is `widest`: as many as fit in a
        register. Floats of less than 32 bits are computed as f32, and count as such.
        """
        bits = widest.real.bits
        width = max(bits, 32) if widest.is_inexact else max(bits, 8)
        most = min(self.max_lanes, self.most_elements // 2 if widest.is_complex else self.most_elements)
        return max(1, min(most, self.vector_bytes * 8 // width))

    def access_lanes(self, widest: DType) -> int:
        """The number of adjacent elements that a thread computes at once in a kernel whose widest element
        type is `widest`: the lanes, or more if several threads share a step.
        """
        width = max(widest.bits, 32) if widest.is_inexact else max(widest.bits, 8)
        return max(self.lanes(widest), min(MOST_ACCESS, self.access_bytes * 8 // width))


@dataclass(frozen=True, slots=True, eq=False)  # equality and hash are those of Target
class CpuTarget(Target):
    """A CPU: LLVM's names for it, and the facts that follow from them."""


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


# Architecture -> feature -> the facts that it implies. Features that are not listed imply no fact of a
# Target.
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
# Feature -> the features in these tables that it includes.
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
    """The name of a triple's architecture, as a key of `_IMPLIED`; "" for an architecture without features in
    that table.
    """
    arch = triple.split("-")[0]
    if arch.startswith(("aarch64", "arm64")):
        return "aarch64"
    return next((name for prefix, name in _FAMILIES.items() if arch.startswith(prefix)), "")


def with_features(target: CpuTarget, features: Sequence[str]) -> CpuTarget:
    """The target with LLVM features added (`+fma`) or removed (`-avx2`), and the facts that follow: lanes,
    fused multiply-add, rounding, conversions. If a feature occurs twice, the last one counts.

    A target without a feature is like one that never had it: without `avx2`, registers have 128 bits.
    """
    table = _IMPLIED.get(_family(target.triple), {})
    present = {one for one, facts in table.items() if all(_at_least(target, *fact) for fact in facts.items())}
    changed: set[str] = set()
    for word in features:
        sign, name = word[:1], word[1:]
        if sign not in ("+", "-") or not name:
            raise InvalidArgument(f"feature {word!r}: must be + or - and the name of an LLVM feature")
        if sign == "+":
            touched = {name, *_CONTAINS.get(name, ())}
            present |= touched
        else:  # features that include it are removed too
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
    """Whether the fact `fact` of a target has the value `value` or a higher one (for a set, a superset)."""
    have = getattr(target, fact)
    return have >= value if isinstance(value, int | frozenset) else have == value


def cpu_target(cpu: str = "x86-64-v3", triple: str | None = None) -> CpuTarget:
    """The Linux target of an x86-64 level, or of `generic` or `aarch64`; KeyError for another CPU.
    `axla.target.names` has all targets.
    """
    found = AARCH64 if cpu in ("aarch64", "generic") else X86_LEVELS[cpu]
    return replace(found, triple=triple) if triple else found
