"""rng-bit-generator: known answers, what XLA:CPU gives, backends against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from three_ways import agree

import axla.api as axla
from axla.core.errors import AxlaError
from axla.hlo.random_bits import philox, three_fry

TYPES = ["f32", "s16", "bf16", "u8", "s4", "u64", "f64"]
GENERATORS = [("rng_three_fry", 2), ("rng_philox", 2), ("rng_philox", 3), ("rng_default", 3)]
ONES = 0xFFFFFFFF


def program(algorithm: str, length: int, data: str) -> str:
    return f"""HloModule m
ENTRY e {{
  s = u64[{length}] parameter(0)
  ROOT r = (u64[{length}], {data}) rng-bit-generator(s), algorithm={algorithm}
}}"""


def words(*numbers: int) -> tuple[np.ndarray, ...]:
    return tuple(np.array([n], np.uint32) for n in numbers)


@pytest.mark.parametrize(
    ("counter", "key", "wanted"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((ONES, ONES), (ONES, ONES), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers_of_three_fry(counter, key, wanted):
    """Those that its authors published."""
    assert three_fry(words(*counter), words(*key)) == words(*wanted)


@pytest.mark.parametrize(
    ("counter", "key", "wanted"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)  # fmt: skip
def test_known_answers_of_philox(counter, key, wanted):
    assert philox(words(*counter), words(*key)) == words(*wanted)


@pytest.mark.parametrize(
    ("algorithm", "length", "data", "state", "bits"),
    [
        ("rng_three_fry", 2, "u32[3]", [5, 8], [2857746084, 3971895240, 4000641395]),
        ("rng_three_fry", 2, "u16[3]", [5, 8], [48804, 20424, 61811]),
        (
            "rng_three_fry",
            2,
            "u64[3]",
            [5, 9],
            [17059160161795817124, 4568218857448468851, 8837050182540938565],
        ),
        ("rng_philox", 2, "u32[3]", [5, 7], [1465900379, 1469274632, 1503072275]),
        ("rng_philox", 3, "u32[3]", [5, 7, 7], [1033811427, 2611507766, 2049409451]),
        ("rng_default", 3, "u8[3]", [5, 7, 7], [227, 54, 171]),
        (
            "rng_philox",
            3,
            "u64[3]",
            [5, 8, 7],
            [11216340449253832163, 4288563746624209323, 15297054879353834718],
        ),
    ],
)
def test_what_xla_gives(algorithm, length, data, state, bits):
    """Recorded from XLA:CPU for the state 5, 6, 7."""
    found = agree(program(algorithm, length, data), [np.arange(5, 5 + length, dtype=np.uint64)])
    assert [x.tolist() for x in found] == [state, bits]


@pytest.mark.parametrize(("algorithm", "length"), GENERATORS)
def test_backends_agree_on_shapes(algorithm, length):
    """At the end of the counters, so that every carry is there."""
    state = np.full(length, 2**64 - 2, np.uint64)
    for dims in ("", "7", "4,3,6", "0,3", "1,5,1")[: 2 if algorithm == "rng_default" else None]:
        agree(program(algorithm, length, f"u32[{dims}]"), [state])


@pytest.mark.parametrize("dtype", TYPES)
def test_backends_agree_on_types(dtype):
    for algorithm, length in GENERATORS[:2]:
        state = np.arange(1, 1 + length, dtype=np.uint64) << np.uint64(31)
        agree(as_integers(program(algorithm, length, f"{dtype}[3,5]"), dtype, (3, 5)), [state])


def as_integers(text: str, dtype: str, dims: tuple[int, ...]) -> str:
    """The program with its bits as unsigned numbers, so that NaNs are compared too."""
    kind = {"u": dtype, "s": dtype}.get(dtype[0], f"u{dtype.lstrip('bf')}")
    if kind == dtype:
        return text
    shape = ",".join(map(str, dims))
    changed = text.replace("ROOT r", "g")[:-1]
    return f"""{changed}  b = {dtype}[{shape}] get-tuple-element(g), index=1
  ROOT c = {kind}[{shape}] bitcast-convert(b)
}}"""


def test_calls_continue():
    """Two draws, the second from the state that the first leaves, are one draw of both."""
    parts = []
    state = np.array([3, 2**64 - 1], np.uint64)
    for _ in range(2):
        state, bits = agree(program("rng_philox", 2, "u32[8]"), [state])
        parts.append(bits)
    both = agree(program("rng_philox", 2, "u32[16]"), [np.array([3, 2**64 - 1], np.uint64)])[1]
    # The high word of the counter is the key here, which does not come back: only the low word goes on.
    assert parts[0].tolist() == both[:8].tolist() and state.tolist() == [3, 3]


def test_states_that_no_generator_has_are_refused():
    text = program("rng_three_fry", 3, "u32[4]")
    for backend in ("interpreter", "cpu"):
        with pytest.raises(AxlaError, match="rng-bit-generator|u64"):
            axla.compile(axla.parse(text), backend=backend).execute([np.zeros(3, np.uint64)])
