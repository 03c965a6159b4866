"""Messages of the service: kinds, errors and values, there and back."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from axla.core import errors, status
from axla.core.errors import (
    AxlaError,
    CustomCallFailure,
    InternalError,
    InvalidArgument,
    OutOfMemory,
    ParseError,
)
from axla.service import messages
from axla.service.messages import KINDS, NUMBERS, TABLES


def sent(error: BaseException) -> AxlaError:
    return messages.error_of(
        messages.decode(NUMBERS["Failed"], messages.encode("Failed", messages.failed(error)))
    )


def test_every_kind_but_pieces_is_a_message():
    assert set(KINDS) - {"Piece", "Credit"} <= set(TABLES) and len(KINDS) == len(set(KINDS)) < 256


@pytest.mark.parametrize("kind", [k for k in status.STATUS if k is not ParseError])
def test_errors_arrive_as_their_class_with_their_status(kind):
    error = kind("line 3: %x = f32[] add(...): it does not work")
    error.add_note("model.py:12, in forward")
    found = sent(error)
    assert type(found) is kind and str(found) == str(error) and found.__notes__ == error.__notes__
    assert status.status_of(found) == status.status_of(error)


def test_what_a_run_says_of_itself_arrives():
    found = sent(errors.RuntimeFailure("%r: shape", 1003, 2, 7))
    assert (found.code, found.step, found.detail) == (1003, 2, 7)
    assert isinstance(sent(CustomCallFailure("no")), CustomCallFailure)


def test_places_of_parse_errors_arrive():
    found = sent(ParseError("wanted a shape", 2, 5, "HloModule m\nENTRY e {"))
    assert str(found) == str(ParseError("wanted a shape", 2, 5, "HloModule m\nENTRY e {")) and found.line == 2


def test_other_exceptions_are_errors_of_ours():
    assert isinstance(sent(ValueError("what")), InternalError) and "ValueError: what" in str(
        sent(ValueError("what"))
    )
    assert isinstance(sent(MemoryError()), OutOfMemory)

    class Own(InvalidArgument):
        """Of another package."""

    assert type(sent(Own("own"))) is InvalidArgument


def test_a_lost_connection_is_unavailable():
    assert status.status_of(messages.unavailable("gone")) == status.Status.UNAVAILABLE
    assert status.status_of(sent(messages.unavailable("gone"))) == status.Status.UNAVAILABLE


def test_an_unknown_class_is_raised_by_its_status():
    found = messages.error_of(
        {"class": "NewError", "code": int(status.Status.DEADLINE_EXCEEDED), "message": "late"}
    )
    assert type(found) is errors.DeadlineExceeded and str(found) == "late"
    assert type(messages.error_of({})) is AxlaError


@pytest.mark.parametrize(
    "value",
    [
        np.float32([1, 2]),
        (np.int8(3), ()),
        ((np.zeros((2, 0)), None), ml_dtypes.bfloat16(1.5)),
        np.array(True),
    ],
)
def test_nested_values(value):
    data = messages.encode("Tree", messages.tree_of(value))
    found = messages.value_of(messages.wire.decode(data, TABLES["Tree"]))

    def same(a, b):
        if isinstance(a, tuple):
            assert isinstance(b, tuple) and len(a) == len(b)
            for x, y in zip(a, b, strict=True):
                same(x, y)
        elif a is None:
            assert b is None
        else:
            assert np.asarray(a).dtype == b.dtype and np.asarray(a).tolist() == b.tolist()

    same(value, found)


@pytest.mark.parametrize(
    ("dtype", "dims", "said"),
    [
        ("f33", [1], "'f33' is not an element type"),
        ("f32", [2], "3 bytes do not fit f32"),
        ("f32", [-1], "sizes from 0 to"),
        ("f32", [1 << 60], "sizes from 0 to"),
        ("u8", [1] * 65, "at most 64"),
    ],
)
def test_arrays_that_cannot_be(dtype, dims, said):
    with pytest.raises(InvalidArgument, match=said):
        messages.array_of(b"abc", dtype, dims)


def test_unknown_kinds_and_damaged_messages():
    with pytest.raises(InvalidArgument, match="kind 200, which is unknown"):
        messages.decode(200, b"")
    with pytest.raises(ParseError, match="Execute"):
        messages.decode(NUMBERS["Execute"], b"\x0a\xff")
