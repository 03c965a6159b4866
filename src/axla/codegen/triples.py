"""The target for an LLVM triple without a description in axla: derived from LLVM's data layout and from
probes.

A probe is a function of one instruction. If its object file calls a library function, or LLVM fails, the
machine lacks the instruction. If every program needs the instruction, an UnsupportedError names the triple
and the library function.
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
    "amdgcn|r600|nvptx.*|spirv.*": "is a GPU; only CPUs are supported here",
    "bpf.*": "runs inside a kernel of an operating system, without floats",
}  # fmt: skip
# CPU, features and ABI that systems of an architecture and environment assume, but LLVM does not.
_ASSUMED = {
    "i386-.*": ("pentium4", (), ""),  # without SSE2, results have more digits than their type
    "(arm|thumb).*hf": ("", ("+vfp2", "-neon"), ""),  # NEON flushes denormals to zero
    "(arm|thumb).*": ("", ("-neon",), ""),
    "loongarch64-.*": ("", ("+d",), "lp64d"),
    "loongarch32-.*": ("", ("+d",), "ilp32d"),
    "riscv64.*": ("", ("+m", "+a", "+f", "+d", "+c"), "lp64d"),
    "riscv32.*": ("", ("+m", "+a", "+f", "+d", "+c"), "ilp32d"),
}  # fmt: skip

_SHORT = {"float": "f32", "double": "f64"}
_SUM = (
    "define void @f(ptr %p) nounwind {{\n %q = getelementptr i8, ptr %p, i64 64\n"
    " %x = load {0}, ptr %p, align 4\n %y = load {0}, ptr %q, align 4\n %z = fmul {0} %x, %y\n"
    " %s = fadd {0} %z, %y\n store {0} %s, ptr %p, align 4\n ret void\n}}"
)

# Probes are rows: type of the result, type of %a and %b, instruction.
_Rows = list[tuple[str, str, str]]


def _binary(kind: str, opcodes: str) -> _Rows:
    return [(kind, kind, f"{opcode} {kind} %a, %b") for opcode in opcodes.split()]


def _casts(kind: str, result: str, opcodes: str) -> _Rows:
    return [(result, kind, f"{opcode} {kind} %a to {result}") for opcode in opcodes.split()]


def _calls(kind: str, names: str, *more: str) -> _Rows:
    """Probes that call the intrinsics `names` (separated by spaces) on %a and the operands `more`."""
    given = ", ".join(("%a", *more)).replace("%", f"{kind} %")
    name = f"{kind} @llvm.{{}}.{_SHORT.get(kind, kind)}"
    return [(kind, kind, f"call {name.format(found)}({given})") for found in names.split()]


def _floats(kind: str) -> _Rows:
    """Probes for the float instructions that every program needs, on the LLVM type `kind`."""
    compares = [("i1", kind, f"fcmp {predicate} {kind} %a, %b") for predicate in ("olt", "uno")]
    casts = [*_casts(kind, "i32", "fptosi fptoui"), *_casts("i32", kind, "sitofp uitofp")]
    calls = [*_calls(kind, "fabs"), *_calls(kind, "copysign", "%b"), (kind, kind, f"fneg {kind} %a")]
    return [*_binary(kind, "fadd fsub fmul fdiv"), *compares, *calls, *casts]


def _wide(kind: str) -> _Rows:
    return [*_casts(kind, "i64", "fptosi fptoui"), *_casts("i64", kind, "sitofp uitofp")]


_INTEGERS = [
    *_binary("i32", "mul"), *_binary("i64", "mul shl lshr ashr"), *_calls("i64", "ctpop"),
    *_calls("i64", "smax", "%b"),
]  # fmt: skip
_DOUBLES = [*_casts("float", "double", "fpext"), *_casts("double", "float", "fptrunc")]
_HALVES = [*_casts("half", "float", "fpext"), *_casts("float", "half", "fptrunc")]


def known(name: str) -> str:
    """The triple in LLVM's normal form; "" if the bundled LLVM does not support such a machine."""
    if not re.fullmatch(r"[\w.+-]+", name):
        return ""
    llvm.initialise()
    with llvm.LOCK:
        parts = binding.get_triple_parts(name)
        arch, *rest = name.lower().split("-")
        words = (
            next((word for word in rest if word.startswith(part)), part) for part in (parts.OS, parts.Env)
        )
        try:
            triple = "-".join((arch, parts.Vendor, *words)).removesuffix("-unknown")
            return binding.Target.from_triple(triple).triple if rest else ""
        except RuntimeError:
            return ""


