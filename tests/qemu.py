"""Recognizes failures of emulators by their messages."""

from __future__ import annotations

import pytest


def skip_where_qemu_fails(said: str) -> None:
    """Skips the test if QEMU fails: QEMU 7.2 raises an assertion for each vfncvt.rtz at the beginning of a
    translation block, for example after a vsetvli. These two instructions alone are enough.
    """
    if "decode_save_opc: Assertion" in said:
        pytest.skip("this QEMU cannot translate vfncvt.rtz.x.f.w (decode_save_opc)")
