"""Loads and runs a library that was compiled ahead of time for this machine, without the compiler:
`axla.aot.load`.

It reads the library's manifest `P.json`, objects and weights from a folder, and checks that they belong
together before it links anything. It needs NumPy, but no LLVM.
"""

from __future__ import annotations

import ctypes as c
import hashlib
import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from axla.codegen.native import systems
from axla.codegen.native.image import Image
from axla.core import locks, status
from axla.core.errors import InvalidArgument, OutOfMemory, UnsupportedError, choices
from axla.runtime.cpu_features import refuse_foreign
from axla.runtime.manifest import FunctionFacts, Manifest, ObjectFacts, Role, ValueFacts, read_manifest
from axla.runtime.safetensors import aligned, read_file, read_safetensors

__all__ = ["LoadedFunction", "LoadedLibrary", "load"]


def load(path: str | os.PathLike[str], *, trust_cpu: bool = False) -> LoadedLibrary:
    """Loads a library for this machine. `path` is the folder that `axla compile` wrote, or the P.json in
    it.

    Raises InvalidArgument for files that are damaged or do not belong together, UnsupportedError for those of
    another machine. `trust_cpu` asserts that this machine has the features of the CPU in the manifest.
    """
    file = _manifest_path(Path(path))
    manifest = read_manifest(file)
    target = manifest.target
    if target.object_format != "elf" or not systems.runs(target.triple):
        here = systems.triple()
        raise UnsupportedError(f"{file}: compiled for {target.triple}, wanted {here}")
    if manifest.externals:
        names = ", ".join(manifest.externals)
        raise UnsupportedError(f"{file}: the library calls {names}, so only a linker can use it")
    refuse_foreign(target.cpu, target.features, trust_cpu)
    images = [(facts.file, _checked(file.parent, facts)) for facts in manifest.objects]
    weights = _weights(file.parent, manifest)
    image = Image(images, [f"{function.symbol}_run" for function in manifest.functions])
    return LoadedLibrary(manifest, image, weights)


