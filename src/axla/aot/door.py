"""The functions of an object that C calls, as LLVM text: they fill in a call frame and enter the program.

`NAME_run(args, results, workspace)` makes a frame; `NAME_run_frame(frame)` takes the caller's, and what it
has left null is filled in: a parallel_for that runs everything here, a cancel flag that is never set, the
constants of the object.
"""

from __future__ import annotations

from hashlib import blake2b

from axla.aot.library import Weights
from axla.codegen.function import Module
from axla.program import abi
from axla.program.interface import Interface
from axla.target.machine import ObjectForm

ALIGNMENT = 64
_ATTRIBUTES = 'nounwind "no-builtins"'
_MARK = 16  # bytes that find the constants in an object
ROOM = 64
"""Bytes of the room for constants in an ELF object, which `room.py` makes longer."""
_SERIAL, _NEVER = "axla_serial", "axla_never"


def add_frame(module: Module) -> None:
    """What every door needs: the frame's type, the serial parallel_for, the flag that is never set."""
    align = module.pointer_bytes
    module.globals["axla.frame"] = abi.FRAME.llvm()
    module.globals[_NEVER] = f"@{_NEVER} = internal constant i32 0"
    module.functions[_SERIAL] = "\n".join([
        f"define internal i32 @{_SERIAL}(ptr %frame, ptr %kernel, ptr %args, i64 %count, i64 %grain) "
        f"{_ATTRIBUTES}{module.common} {{",
        "entry:",
        abi.FRAME.gep("%flag_at", "%frame", "cancel"),
        f"%flag = load ptr, ptr %flag_at, align {align}",
        "br label %loop",
        "loop:",
        "%begin = phi i64 [ 0, %entry ], [ %sum, %next ]",
        "%sum = add i64 %begin, %grain",
        "%more = icmp slt i64 %sum, %count",
        "%end = select i1 %more, i64 %sum, i64 %count",
        "%set = load volatile i32, ptr %flag, align 4",
        "%stop = icmp ne i32 %set, 0",
        "br i1 %stop, label %stopped, label %run",
        "run:",
        "%code = call i32 %kernel(ptr %frame, ptr %args, i64 %begin, i64 %end)",
        "%bad = icmp ne i32 %code, 0",
        "br i1 %bad, label %failed, label %next",
        "next:",
        "br i1 %more, label %loop, label %done",
        "stopped:",
        f"ret i32 {abi.CANCELLED}",
        "failed:",
        "ret i32 %code",
        "done:",
        "ret i32 0",
        "}",
    ])  # fmt: skip


def add_doors(module: Module, symbol: str, entry: str, interface: Interface, constants: str | None) -> None:
    """The two functions of a program. `constants`: the symbol of the segment; None: the caller passes it."""
    module.functions[f"{symbol}_run"] = _run(module, symbol, constants is None)
    module.functions[f"{symbol}_run_frame"] = _run_frame(module, symbol, entry, interface, constants)


def _run(module: Module, symbol: str, takes_weights: bool) -> str:
    given = {"arguments": "%args", "results": "%results", "workspace": "%workspace"}
    parameters = "ptr %args, ptr %results, ptr %workspace"
    if takes_weights:
        given["constants"] = "%weights"
        parameters += ", ptr %weights"
    lines = [
        f"define i32 @{symbol}_run({parameters}) {_ATTRIBUTES}{module.common} {{",
        f"%frame = alloca {abi.FRAME.llvm_name}, align 8",
    ]
    for n, field in enumerate(abi.FRAME.fields):
        kind = "i64" if field.type == "u64" else field.type
        whole = kind if field.count == 1 else f"[{field.count} x {kind}]"
        value = given.get(field.name, "null" if kind == "ptr" else "0")
        if field.name == "version":
            value = str(abi.FRAME_VERSION)
        elif field.name == "rng_state":
            value = f"[{', '.join(f'i64 {word}' for word in abi.RNG_SEED)}]"
        lines += [
            abi.FRAME.gep(f"%at{n}", "%frame", field.name),
            f"store {whole} {value}, ptr %at{n}, align {field.align(module.pointer_bytes)}",
        ]
    lines += [f"%code = call i32 @{symbol}_run_frame(ptr %frame)", "ret i32 %code", "}"]
    return "\n".join(lines)


