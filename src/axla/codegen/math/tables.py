"""Which function computes which HLO operation: each is entered where it is written."""

from __future__ import annotations

from collections.abc import Callable

from axla.codegen.arithmetic import Reg

Pair = tuple[Reg, Reg]
"""The real and the imaginary part."""

FLOATS: dict[str, Callable[..., Reg]] = {}
"""On floats, by opcode."""

COMPLEX: dict[str, Callable[..., Pair]] = {}
"""On complex numbers, by opcode: of two parts per operand."""

EXACT: set[str] = set()
"""Opcodes whose results a small float type represents whenever it represents the operands."""


def on_floats(opcode: str, *, exact: bool = False) -> Callable[[Callable[..., Reg]], Callable[..., Reg]]:
    """Enters what computes an op on floats."""

    def enter(body: Callable[..., Reg]) -> Callable[..., Reg]:
        FLOATS[opcode] = body
        if exact:
            EXACT.add(opcode)
        return body

    return enter


def on_complex(opcode: str) -> Callable[[Callable[..., Pair]], Callable[..., Pair]]:
    """Enters what computes an op on complex numbers, in a function of its own."""
    name = f"complex.{opcode.replace('-', '_')}"

    def enter(body: Callable[..., Pair]) -> Callable[..., Pair]:
        def call(*parts: Reg) -> Pair:
            re, im = parts[0].m.outlined(name, body, *parts)
            return re, im

        COMPLEX[opcode] = call
        return body

    return enter
