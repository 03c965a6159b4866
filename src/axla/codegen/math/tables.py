"""The tables of functions that compute HLO operations. Functions are registered where they are defined."""

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
    """Registers the function of an op on floats."""

    def enter(body: Callable[..., Reg]) -> Callable[..., Reg]:
        FLOATS[opcode] = body
        if exact:
            EXACT.add(opcode)
        return body

    return enter


def on_complex(opcode: str) -> Callable[[Callable[..., Pair]], Callable[..., Pair]]:
    """Registers the function of an op on complex numbers, as a function of its own in the module."""
    name = f"complex.{opcode.replace('-', '_')}"

    def enter(body: Callable[..., Pair]) -> Callable[..., Pair]:
        def call(*parts: Reg) -> Pair:
            re, im = parts[0].m.outlined(name, body, *parts)
            return re, im

        COMPLEX[opcode] = call
        return body

    return enter