def _run_frame(module: Module, symbol: str, entry: str, interface: Interface, constants: str | None) -> str:
    align = module.pointer_bytes
    lines = [
        f"define i32 @{symbol}_run_frame(ptr %frame) {_ATTRIBUTES}{module.common} {{",
        "start:",
        "%version = load i32, ptr %frame, align 4",
        f"%known = icmp eq i32 %version, {abi.FRAME_VERSION}",
        "br i1 %known, label %fill, label %wrong",
        "wrong:",
        f"ret i32 {abi.WRONG_FRAME}",
        "fill:",
    ]
    defaults = {"parallel_for": _SERIAL, "cancel": _NEVER}
    if constants is not None:
        defaults["constants"] = constants
    for name, value in defaults.items():
        lines += [
            abi.FRAME.gep(f"%{name}_at", "%frame", name),
            f"%{name}_given = load ptr, ptr %{name}_at, align {align}",
            f"%{name}_null = icmp eq ptr %{name}_given, null",
            f"%{name} = select i1 %{name}_null, ptr @{value}, ptr %{name}_given",
            f"store ptr %{name}, ptr %{name}_at, align {align}",
        ]
    if interface.aliases:
        lines += _result_table(interface, align)
    lines.append(f"%code = call i32 @{entry}(ptr %frame)")
    if interface.aliases:
        lines.append(f"store ptr %public, ptr %results_at, align {align}")
    return "\n".join([*lines, "ret i32 %code", "}"])


def _result_table(interface: Interface, align: int) -> list[str]:
    """A table of all results: those of the caller, and between them parameters that are written in place."""
    count = len(interface.results)
    parameter = {alias.result: alias.parameter for alias in interface.aliases}
    lines = [
        abi.FRAME.gep("%arguments_at", "%frame", "arguments"),
        f"%arguments = load ptr, ptr %arguments_at, align {align}",
        abi.FRAME.gep("%results_at", "%frame", "results"),
        f"%public = load ptr, ptr %results_at, align {align}",
        f"%table = alloca [{count} x ptr], align {align}",
    ]
    given = 0
    for k in range(count):
        if k in parameter:
            source, number = "%arguments", parameter[k]
        else:
            source, number = "%public", given
            given += 1
        lines += [
            f"%from{k} = getelementptr inbounds ptr, ptr {source}, i32 {number}",
            f"%value{k} = load ptr, ptr %from{k}, align {align}",
            f"%to{k} = getelementptr inbounds ptr, ptr %table, i32 {k}",
            f"store ptr %value{k}, ptr %to{k}, align {align}",
        ]
    return [*lines, f"store ptr %table, ptr %results_at, align {align}"]


def mark_of(symbol: str, size: int) -> bytes:
    """What stands for the constants until `room.py` has them: bytes that no other data has by chance."""
    return blake2b(f"{symbol} {size}".encode(), digest_size=_MARK).digest()


def add_constants(module: Module, symbol: str, size: int, weights: Weights, form: ObjectForm) -> None:
    """The constants segment as a global: room for it, with a mark at its begin, or what is defined elsewhere.

    Contents of any size stand in no text: they are written into the finished object. `externally_initialized`
    keeps LLVM from reading the zeros.
    """
    if weights is Weights.SEPARATE:
        kind = _own(form)
        module.globals[symbol] = f"@{symbol} = external {kind} constant [{size} x i8], align {ALIGNMENT}"
        return
    module.globals[symbol] = _room(symbol, "internal", size, form)


def constants_module(symbol: str, size: int, form: ObjectForm) -> str:
    """The LLVM module of an object that holds nothing but the constants."""
    return _room(symbol, _own(form), size, form) + "\n"


def _own(form: ObjectForm) -> str:
    """Of a symbol that is found in the same program or library. `hidden` on COFF is an option for GNU's
    linkers that Microsoft's refuse.
    """
    return "dso_local" if form.format == "coff" else "hidden"


def _room(symbol: str, linkage: str, size: int, form: ObjectForm) -> str:
    mark = "".join(f"\\{byte:02X}" for byte in mark_of(symbol, size))
    section = ""
    if form.format == "elf":
        size, section = ROOM, f', section ".rodata.{symbol}"'
    rest = f"[{size - _MARK} x i8]"
    return (
        f"@{symbol} = {linkage} externally_initialized constant <{{ [{_MARK} x i8], {rest} }}> "
        f'<{{ [{_MARK} x i8] c"{mark}", {rest} zeroinitializer }}>{section}, align {ALIGNMENT}'
    )
