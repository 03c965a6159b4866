"""The options of a library, declared once: the parameters of `axla.aot.compile`, their help, and the flags of
`axla compile` are derived from the fields of `Options`.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from axla.aot.library import Weights
from axla.core.errors import InvalidArgument, choices

NameLists = tuple[Sequence[str] | None, Sequence[str] | None] | None
_FILE = "FILE"  # the placeholder for values that are paths


def _is(default: Any, about: str, shown: str = "") -> Any:
    """Declares an option. `shown`: the placeholder for its value in the help of its flag; bools need none,
    other options without one have no flag.
    """
    return dataclasses.field(default=default, metadata={"about": about, "shown": shown})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a library, with the names, defaults and descriptions that users see."""

    target: str = _is("x86-64", "an alias that `axla targets` lists, an LLVM triple, or native", "ALIAS")
    name: str = _is("model", "Name or ns::Name of the C++ class; files and symbols have it, too", "NAME")
    target_cpu: str | None = _is(None, "an LLVM CPU name, in place of the target's", "CPU")
    target_features: Sequence[str] = _is((), "LLVM features to add or to remove", "+A,-B")
    symbol: str = _is("", "the prefix of C symbols and files, if it is not the name", "SYMBOL")
    config: str | bytes | os.PathLike[str] | None = _is(None, "tf2xla.Config, as for tfcompile", _FILE)
    signature: str | None = _is(None, "the function of a SavedModel (serving_default)", "KEY")
    operations: Sequence[str] = _is((), "operations of a graph to run besides the fetches", "A,B")
    freeze_checkpoint: str | os.PathLike[str] | None = _is(
        None, "a checkpoint; the variables of a TensorFlow graph become constants", _FILE
    )
    freeze_saver: str | os.PathLike[str] | None = _is(
        None, "a SaverDef, which says how variables are restored from the checkpoint", _FILE
    )
    names: NameLists = _is(None, "(names of arguments, names of results), without a config")
    variables: Sequence[str] = _is((), "arguments whose values are kept between calls", "A,B")
    weights: str = _is(
        "object", "where to store large constants: object, separate (another object file), file", "PLACE"
    )
    allow_libgcc: bool = _is(False, "on cores without f64 instructions, use slow generated code for f64")
    externals: Sequence[str] = _is(
        (), "custom calls to functions `void f(void *out, void **in)` that users link", "F,G"
    )
    self_test: bool = _is(True, "record a call for the generated test, if all externals are registered")
    pack_int4: bool = _is(False, "store s4 and u4 as u8[(n + 1) / 2], the first element in the low bits")
    arg_types: Sequence[Any] | None = _is(None, "types of the arguments, for StableHLO with sizes `?`")
    dim_args: Sequence[int] | None = _is(None, "values of the first arguments, as for `axla.parse`")

    def __post_init__(self) -> None:
        places = [place.value for place in Weights]
        if self.weights not in places:
            raise InvalidArgument(f"weights={self.weights!r}; {choices(places, self.weights)}")
        if self.config is not None and (self.names is not None or self.variables):
            message = "config: it has the names and variables, so `names` and `variables` are not allowed"
            raise InvalidArgument(message)


DEFAULT = Options()
FIELDS = {field.name: field for field in dataclasses.fields(Options)}


def options_of(keywords: Mapping[str, Any]) -> Options:
    """Makes Options from their values by name; InvalidArgument for an unknown name."""
    for name in keywords.keys() - FIELDS.keys():
        raise InvalidArgument(f"compile: there is no option {name!r}; {choices(FIELDS, name)}")
    return Options(**keywords)


def takes_options(function: Callable) -> Callable:
    """Decorates a function with `**options`: its signature and its documentation then list the options."""
    signature, kind = inspect.signature(function), inspect.Parameter.KEYWORD_ONLY
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    listed = [inspect.Parameter(n, kind, default=f.default, annotation=f.type) for n, f in FIELDS.items()]
    vars(function)["__signature__"] = signature.replace(parameters=[*own, *listed])
    about = [f"    {name}: {field.metadata['about']}" for name, field in FIELDS.items()]
    function.__doc__ = "\n".join([inspect.getdoc(function) or "", "", *about])
    return function


def opened(source: Any) -> Any:
    """Converts a path to a Path and a buffer of bytes to bytes; returns other sources as they are. A str is
    taken for a path if it is a single line without a brace that has a suffix or a folder, or names a folder.
    """
    line = isinstance(source, str) and not re.search(r"[\n{]", source)
    if line and (re.search(r"[./\\]", source) or os.path.isdir(source)):
        return Path(source)
    return bytes(source) if isinstance(source, bytearray | memoryview) else source


def words(text: str) -> list[str]:
    """The parts of a comma-separated text."""
    return [word for word in text.split(",") if word]


def flags() -> dict[str, dict[str, Any]]:
    """The flags of `axla compile` for the options, each with the keyword arguments for argparse."""
    found = {}
    for name, field in FIELDS.items():
        default, shown = field.default, field.metadata["shown"]
        no = default is True
        told = {"dest": name, "default": default, "help": "do not " * no + field.metadata["about"]}
        flag = f"--{'no-' * no}{name.replace('_', '-')}"
        if isinstance(default, bool):
            found[flag] = told | {"action": f"store_{not default}".lower()}
        elif shown:
            kind = words if default == () else Path if shown == _FILE else str
            found[flag] = told | {"metavar": shown, "type": kind}
    return found
