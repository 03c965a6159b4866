"""Regexes of the readers, on every Python that axla runs on."""

import pytest

from axla.core.regex import ascii_regex


@pytest.mark.parametrize(
    ("regex", "text", "end"),
    [
        (r"\d++(?:,\d++)*+", "1,x", 1),
        (r"\d++(?:[eE][+-]?\d++)?+", "1e", 1),
        (r"(?:[a-z]++\.)++", "ab.cd.ef", 6),
        (r"(?:\(\d++\)*+)*+", "(1)((", 3),
    ],
)
def test_a_repeat_that_matched_in_part_is_not_kept(regex, text, end):
    """CPython before 3.11.5 kept it."""
    found = ascii_regex(regex).match(text)
    assert found is not None and found.end() == end
