"""Restores tensors from checkpoints, as constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from axla.core.errors import did_you_mean
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall
from axla.tensorflow.types import DTYPES
from axla.tensorflow.values import GraphValue

RECORDS = """
RestoreV2: prefix:DT_STRING tensor_names:DT_STRING shape_and_slices:DT_STRING dtypes=types>=1 ->
    tensors:dtypes
Restore: file_pattern:DT_STRING tensor_name:DT_STRING preferred_shard=int?-1 -> tensor:dt
RestoreSlice: file_pattern:DT_STRING tensor_name:DT_STRING shape_and_slice:DT_STRING preferred_shard=int?-1 ->
    tensor:dt
"""


@lowering("RestoreV2")
def _restore(call: OpCall, prefix: GraphValue, names: np.ndarray, parts: np.ndarray) -> list[np.ndarray]:
    wanted = call["dtypes"]
    if not names.shape == parts.shape == (len(wanted),):
        call.fail(f"{names.size} names and {parts.size} slices do not fit {len(wanted)} tensors")
    return [_tensor(call, *each) for each in zip(names, parts, wanted, strict=True)]


@lowering("Restore", "RestoreSlice")
def _restore_one(call: OpCall, pattern: GraphValue, *texts: np.ndarray) -> np.ndarray:
    """The tensor that the first of `texts` names, or the slice of it that the second text describes."""
    name, part = [text.reshape(-1)[0] for text in (*texts, np.array(b"", object))][:2]
    return _tensor(call, name, part, call["dt"])


def _tensor(call: OpCall, raw: bytes, part: bytes, type_: str) -> np.ndarray:
    """The tensor named `raw`, or its slice `part` if that is not empty. VerifyError if its type is not
    `type_`.
    """
    name, checkpoint = raw.decode("utf-8", "surrogateescape"), call.scope.importer.checkpoint
    if name not in checkpoint:
        call.fail(f"the checkpoint has no tensor '{name}'{did_you_mean(name, checkpoint)}")
    value = checkpoint[name]
    wanted = DTYPES.get(type_)
    if value.dtype != (object if wanted is None else wanted.numpy):
        call.fail(f"tensor '{name}' is of {value.dtype} in the checkpoint, wanted {type_}")
    return value[_slices(call, part.decode("latin-1").split(), value.shape)] if part else value


def _slices(call: OpCall, words: Sequence[str], dims: tuple[int, ...]) -> tuple[slice, ...]:
    """The slice that a text describes: the sizes of the whole tensor, then `begin,length` for each dimension,
    separated by colons, or `-` for all.
    """
    if tuple(words[:-1]) != tuple(map(str, dims)):
        call.fail(f"it restores a slice of shape {words[:-1]}, the checkpoint has shape {list(dims)}")
    found = []
    for text, size in zip(words[-1].split(":") if dims else [], dims, strict=True):
        begin, length = (0, size) if text == "-" else map(int, text.split(","))
        if not 0 <= begin <= begin + length <= size:
            call.fail(f"it restores {length} elements from {begin}, the dimension has {size}")
        found.append(slice(begin, begin + length))
    return tuple(found)
