"""Options that verbs share: the program to read, its open sizes, the target to compile for."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from axla.api import parse
from axla.backends.binding import with_constants
from axla.comparison import array_leaves, random_array
from axla.core.errors import AxlaError, InvalidArgument
from axla.core.shape import AnyShape
from axla.custom.feeds import feeds
from axla.custom.site import nest
from axla.ir.graph import Module
from axla.runtime.safetensors import read_safetensors
from axla.text.shapes import parse_shape
from axla.tools.arrays import UNREADABLE

if TYPE_CHECKING:
    from axla.target.machine import CpuTarget

_HLO = re.compile(r"(?!.*\brows)\w+\[|\(")  # a shape, unless its sizes are those of `axla compile --rows`


def add_file(parser: argparse.ArgumentParser, **options: object) -> None:
    """Adds the argument FILE and the options for open sizes."""
    parser.add_argument("file", metavar="FILE", help="HLO or StableHLO; `-` is standard input", **options)  # type: ignore[arg-type]
    add_sizes(parser)


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """Adds the options for StableHLO with sizes `?`."""
    parser.add_argument(
        "--arg-types", metavar="TYPES", type=_types,
        help="types of the arguments, for StableHLO with sizes `?`: f32[2,3],s32[] or tensor<2x3xf32>; "
        "`_` keeps the program's type",
    )  # fmt: skip
    parser.add_argument(
        "--dim-args", metavar="N,...", type=integers,
        help="values of the first arguments; the program then has the others only",
    )  # fmt: skip


def sizes_of(options: argparse.Namespace) -> dict[str, Any]:
    """The sizes in the options, as `axla.parse` takes them."""
    return {"arg_types": options.arg_types, "dim_args": options.dim_args}


def _types(text: str) -> list[AnyShape | str | None]:
    """Parses a list of types: shapes in HLO's notation, other types as text, None for `_`."""
    items, depth = [""], 0
    for part in re.split(r"(<(?!=)|[][>(){},])", text):  # the `<` of f32[<=4] is not a bracket
        depth += (part in set("[<({")) - (part in set("]>)}"))
        if part == "," and depth == 0:
            items.append("")
        else:
            items[-1] += part
    items = [item.strip() for item in items]
    try:
        return [None if i == "_" else parse_shape(i) if re.match(_HLO, i) else i for i in items]
    except AxlaError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def integers(text: str) -> list[int]:
    """Parses numbers such as `1,2,3`; raises an argparse error for other text."""
    if not re.fullmatch(r"-?\d+(,-?\d+)*", text):
        raise argparse.ArgumentTypeError(f"wanted integers with commas between them, found {text!r}")
    return [int(item) for item in text.split(",")]


def add_constants(parser: argparse.ArgumentParser) -> None:
    """Adds the option `--constant`."""
    parser.add_argument(
        "--constant", metavar="FILE", action="append", default=[],
        help="make constants of parameters: an .npz or .safetensors file with arrays by the names or numbers "
        "of parameters, or PARAMETER=FILE.npy; repeatable",
    )  # fmt: skip


def constants_of(options: argparse.Namespace) -> list[tuple[int | str, np.ndarray]]:
    """Reads the arrays of --constant; each has the name or number of a parameter."""
    found: list[tuple[int | str, np.ndarray]] = []
    for text in options.constant:
        name, equals, path = text.rpartition("=")
        try:
            if equals:
                arrays = {name: np.load(path, allow_pickle=False)}
            elif text.endswith(".safetensors"):
                arrays = read_safetensors(text)
            else:
                with np.load(text, allow_pickle=False) as archive:
                    arrays = {key: archive[key] for key in archive.files}
        except (*UNREADABLE, TypeError, AttributeError) as error:
            wanted = "FILE.npz, FILE.safetensors or PARAMETER=FILE.npy"
            raise InvalidArgument(f"--constant {text}: wanted {wanted} that can be read: {error}") from None
        for key, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise InvalidArgument(f"--constant {text}: wanted one array (.npy), found an archive")
            array.flags.writeable = False  # no other code has the array
            found.append((int(key) if key.isdecimal() else key, array))
    return found


def add_backend(parser: argparse.ArgumentParser, name: str, default: str | None, text: str) -> None:
    """Adds an option whose value is the name of a backend."""
    parser.add_argument(name, metavar="BACKEND", type=_backend, default=default, help=text)


def _backend(name: str) -> str:
    from axla import backends

    try:
        backends.get(name)
    except AxlaError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name


def feed(module: Module) -> None:
    """Fills an empty infeed queue with random values for the entry of a module."""
    queue = feeds().infeed
    if queue:
        return
    for inst in [i for i in module.entry.instructions if i.opcode == "infeed"]:
        data: AnyShape = inst.shape.elements[0]
        queue.put(nest(data, (random_array(leaf, 0, k) for k, leaf in enumerate(array_leaves(data)))))


def add_replicas(parser: argparse.ArgumentParser) -> None:
    """Adds the option `--replicas`."""
    parser.add_argument("--replicas", choices=["first"], help="run only the first participant of a program")


def read_module(options: argparse.Namespace) -> Module:
    """Reads and verifies the module in the file, with the sizes and constants in the options."""
    from axla.ir.verify import verify

    file = options.file
    elided = "fill" if getattr(options, "fill_elided", False) else "keep"
    source = sys.stdin.buffer.read() if file == "-" else Path(file)
    module = parse(source, elided=elided, **sizes_of(options))
    _ = module.entry  # raises an error if sizes are missing
    verify(module)
    constants = constants_of(options) if getattr(options, "constant", None) else []
    return with_constants(module, constants) if constants else module


def add_target(parser: argparse.ArgumentParser) -> None:
    """Adds the option `--target-cpu`."""
    parser.add_argument(
        "--target-cpu",
        metavar="ALIAS",
        default="native",
        help="a target that `axla targets` lists (native)",
    )


def target_of(name: str | None) -> CpuTarget:
    """The target with this name, the value of --target-cpu; for None, the target of this machine."""
    from axla.aot.machines import NATIVE, machine

    return machine(name or NATIVE)
