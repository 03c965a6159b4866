from __future__ import annotations

import pickle

import pytest

from axla.core import dtypes
from axla.core.shape import Shape
from axla.core.status import frame_message
from axla.custom.site import TableFunction
from axla.program.interface import Alias, Interface, ValueSpec, is_flat, tree_leaves, tree_text

X = ValueSpec("x", Shape(dtypes.F32, (2, 3)), 24)
STEP = Interface(
    "step", (X,), (X, X), result_tree=(1, (0,)), aliases=(Alias(1, 0, must=True),), workspace_bytes=640,
    messages=("%d = s32[] divide: by zero",), functions=(TableFunction("host_log"),), long_running=False,
)  # fmt: skip


def test_text():
    assert STEP.to_text() == (
        "interface step {\n"
        "  parameter 0 x: f32[2,3], 24 bytes\n"
        "  result 0 x: f32[2,3], 24 bytes\n"
        "  result 1 x: f32[2,3], 24 bytes\n"
        "  returns (1, (0))\n"
        "  alias result 1 <- parameter 0 (must-alias)\n"
        "  workspace 640 bytes, constants 0 bytes\n"
        "  function 0 axla host_log\n"
        "  message 0 '%d = s32[] divide: by zero'\n"
        "  short running\n"
        "}"
    )


def test_pickle_keeps_shapes_interned():
    copy = pickle.loads(pickle.dumps(STEP))
    assert copy == STEP and copy.parameters[0].shape is X.shape


def test_messages_start_at_the_first_code():
    assert frame_message(1000, STEP.messages) == "%d = s32[] divide: by zero"
    assert not any(frame_message(code, STEP.messages) for code in (999, 1001, -1))


@pytest.mark.parametrize(
    "tree, text, leaves, flat",
    [
        (0, "0", [0], True),
        ((), "()", [], True),
        ((0,), "(0)", [0], True),
        ((0, 1), "(0, 1)", [0, 1], True),
        ((1, 0), "(1, 0)", [1, 0], False),
        ((0, (1, (), 2)), "(0, (1, (), 2))", [0, 1, 2], False),
    ],
)
def test_trees(tree, text, leaves, flat):
    assert tree_text(tree) == text and tree_leaves(tree) == leaves and is_flat(tree) is flat


def test_deep_trees_do_not_recurse():
    tree = 0
    for _ in range(20_000):
        tree = (tree,)
    assert tree_leaves(tree) == [0] and len(tree_text(tree)) == 40_001
