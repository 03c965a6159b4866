"""CRC-32C, the checksum of TensorFlow's checkpoints, computed for many rows of bytes at once."""

from __future__ import annotations

from functools import cache

import numpy as np

_POLYNOMIAL = 0x82F63B78
_PIECE = 1 << 20


def masked_crc32c(data: bytes | memoryview | np.ndarray) -> int:
    """The checksum in the masked form that files use: rotated by 15 bits, plus a constant."""
    value = crc32c(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFF_FFFF


def crc32c(data: bytes | memoryview | np.ndarray) -> int:
    """The CRC-32C of bytes: a CRC with Castagnoli's polynomial, as an unsigned 32-bit number."""
    raw = np.frombuffer(data, np.uint8)
    state = np.array([0xFFFF_FFFF], np.uint32)
    for begin in range(0, raw.size, _PIECE):
        piece = raw[begin : begin + _PIECE]
        for power in range(piece.size.bit_length()):
            if piece.size >> power & 1:
                state = _moved(state, power)
        state = state ^ _state_behind(piece)
    return int(~state[0])


def _state_behind(data: np.ndarray) -> np.ndarray:
    """The CRC state after all bytes of `data`, from the state zero. It is computed for several rows of bytes
    in parallel; then neighbouring rows are combined pairwise.
    """
    power = max(1, data.size.bit_length() // 3)
    rows = 1 << max(0, (data.size - 1 >> power).bit_length())
    padded = np.zeros(rows << power, np.uint8)  # leading zeros do not change the state zero
    padded[padded.size - data.size :] = data
    state, words = np.zeros(rows, np.uint32), _words()
    for column in np.ascontiguousarray(padded.view("<u2").reshape(rows, -1).T):
        state = words[(state ^ column) & 0xFFFF] ^ (state >> 16)
    while state.size > 1:
        state = _moved(state[::2], power) ^ state[1::2]
        power += 1
    return state


@cache
def _words() -> np.ndarray:
    """A table: for each pair of bytes, as a little-endian number, the CRC state after them, from the state
    zero.
    """
    values = np.arange(1 << 16, dtype=np.uint32)
    for _ in range(16):
        values = np.where(values & 1, values >> 1 ^ _POLYNOMIAL, values >> 1).astype(np.uint32)
    return values


def _moved(states: np.ndarray, power: int) -> np.ndarray:
    """The CRC states after 2**power further zero bytes."""
    table = _moves(power)
    found = table[0][states & 255]
    for byte in range(1, 4):
        found = found ^ table[byte][states >> 8 * byte & 255]
    return found


@cache
def _moves(power: int) -> np.ndarray:
    """A table [4, 256]: for each byte of a CRC state, and each value of this byte, the state after 2**power
    zero bytes.
    """
    if power:
        return np.stack([_moved(row, power - 1) for row in _moves(power - 1)])
    values = np.arange(256, dtype=np.uint32)
    states = np.stack([values << 8 * byte for byte in range(4)])
    for _ in range(8):
        states = np.where(states & 1, states >> 1 ^ _POLYNOMIAL, states >> 1).astype(np.uint32)
    return states
