"""Writes the functions of an object that C calls, as LLVM text: they fill in a call frame and call the entry
function.

`NAME_run(args, results, workspace)` creates a frame; `NAME_run_frame(frame)` takes the caller's frame and
fills in null fields: a parallel_for that runs everything serially, a cancel flag that is never set, the
object's constants.
"""

from __future__ import annotations

import itertools
from hashlib import blake2b

from axla.aot.library import Weights
from axla.codegen.function import LlvmFunction, LlvmModule, Ssa
from axla.program import abi
from axla.program.interface import Interface
from axla.target.machine import ALIGNMENT, ObjectForm

_ATTRIBUTES = 'nounwind "no-builtins"'
_MARK = 16  # bytes of the mark by which the constants are found in an object
SPACE = 64
"""The size in bytes of the section for constants in an ELF object, which `constants_space.py` enlarges."""
_SERIAL, _NEVER = "axla_serial", "axla_never"


def add_frame(module: LlvmModule) -> None:
    """Adds what every exported function needs: the serial parallel_for, the flag that is never set."""
    module.globals[_NEVER] = f"@{_NEVER} = internal constant i32 0"
    numbers = [("i64", "count"), ("i64", "grain")]
    params = [("ptr", "frame"), ("ptr", "kernel"), ("ptr", "args"), *numbers]
    f = LlvmFunction(module, _SERIAL, "i32", params, linkage="internal", attributes=_ATTRIBUTES)
    frame, kernel, args, count, grain = f.params.values()
    flag = frame.get(abi.FRAME, "cancel")
    with f.while_loop([f.const("i64", 0)]) as loop:
        [begin] = loop.carried
        is_set = f.effect("i32", f"load volatile i32, {flag!r}, align 4")
        f.guard(is_set.ne(0), f.const("i32", abi.CANCELLED))
        following = begin + grain
        more = following.lt(count)
        code = f.call_pointer("i32", kernel, frame, args, begin, f.select(more, following, count))
        f.guard(code.ne(0), code)
        loop.test(more)
        loop.yield_([following])
    f.ret(f.const("i32", 0))


def add_exported_functions(
    module: LlvmModule, symbol: str, entry: str, interface: Interface, constants: str | None
) -> None:
    """Adds `{symbol}_run` and `{symbol}_run_frame` of a program, whose entry function is `entry`.
    `constants`: the symbol of the constants segment; None if the caller passes its address.
    """
    _run(module, symbol, constants is None)
    _run_frame(module, symbol, entry, interface, constants)


def _run(module: LlvmModule, symbol: str, takes_weights: bool) -> None:
    names = ["args", "results", "workspace", "weights"][: 4 if takes_weights else 3]
    params = [("ptr", name) for name in names]
    f = LlvmFunction(module, f"{symbol}_run", "i32", params, attributes=_ATTRIBUTES)
    frame = f.space(f"[{abi.FRAME.size_on(module.pointer_bytes)} x i8]")
    fields = ("arguments", "results", "workspace", "constants")
    given = dict(zip(fields, f.params.values(), strict=False)) | {"version": abi.FRAME_VERSION}
    for field in abi.FRAME.fields:
        if field.name != "rng_state":
            frame.set(abi.FRAME, field.name, given.get(field.name, 0))
    for number, word in enumerate(abi.RNG_SEED):
        frame.field(abi.FRAME, "rng_state").at(8 * number).store(f.const("i64", word))
    f.ret(f.call("i32", f"{symbol}_run_frame", frame, effect=True))


def _run_frame(
    module: LlvmModule, symbol: str, entry: str, interface: Interface, constants: str | None
) -> None:
    f = LlvmFunction(module, f"{symbol}_run_frame", "i32", [("ptr", "frame")], attributes=_ATTRIBUTES)
    frame = f.params["frame"]
    version = frame.get(abi.FRAME, "version")
    f.guard(version.ne(abi.FRAME_VERSION), f.const("i32", abi.WRONG_FRAME))
    defaults = {"parallel_for": _SERIAL, "cancel": _NEVER}
    if constants is not None:
        defaults["constants"] = constants
    for name, value in defaults.items():
        given = frame.get(abi.FRAME, name)
        frame.set(abi.FRAME, name, f.select(given.eq(0), f.glob(value), given))
    public = frame.get(abi.FRAME, "results")
    if interface.aliases:
        frame.set(
            abi.FRAME, "results", _result_table(f, frame.get(abi.FRAME, "arguments"), public, interface)
        )
    code = f.call("i32", entry, frame, effect=True)
    if interface.aliases:
        frame.set(abi.FRAME, "results", public)
    f.ret(code)


def _result_table(f: LlvmFunction, arguments: Ssa, public: Ssa, interface: Interface) -> Ssa:
    """A table of pointers to all results. A result that overwrites a parameter has the pointer of this
    parameter in the table `arguments`; the others have the caller's pointers in the table `public`, in order.
    """
    width = f.module.pointer_bytes
    parameter = {alias.result: alias.parameter for alias in interface.aliases}
    table = f.space(f"[{len(interface.results)} x ptr]")
    given = itertools.count()
    for k in range(len(interface.results)):
        place = arguments.item(parameter[k], width) if k in parameter else public.item(next(given), width)
        table.item(k, width).store(place.load("ptr"))
    return table


def mark_of(symbol: str, size: int) -> bytes:
    """A mark in place of the constants, by which `constants_space.py` finds them: bytes
    that do not occur elsewhere by chance.
    """
    return blake2b(f"{symbol} {size}".encode(), digest_size=_MARK).digest()


def add_constants(module: LlvmModule, symbol: str, size: int, weights: Weights, form: ObjectForm) -> None:
    """Adds the constants segment as a global: space for it, beginning with a mark, or, if constants are in
    another object (Weights.SEPARATE), a declaration of an external symbol.

    Constants are never in LLVM text; they are written into the finished object. `externally_initialized`
    keeps LLVM from relying on the zeros.
    """
    if weights is Weights.SEPARATE:
        kind = _own(form)
        module.globals[symbol] = f"@{symbol} = external {kind} constant [{size} x i8], align {ALIGNMENT}"
        return
    module.globals[symbol] = _space(symbol, "internal", size, form)


def constants_module(symbol: str, size: int, form: ObjectForm) -> str:
    """The text of the LLVM module of an object that contains only constants: space for `size` bytes at the
    symbol `symbol`.
    """
    return _space(symbol, _own(form), size, form) + "\n"


def _own(form: ObjectForm) -> str:
    """The visibility of a symbol that another object of the same program or library defines. On COFF,
    `hidden` would add an option for GNU linkers that Microsoft's linkers refuse.
    """
    return "dso_local" if form.format == "coff" else "hidden"


def _space(symbol: str, linkage: str, size: int, form: ObjectForm) -> str:
    mark = "".join(f"\\{byte:02X}" for byte in mark_of(symbol, size))
    section = ""
    if form.format == "elf":
        size, section = SPACE, f', section ".rodata.{symbol}"'
    rest = f"[{size - _MARK} x i8]"
    return (
        f"@{symbol} = {linkage} externally_initialized constant <{{ [{_MARK} x i8], {rest} }}> "
        f'<{{ [{_MARK} x i8] c"{mark}", {rest} zeroinitializer }}>{section}, align {ALIGNMENT}'
    )
