"""The target of a triple that has no description of ours: what LLVM says of it, and what it makes of probes.

A probe is a function of one instruction. Where its object needs a function of a library, or LLVM gives up, the
machine lacks the instruction; what every program needs must be there, else the triple is refused by name.
"""

from __future__ import annotations

import functools
import re
from contextlib import suppress
from dataclasses import replace

import llvmlite.binding as binding

from axla.codegen import llvm
from axla.codegen.child import CHILD
from axla.codegen.object_files import sizes, symbols
from axla.core.errors import CompileError, UnsupportedError
from axla.target.machine import Caches, CpuTarget, ObjectForm

_FORMATS = {"ELF": "elf", "COFF": "coff", "MachO": "macho", "Wasm": "wasm"}
_OTHERS = {
    "amdgcn|r600|nvptx.*|spirv.*": "is a GPU: programs here are for CPUs",
    "bpf.*": "runs inside a kernel, without floats",
}  # fmt: skip
# What systems take for granted and LLVM does not, by architecture and environment: CPU, features, ABI.
_ASSUMED = {
    "i386-.*": ("pentium4", (), ""),  # without SSE2, floats have more digits than their type
    "(arm|thumb).*hf": ("", ("+vfp2", "-neon"), ""),  # NEON takes denormals for zero
    "(arm|thumb).*": ("", ("-neon",), ""),
    "loongarch64-.*": ("", ("+d",), "lp64d"),
    "loongarch32-.*": ("", ("+d",), "ilp32d"),
    "riscv64.*": ("", ("+m", "+a", "+f", "+d", "+c"), "lp64d"),
    "riscv32.*": ("", ("+m", "+a", "+f", "+d", "+c"), "ilp32d"),
}  # fmt: skip

# Result, type of %a and %b, instruction.
_INTEGERS = """
i32 i32 mul i32 %a, %b
i64 i64 mul i64 %a, %b
i64 i64 shl i64 %a, %b
i64 i64 lshr i64 %a, %b
i64 i64 ashr i64 %a, %b
i64 i64 call i64 @llvm.ctpop.i64(i64 %a)
i64 i64 call i64 @llvm.smax.i64(i64 %a, i64 %b)
"""
_FLOATS = """
T T fadd T %a, %b
T T fsub T %a, %b
T T fmul T %a, %b
T T fdiv T %a, %b
T T fneg T %a
T T call T @llvm.fabs.S(T %a)
T T call T @llvm.copysign.S(T %a, T %b)
i1 T fcmp olt T %a, %b
i1 T fcmp uno T %a, %b
i32 T fptosi T %a to i32
i32 T fptoui T %a to i32
T i32 sitofp i32 %a to T
T i32 uitofp i32 %a to T
"""
_DOUBLES = "double float fpext float %a to double\nfloat double fptrunc double %a to float"
_DIVISIONS = "\n".join(f"T T {opcode} T %a, %b" for opcode in ("sdiv", "udiv", "srem", "urem"))
_WIDE = """
i64 T fptosi T %a to i64
i64 T fptoui T %a to i64
T i64 sitofp i64 %a to T
T i64 uitofp i64 %a to T
"""
_ROUNDING = "\n".join(f"T T call T @llvm.{name}.S(T %a)" for name in ("floor", "ceil", "trunc", "roundeven"))
_FMA = "T T call T @llvm.fma.S(T %a, T %b, T %a)"
_EXTREMES = "\n".join(f"T T call T @llvm.{name}.S(T %a, T %b)" for name in ("maximum", "minimum"))
_ROOT = "T T call T @llvm.sqrt.S(T %a)"
_ZEROS = "T T call T @llvm.ctlz.S(T %a, i1 false)"
_HALVES = "float half fpext half %a to float\nhalf float fptrunc float %a to half"
_SHORT = {"float": "f32", "double": "f64"}


_SUM = """
define void @f(ptr %p) nounwind {{
  %q = getelementptr i8, ptr %p, i64 64
  %x = load {0}, ptr %p, align 4
  %y = load {0}, ptr %q, align 4
  %z = fmul {0} %x, %y
  %s = fadd {0} %z, %y
  store {0} %s, ptr %p, align 4
  ret void
}}
"""


def known(name: str) -> str:
    """The triple as LLVM wants it, with all its parts; "" where the bundled LLVM knows no such machine."""
    llvm.initialise()
    with llvm.LOCK:
        parts = binding.get_triple_parts(name)
        arch, *rest = name.lower().split("-")
        words = (next((word for word in rest if word.startswith(part)), part) for part in (parts.OS, parts.Env))
        try:
            triple = "-".join((arch, parts.Vendor, *words)).removesuffix("-unknown")
            return binding.Target.from_triple(triple).triple if rest else ""
        except RuntimeError:
            return ""


