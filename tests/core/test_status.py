"""The table of errors: every class, every status, every return code, both ways."""

from __future__ import annotations

import re

import pytest

from axla.core import errors, status
from axla.core.status import CLASSES, FRAME_ERRORS, STATUS, Status
from axla.program import abi

ALL = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]


def test_every_class_has_a_status_and_every_status_a_class():
    assert set(ALL) == set(STATUS)
    assert set(CLASSES) == set(Status) - {Status.OK}


def test_numbers_are_those_of_absl():
    """As absl/status/status.h, PJRT_Error_Code and grpc::StatusCode number them."""
    assert (Status.INVALID_ARGUMENT, Status.DEADLINE_EXCEEDED, Status.RESOURCE_EXHAUSTED) == (3, 4, 8)
    assert (Status.UNIMPLEMENTED, Status.INTERNAL, Status.UNAVAILABLE, Status.UNAUTHENTICATED) == (
        12,
        13,
        14,
        16,
    )


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_a_class_travels_by_name_and_status(kind):
    error = kind("why")
    found = status.error_named(kind.__name__, status.status_of(error), error.message)
    assert type(found) is kind and found.message == "why"


@pytest.mark.parametrize("code", CLASSES, ids=lambda code: code.name)
def test_a_status_alone_is_raised_as_its_class(code):
    """Of an unknown class, the status decides; classes that stand for one status keep it."""
    found = status.error_named("NoSuchError", code, "why")
    assert type(found) is CLASSES[code]
    own = [kind for kind in STATUS if STATUS[kind] == code]
    assert not own or STATUS[CLASSES[code]] == code


def test_codes_that_do_not_exist():
    assert type(status.error_named("NoSuchError", 77, "why")) is errors.AxlaError
    assert status.class_of_frame(500) is errors.RuntimeFailure and status.frame_message(500) == ""
    assert status.frame_message(status.FIRST_MESSAGE + 1, ("a", "b")) == "b"
    assert status.frame_message(status.FIRST_MESSAGE + 2, ("a", "b")) == ""


@pytest.mark.parametrize("code", FRAME_ERRORS)
def test_return_codes_are_raised_and_returned(code):
    row = FRAME_ERRORS[code]
    error = status.class_of_frame(code)(row.about, code)
    assert (type(error), error.code, status.status_of(error)) == (row.raises, code, row.status)
    assert status.frame_message(code) == row.about


def test_exceptions_that_are_not_ours():
    assert status.status_of(MemoryError()) == Status.RESOURCE_EXHAUSTED
    assert status.status_of(KeyboardInterrupt()) == Status.CANCELLED
    assert status.status_of(ValueError()) == Status.UNKNOWN


def test_c_and_rust_have_the_same_codes():
    """The status codes of the C and Rust interfaces are those of the table."""
    from axla.aot import c_types, rust

    header = dict(re.findall(r"AXLA_([A-Z_]+) = (\d+),", abi.c_header()))
    assert {row.name.upper(): str(code) for code, row in FRAME_ERRORS.items()}.items() <= header.items()
    shared = c_types.shared_block()
    for code, row in FRAME_ERRORS.items():
        assert (
            f'{code} => "{row.about}",' in "\n".join(rust.errors())
            and f'{code}: return "{row.about}"' in shared
        )