@functools.cache
def triple_target(name: str, cpu: str | None = None, features: tuple[str, ...] = ()) -> CpuTarget:
    """The target for a triple that LLVM supports. Raises UnsupportedError with the reason if there is
    none.
    """
    target = _bare(name, cpu, features)
    for what, rows in {"64-bit integers": _INTEGERS, "f32": _floats("float")}.items():
        if why := _needs(target, rows):
            raise UnsupportedError(f"target {name}: {why}, but programs need instructions for {what}")
    floats = ("float",) if _needs(target, [*_floats("double"), *_DOUBLES]) else ("float", "double")

    def has(*rows: _Rows) -> bool:
        return not _needs(target, sum(rows, []))

    divisions = "sdiv udiv srem urem"
    found = replace(
        target, has_double="double" in floats, has_fma=has(*(_calls(t, "fma", "%b", "%a") for t in floats)),
        has_rounding=has(*(_calls(t, "floor ceil trunc roundeven") for t in floats)),
        has_half_conversion=has(_HALVES), has_division=has(_binary("i32", divisions)),
        has_wide_division=has(_binary("i64", divisions), *map(_wide, floats)),
        has_maximum=has(*(_calls(t, "maximum minimum", "%b") for t in floats)),
        has_square_root=has(*(_calls(t, "sqrt") for t in floats)),
        has_leading_zeros=has(*(_calls(t, "ctlz", "i1 false") for t in ("i32", "i64"))),
    )  # fmt: skip
    with suppress(CompileError):
        one, four = (sizes(CHILD.emit_object(_SUM.format(t), target)).code for t in ("float", "<4 x float>"))
        if four < 2 * one:  # LLVM uses vector instructions, not four scalar ones of each kind
            return replace(found, vector_bytes=16, max_lanes=64, blocks_products=True, unroll=(1, 4))
    return found


def _bare(name: str, cpu: str | None, features: tuple[str, ...]) -> CpuTarget:
    """A target with LLVM's data layout and without any optional instructions; the probes find these later.
    Raises UnsupportedError for GPUs, unknown object formats, and addresses of less than 32 bits.
    """
    triple = known(name)
    with llvm.LOCK:
        parts = binding.get_triple_parts(triple)
    why = next((why for row, why in _OTHERS.items() if re.fullmatch(row, parts.Arch)), "")
    if parts.ObjectFormat not in _FORMATS:
        why = why or f"its object files are {parts.ObjectFormat}; supported are {', '.join(_FORMATS)}"
    if why:
        raise UnsupportedError(f"target {name}: {why}")
    system = f"{parts.Arch}-{parts.Env}"
    usual, more, abi = next((v for row, v in _ASSUMED.items() if re.fullmatch(row, system)), ("", (), ""))
    words = {word[1:]: word for word in (*more, *features)}  # a feature that is named twice has its last sign
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


def _needs(target: CpuTarget, rows: _Rows) -> str:
    """The instructions of the probes `rows` that the machine lacks, as a reason for a message: LLVM fails, or
    calls library functions instead. "" if the machine has them all. Raises UnsupportedError if axla cannot
    read the object files of the target.
    """
    functions = [
        f"define {result} @f{n}({kind} %a, {kind} %b) nounwind {{\n %c = {what}\n ret {result} %c\n}}"
        for n, (result, kind, what) in enumerate(rows)
    ]
    try:
        needed = symbols(CHILD.emit_object("\n".join(functions), target)).needed
    except CompileError as error:
        return error.message.removeprefix(f"target {target.name}: ")
    except ValueError:
        raise UnsupportedError(
            f"target {target.name}: its object files have a format that axla does not read"
        ) from None
    more = f" and {len(needed) - 1} other functions" * (len(needed) > 1)
    return f"LLVM calls {min(needed)}{more} of a library" if needed else ""
