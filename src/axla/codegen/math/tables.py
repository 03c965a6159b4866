"""The tables of functions that compute HLO operations. Functions are registered where they are defined."""

from __future__ import annotations

from collections.abc import Callable

from axla.codegen.arithmetic import Reg

Pair = tuple[Reg, Reg]
"""The real and the imaginary part of a complex number."""

FLOATS: dict[str, Callable[..., Reg]] = {}
"""The functions for ops on floats, by opcode."""

COMPLEX: dict[str, Callable[..., Pair]] = {}
"""The functions for ops on complex numbers, by opcode; they take two registers per operand, its real and its
imaginary part.
"""

EXACT: set[str] = set()
"""The opcodes whose results a float type of 16 bits can represent whenever it represents the operands."""


def on_floats(opcode: str, *, exact: bool = False) -> Callable[[Callable[..., Reg]], Callable[..., Reg]]:
    """A decorator that registers a function for the op `opcode` on floats; `exact` adds the opcode to
    `EXACT`.
    """

    def enter(body: Callable[..., Reg]) -> Callable[..., Reg]:
        FLOATS[opcode] = body
        if exact:
            EXACT.add(opcode)
        return body

    return enter


def on_complex(opcode: str) -> Callable[[Callable[..., Pair]], Callable[..., Pair]]:
    """A decorator that registers a function for the op `opcode` on complex numbers. Generated code calls it
    as a function of the module, which is written once.
    """
    name = f"complex.{opcode.replace('-', '_')}"

    def enter(body: Callable[..., Pair]) -> Callable[..., Pair]:
        def call(*parts: Reg) -> Pair:
            re, im = parts[0].m.outlined(name, body, *parts)
            return re, im

        COMPLEX[opcode] = call
        return body

    return enter
