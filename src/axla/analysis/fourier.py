"""Which lengths of Fourier transforms the code generator takes apart."""

from __future__ import annotations

RADICES = (4, 2, 3, 5, 7, 11, 13)
"""What lengths may be made of, in the order in which they are taken."""


def factors(length: int) -> list[int] | None:
    """The radices of a length, the small powers of two first; None where a factor has no butterfly."""
    found: list[int] = []
    for radix in RADICES:
        while length and length % radix == 0:
            found.append(radix)
            length //= radix
    return found if length == 1 else None


def transformed_lengths(kind: str, lengths: tuple[int, ...]) -> list[int]:
    """The lengths of the complex transforms that are done: real lines of even length count half."""
    last = lengths[-1] // 2 if kind in ("RFFT", "IRFFT") and lengths[-1] % 2 == 0 else lengths[-1]
    return [*lengths[:-1], last]