def _manifest_path(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = sorted(path.glob("*.json"))
    if len(found) != 1:
        raise InvalidArgument(f"{path}: found {len(found)} .json files, wanted only the library's")
    return found[0]


def _checked(folder: Path, facts: ObjectFacts) -> bytes:
    path = folder / facts.file
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidArgument(f"{path}: {error.strerror or error}") from error
    if len(data) != facts.bytes or hashlib.sha256(data).hexdigest() != facts.sha256:
        raise InvalidArgument(f"{path}: not the file that belongs to the library (another size or SHA-256)")
    return data


def _weights(folder: Path, manifest: Manifest) -> np.ndarray | None:
    """The constants from the weights file, in 64-byte-aligned memory; None if the constants are in an object
    file.
    """
    if not manifest.weights_file:
        return None
    path = folder / manifest.weights_file
    data, entries, metadata = read_file(path)
    wanted = manifest.constants
    if len(data) != wanted.bytes or digest_of(data) != wanted.digest:
        raise InvalidArgument(f"{path}: not the weights of {manifest.name} (another size or digest)")
    if metadata.get("library") != manifest.name or not entries:
        raise InvalidArgument(f"{path}: weights for {metadata.get('library')!r}, wanted {manifest.name!r}")
    return data


def digest_of(data: np.ndarray | bytes | memoryview) -> str:
    """A 64-bit checksum of data, as 16 hexadecimal digits. The data must have a multiple of 8 bytes.

    It is the sum of all 64-bit words, each mixed with its index. The C loader computes the same checksum.
    """
    words = np.frombuffer(data, "<u8")
    total, block = 0, 1 << 17
    for start in range(0, len(words), block):
        part = words[start : start + block]
        mixed = part + np.arange(start + 1, start + 1 + len(part), dtype=np.uint64) * np.uint64(_ODD)
        mixed = (mixed ^ mixed >> np.uint64(32)) * np.uint64(_MIX)
        total += int((mixed ^ mixed >> np.uint64(32)).sum(dtype=np.uint64))
    return f"{total & ((1 << 64) - 1):016x}"


_ODD, _MIX = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


class LoadedLibrary:
    """A loaded library: its functions by symbol. It can be called like a function if it has a single one, or
    variants of one for several batch sizes (numbers of rows).
    """

    def __init__(self, manifest: Manifest, image: Image, weights: np.ndarray | None) -> None:
        self.name = manifest.name
        self.manifest = manifest
        self.functions = {facts.symbol: LoadedFunction(facts, image, weights) for facts in manifest.functions}
        self._batches = {rows: [*self.functions.values()][k] for rows, k in manifest.batches}

    def __repr__(self) -> str:
        return f"<library {self.name}: {', '.join(self.functions)}>"

    def __getitem__(self, name: str) -> LoadedFunction:
        """A function by its symbol, or by the part of the symbol after the library's name."""
        for key in (name, f"{self.manifest.prefix}_{name}"):
            if key in self.functions:
                return self.functions[key]
        raise InvalidArgument(f"{self.name} has no function {name!r}; {choices(self.functions, name)}")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the only function, or the variant for the number of rows of the first argument.
        InvalidArgument if there is no such variant.
        """
        if len(self.functions) == 1:
            return next(iter(self.functions.values()))(*arguments, **named)
        first = next(iter((*arguments, *named.values())), None)
        rows = np.shape(first)[0] if first is not None and np.ndim(first) else 0
        if rows not in self._batches:
            wanted = ", ".join(map(str, self._batches)) if self._batches else "a choice of function by name"
            raise InvalidArgument(f"{self.name}: found a call with {rows} rows, wanted {wanted}")
        return self._batches[rows](*arguments, **named)


class LoadedFunction:
    """A compiled function. It is called with arrays, by position or name, and returns an array, or a tuple of
    several.

    Variables are not arguments: their values are kept in this object, zeros at first. A lock prevents runs
    that write them from overlapping.
    """

    def __init__(self, facts: FunctionFacts, image: Image, weights: np.ndarray | None) -> None:
        self.facts = facts
        self.arguments = tuple(v for v in facts.arguments if v.role is Role.ARGUMENT)
        self.results = facts.results
        self.variables = {v.name: _zeros(v) for v in facts.arguments if v.role is not Role.ARGUMENT}
        self._image = image  # keeps the code in memory
        self._weights = weights
        written = any(v.role is Role.VARIABLE for v in facts.arguments)
        self._lock = locks.new_lock() if written else nullcontext()
        count = 3 if weights is None else 4
        self._run = c.CFUNCTYPE(c.c_int32, *[c.c_void_p] * count)(image.addresses[f"{facts.symbol}_run"])

    @property
    def name(self) -> str:
        """The name that the function was compiled under. Its exported functions begin with `facts.symbol`."""
        return self.facts.name

    def __repr__(self) -> str:
        arguments = ", ".join(map(str, self.arguments))
        return f"<function {self.name}({arguments}) -> ({', '.join(map(str, self.results))})>"

    def set_variable(self, name: str, value: Any) -> None:
        """Sets a variable to a copy of `value`."""
        if name not in self.variables:
            self._refuse(f"no variable {name!r}; {choices(self.variables)}")
        facts = next(v for v in self.facts.arguments if v.name == name)
        self.variables[name][...] = self._array(facts, value)

    def load_variables(self, path: str | os.PathLike[str]) -> None:
        """Sets all variables from a safetensors file, which has their names or labels."""
        arrays = read_safetensors(path)
        for facts in self.facts.arguments:
            if facts.role is Role.ARGUMENT:
                continue
            found = arrays.get(facts.name, arrays.get(facts.label))
            if found is None:
                self._refuse(f"{path} has neither {facts.name!r} nor {facts.label!r}")
            self.set_variable(facts.name, found)

    def run(self, arguments: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Runs the function with arguments given by name; returns the results by name."""
        results = self._call(self._ordered((), arguments))
        return {facts.name: array for facts, array in zip(self.results, results, strict=True)}

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Runs the function. Returns a single result itself, several as a tuple."""
        results = self._call(self._ordered(arguments, named))
        return results[0] if len(results) == 1 else tuple(results)

    def _ordered(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, np.ndarray]:
        names = [facts.name for facts in self.arguments]
        if len(arguments) > len(names):
            self._refuse(f"found {len(arguments)} arguments, wanted {len(names)}: {', '.join(names)}")
        given = dict(zip(names, arguments, strict=False))
        for name, value in named.items():
            if name not in names:
                self._refuse(f"no argument {name!r}; {choices(names)}")
            if name in given:
                self._refuse(f"argument {name!r} is given twice")
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing:
            self._refuse(f"arguments {', '.join(missing)} are missing")
        return {facts.name: self._array(facts, given[facts.name]) for facts in self.arguments}

    def _array(self, facts: ValueFacts, value: Any) -> np.ndarray:
        wanted = facts.dtype.numpy
        try:
            array = np.asarray(value) if hasattr(value, "dtype") else np.asarray(value, wanted)
        except (TypeError, ValueError, OverflowError) as error:
            self._refuse(f"{facts}: {error}")
        if array.dtype != wanted or array.shape != facts.dims:
            self._refuse(f"{facts}: found an array {array.dtype}{list(array.shape)}")
        return np.require(array, requirements=["C", "A"])

    def _call(self, given: dict[str, np.ndarray]) -> list[np.ndarray]:
        try:
            results = [aligned(v.bytes).view(v.dtype.numpy).reshape(v.dims) for v in self.results]
            workspace = aligned(self.facts.workspace_bytes)
        except MemoryError as error:
            raise OutOfMemory(f"{self.name}: {error}") from error
        with self._lock:
            code = self._enter(given, results, workspace)
        if code:
            raise status.class_of_frame(code)(f"{self.name}: {self._message(code)}", code)
        return results

    def _enter(self, given: dict[str, np.ndarray], results: list[np.ndarray], workspace: np.ndarray) -> int:
        arrays = [given[v.name] if v.name in given else self.variables[v.name] for v in self.facts.arguments]
        table = (c.c_void_p * max(len(arrays), 1))(*(array.ctypes.data for array in arrays))
        out = (c.c_void_p * max(len(results), 1))(*(array.ctypes.data for array in results))
        more = () if self._weights is None else (self._weights.ctypes.data,)
        return self._run(c.addressof(table), c.addressof(out), workspace.ctypes.data, *more)

    def _message(self, code: int) -> str:
        return status.frame_message(code, self.facts.messages) or f"error {code}"

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidArgument(f"{self.name}: {what}")


def _zeros(facts: ValueFacts) -> np.ndarray:
    found = aligned(facts.bytes)
    found[...] = 0
    return found.view(facts.dtype.numpy).reshape(facts.dims)