@functools.cache
def triple_target(name: str, cpu: str | None = None, features: tuple[str, ...] = ()) -> CpuTarget:
    """The target of a triple that LLVM knows; UnsupportedError with the reason where programs cannot be had."""
    target = _bare(name, cpu, features)
    for what, rows in {"64-bit integers": _INTEGERS, "f32": _of("float", _FLOATS)}.items():
        if why := _needs(target, rows):
            raise UnsupportedError(f"target {name}: {why}, for {what}")
    floats = ("float",) if _needs(target, _of("double", _FLOATS), _DOUBLES) else ("float", "double")

    def has(*rows: str) -> bool:
        return not _needs(target, *rows)

    found = replace(
        target, has_double="double" in floats, has_fma=has(_of("float", _FMA), _of(floats[-1], _FMA)),
        has_rounding=has(*(_of(kind, _ROUNDING) for kind in floats)), has_half_conversion=has(_HALVES),
        has_division=has(_of("i32", _DIVISIONS)),
        has_wide_division=has(_of("i64", _DIVISIONS), *(_of(kind, _WIDE) for kind in floats)),
        has_maximum=has(*(_of(kind, _EXTREMES) for kind in floats)),
        has_square_root=has(*(_of(kind, _ROOT) for kind in floats)),
        has_leading_zeros=has(_of("i32", _ZEROS), _of("i64", _ZEROS)),
    )  # fmt: skip
    with suppress(CompileError):
        one, four = (sizes(CHILD.emit_object(_SUM.format(t), target)).code for t in ("float", "<4 x float>"))
        if four < 2 * one:  # instructions of vectors, not four of each
            return replace(found, vector_bytes=16, max_lanes=64, blocks_products=True, unroll=(1, 4))
    return found


def _bare(name: str, cpu: str | None, features: tuple[str, ...]) -> CpuTarget:
    """A target of which LLVM's layout of data is known, and nothing that it can do."""
    triple = known(name)
    with llvm.LOCK:
        parts = binding.get_triple_parts(triple)
    why = next((why for row, why in _OTHERS.items() if re.fullmatch(row, parts.Arch)), "")
    if parts.ObjectFormat not in _FORMATS:
        why = why or f"its object files are {parts.ObjectFormat}; there are {', '.join(_FORMATS)}"
    if why:
        raise UnsupportedError(f"target {name}: {why}")
    system = f"{parts.Arch}-{parts.Env}"
    usual, more, abi = next((v for row, v in _ASSUMED.items() if re.fullmatch(row, system)), ("", (), ""))
    words = {word[1:]: word for word in (*more, *features)}  # a later word wins
    form = ObjectForm(_FORMATS[parts.ObjectFormat], abi=abi, code_model="default")
    if form.format == "coff":
        form = replace(form, attributes='"no-stack-arg-probe"')
    if form.format == "wasm" or re.search(r"-(none|elf|eabi\w*)$|-none-", name):
        form = replace(form, relocation="static")
    target = CpuTarget(
        name, triple, usual if cpu is None else cpu, frozenset(words.values()), max_lanes=1,
        blocks_products=False, unroll=(1, 2), caches=Caches(32 << 10, 256 << 10), form=form,
    )  # fmt: skip
    layout = CHILD.data_layout(target)
    bits = int((re.search(r"-p:(\d+)", layout) or ("", 64))[1])
    if bits < 32:
        raise UnsupportedError(f"target {name}: addresses of {bits} bits; programs need 32 or 64")
    form = replace(form, pointer_bytes=bits // 8, byte_order="big" if layout[0] == "E" else "little")
    return replace(target, form=form, index_type=f"i{bits}", vector_bytes=bits // 8)


def _of(kind: str, rows: str) -> str:
    """Rows for a type in the place of T."""
    return re.sub(r"\bT\b", kind, rows).replace(".S(", f".{_SHORT.get(kind, kind)}(")


def _needs(target: CpuTarget, *rows: str) -> str:
    """What keeps a machine from doing some instructions by itself; "" where nothing does."""
    functions = []
    for number, row in enumerate(filter(None, "\n".join(rows).splitlines())):
        result, kind, instruction = row.split(" ", 2)
        head = f"define {result} @f{number}({kind} %a, {kind} %b)"
        functions.append(f"{head} nounwind {{\n %c = {instruction}\n ret {result} %c\n}}")
    try:
        needed = symbols(CHILD.emit_object("\n".join(functions), target)).needed
    except CompileError as error:
        return error.message.removeprefix(f"target {target.name}: ")
    except ValueError:
        raise UnsupportedError(f"target {target.name}: its object files are of a kind that is not read") from None
    more = f" and {len(needed) - 1} other functions" * (len(needed) > 1)
    return f"LLVM calls {min(needed)}{more} of a library" if needed else ""
