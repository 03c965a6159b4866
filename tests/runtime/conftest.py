from __future__ import annotations

import sys
from pathlib import Path

import pytest

from axla.codegen.native.python_abi import why_not

sys.path.insert(0, str(Path(__file__).parent))  # native_programs.py


def pytest_collection_modifyitems(items):
    reason = why_not()
    for item in items:
        if reason is not None and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))
