"""Removes what a test registered when it ends."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_names_left():
    from axla.custom import registry

    before = dict(registry._targets)
    yield
    registry._targets.clear()
    registry._targets.update(before)
