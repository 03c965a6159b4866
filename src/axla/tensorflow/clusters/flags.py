"""The flags of automatic clustering in TF_XLA_FLAGS, which axla removes from the variable.

    TF_XLA_FLAGS="--tf_xla_auto_jit=2 --xla_generate_hlo_graph=.*" python program.py

TensorFlow reads the variable at its first run. It would form clusters itself, and it ends the process at an
unknown flag. So `take` must be called before; `import axla.tensorflow` does. Other flags stay. Values are
checked on first use, so that a wrong one does not stop a program without clusters.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument
from axla.ir.dot_graph import dot_graph
from axla.ir.graph import Module

VARIABLE = "TF_XLA_FLAGS"
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|\S)+""")
_taken: dict[str, str | None] = {}
_pictures = itertools.count()
_dumps: Counter[str] = Counter()


@dataclass(frozen=True, slots=True)
class ClusterFlags:
    """The values of the flags; fields are named like the flags, without `tf_xla_` or `xla_`."""

    auto_jit: int = 0
    """1 or 2: clusters of all nodes that can be compiled; -1: of marked nodes only; 0: as the session says.
    """
    min_cluster_size: int = 4
    cpu_global_jit: bool = True
    """Whether `auto_jit` and the level of a session's configuration apply to the CPU."""
    clustering_debug: bool = False
    """Whether graphs are written to TF_DUMP_GRAPH_PREFIX, before and after they are rewritten."""
    generate_hlo_graph: str = ""
    """A regular expression. For each cluster whose name it matches, a picture is written."""


def _level(text: str) -> int:
    """A level, also in TensorFlow's forms `fusible` and `single-gpu(2)`; the latter means off for the CPU."""
    if re.fullmatch(r"single-gpu\([0-2]\)", text):
        return 0
    return {"-1": -1, "0": 0, "1": 1, "2": 2, "fusible": 1}[text]


def _count(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


def _boolean(text: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[text.lower()]


def _regex(text: str) -> str:
    return re.compile(text).pattern


_FLAGS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "tf_xla_auto_jit": ("auto_jit", _level, "an integer, -1, 0, 1 or 2, or fusible or single-gpu(2)"),
    "tf_xla_min_cluster_size": ("min_cluster_size", _count, "an integer of at least 1"),
    "tf_xla_cpu_global_jit": ("cpu_global_jit", _boolean, "true or false"),
    "tf_xla_clustering_debug": ("clustering_debug", _boolean, "true or false"),
    "xla_generate_hlo_graph": ("generate_hlo_graph", _regex, "a regular expression"),
}
"""For each flag: its field, the function that parses its text, and a description of valid texts."""


def take() -> None:
    """Removes axla's flags from the environment variable, and stores their values."""
    text = os.environ.get(VARIABLE, "")
    words = _WORD.findall(_contents(text))
    others = []
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and name in _FLAGS:
            _taken[name] = _unquoted(value) if equals else None
        else:
            others.append(word)
    if words and not others:
        del os.environ[VARIABLE]
    elif len(others) < len(words):
        os.environ[VARIABLE] = " ".join(others)


def _contents(text: str) -> str:
    """The flags in the variable; a text that does not begin with a dash is the name of a file with flags."""
    if not text.strip() or text.lstrip().startswith("-"):
        return text
    try:
        with open(text, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):  # TensorFlow will report the error
        return ""


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def current() -> ClusterFlags:
    """The current values of the flags; InvalidArgument for an invalid value."""
    take()
    values: dict[str, Any] = {}
    for name, text in _taken.items():
        field, read, wanted = _FLAGS[name]
        try:
            values[field] = read("true" if text is None and read is _boolean else text or "")
        except (ValueError, KeyError, re.error):
            shown = "" if text is None else f"={text}"
            raise InvalidArgument(f"{VARIABLE}: --{name}{shown}: wanted {wanted}") from None
    return ClusterFlags(**values)


# Output that the flags request.


def picture(module: Module, constants: int) -> None:
    """Writes the module of a cluster, compiled with `constants` known values, as a Graphviz graph and prints
    its path, if --xla_generate_hlo_graph matches its name.
    """
    wanted = current().generate_hlo_graph
    if not wanted or re.search(wanted, module.name) is None:
        return
    path = os.path.join(tempfile.gettempdir(), f"hlo_graph_{next(_pictures)}.dot")
    _write(path, dot_graph(module))
    marks = f"[_XlaCompiledKernel=true,_XlaNumConstantArgs={constants}].v{len(module.entry.instructions)}"
    print(f"computation {module.name}{marks} [CPU: pipeline start, before inline]: {path}", file=sys.stderr)


def dump(stage: str, text: Callable[[], str]) -> None:
    """Writes the graph `text()` to a file named after `stage` in the folder TF_DUMP_GRAPH_PREFIX (`-`: to the
    console), if --tf_xla_clustering_debug is set.
    """
    folder = os.environ.get("TF_DUMP_GRAPH_PREFIX", "")
    if not folder or not current().clustering_debug:
        return
    number = _dumps[stage]
    _dumps[stage] += 1
    name = f"{stage}_{number}.pbtxt" if number else f"{stage}.pbtxt"
    if folder == "-":
        print(f"*** {name}\n{text()}", file=sys.stderr)
        return
    os.makedirs(folder, exist_ok=True)
    _write(os.path.join(folder, name), text())


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InvalidArgument(f"{VARIABLE}: cannot write {path}: {error}") from None
