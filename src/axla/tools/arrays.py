"""Reads arrays from .npy and .npz files, and checks them against parameters."""

from __future__ import annotations

import zlib
from zipfile import BadZipFile

import numpy as np

from axla.core.dtypes import of_raw_items
from axla.core.errors import InvalidArgument
from axla.core.shape import Shape, show

UNREADABLE = (OSError, ValueError, EOFError, BadZipFile, zlib.error, NotImplementedError)
"""The errors that NumPy raises for damaged files and files of other kinds."""


def read_array(path: str) -> np.ndarray:
    """Reads the array of an .npy file."""
    array = _loaded(path, "--input", "an .npy file")
    if not isinstance(array, np.ndarray):
        raise InvalidArgument(f"--input {path}: wanted one array (.npy), found an archive; --inputs takes it")
    return array


def read_archive(path: str) -> dict[str, np.ndarray]:
    """Reads the arrays of an .npz file; returns them by name."""
    found = _loaded(path, "--inputs", "an .npz file")
    if isinstance(found, np.ndarray):
        raise InvalidArgument(f"--inputs {path}: wanted an archive (.npz), found one array; --input takes it")
    with found:
        try:
            return {name: found[name] for name in found.files}
        except UNREADABLE as error:
            raise InvalidArgument(f"--inputs {path}: {error}") from None


def raw_items(array: np.ndarray) -> np.ndarray:
    """The array in the form for a NumPy file: as raw items if NumPy does not know its type. NumPy would write
    an array of f8e5m2, but could not read it again.
    """
    return array.view(f"V{array.itemsize}") if array.dtype.isbuiltin == 2 else array


def _loaded(path: str, option: str, what: str):  # noqa: ANN202 - NumPy names no type
    try:
        return np.load(path, allow_pickle=False)
    except UNREADABLE as error:
        raise InvalidArgument(f"{option} {path}: not {what} that can be read: {error}") from None


def as_parameter(array: np.ndarray, shape: Shape, where: str, name: str) -> np.ndarray:
    """Converts an array to one for the parameter leaf `name` of the given shape. If it does not fit, raises
    InvalidArgument with a message that begins with `where`.
    """
    array = of_raw_items(array, shape.dtype)
    if array.dtype != shape.dtype.numpy or not shape.admits(array.shape):
        found = f"{array.dtype}{list(array.shape)}"
        raise InvalidArgument(f"{where}: found {found}, parameter {name} wants {show(shape)}")
    return array
