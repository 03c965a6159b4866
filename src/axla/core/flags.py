"""All options of axla. Only this module reads them from the environment.

Each field of `Flags` is a flag. It can be set in these ways; a later one overrides an earlier one:

    XLA_FLAGS="--xla_dump_to=/tmp/d ..."     XLA's names, or a file with flags
    AXLA_FLAGS="--axla_verify ..."           the same syntax
    AXLA_VERIFY=1                            one variable per flag
    with flags.override(verify=True): ...    in code

An unknown flag whose name begins with `xla_`, or in XLA_FLAGS, gives a warning once, with the most similar
known name, and is ignored: XLA_FLAGS is shared with XLA, which has thousands of flags. Other unknown flags in
AXLA_FLAGS, and invalid values, raise InvalidArgument.
"""

from __future__ import annotations

import dataclasses
import os
import re
import typing
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument, did_you_mean

NOT_FLAGS = ("AXLA_CONFORMANCE", "AXLA_LAUNCHER", "AXLA_SERVICE_TOKEN")
"""Environment variables that begin with AXLA_ but are not flags: those of tests, of the launcher of
`axla.distributed`, and a secret."""

ISAS = ("SSE4_2", "AVX", "AVX2", "AVX512", "AVX512_VNNI", "AVX512_BF16", "AMX", "AMX_FP16", "NEON")


def flag(
    default: Any, *names: str, doc: str, check: Callable[[Any], str | None] | None = None
) -> Any:  # fmt: skip
    """Declares a field of Flags. `names` are its spellings without dashes; `doc` is its description.
    `check(value)` returns a description of the wanted values if the value is invalid, else None. If no name
    begins with `axla_`, `axla_FIELD` is added.
    """
    return dataclasses.field(default=default, metadata={"names": names, "doc": doc, "check": check})


def _regex(value: str) -> str | None:
    try:
        re.compile(value)
    except re.error as error:
        return f"a regular expression ({error})"
    return None


def _at_least(low: int, high: int | None = None) -> Callable[[int | None], str | None]:
    def check(value: int | None) -> str | None:
        if value is None or (value >= low and (high is None or value <= high)):
            return None
        return f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"

    return check


def _isa(value: str) -> str | None:
    return None if not value or value.upper() in ISAS else f"one of {', '.join(ISAS)}"


@dataclass(frozen=True, slots=True)
class Flags:
    """All options of axla."""

    dump_to: str = flag(
        "", "xla_dump_to", "axla_dump",
        doc="Directory for dumps of modules and generated code; `-` is standard output.",
    )  # fmt: skip
    dump_hlo_as_text: bool = flag(
        False, "xla_dump_hlo_as_text",
        doc="Dump modules as HLO text, the default form of a dump.",
    )  # fmt: skip
    dump_hlo_as_dot: bool = flag(
        False, "xla_dump_hlo_as_dot", doc="Dump modules as Graphviz graphs (`.dot`)."
    )
    dump_hlo_as_proto: bool = flag(
        False, "xla_dump_hlo_as_proto", doc="Dump modules as HloProto (`.hlo.pb`); not on standard output."
    )
    dump_hlo_pass_re: str = flag(
        "", "xla_dump_hlo_pass_re", "axla_dump_passes", check=_regex,
        doc="Also dump before and after every pass that changed the module and whose name matches.",
    )  # fmt: skip
    dump_hlo_module_re: str = flag(
        "", "xla_dump_hlo_module_re", "axla_dump_modules", check=_regex,
        doc="Dump only modules whose name matches.",
    )  # fmt: skip
    disable_hlo_passes: tuple[str, ...] = flag(
        (), "xla_disable_hlo_passes", "axla_disable",
        doc="Passes and rewrite rules to skip, separated by commas. Skipping a required pass is an error.",
    )  # fmt: skip
    enable_hlo_passes_only: tuple[str, ...] = flag(
        (), "xla_enable_hlo_passes_only", "axla_enable_only", doc="Of the optional passes, run only these."
    )
    fast_math: bool = flag(
        False, "xla_cpu_enable_fast_math",
        doc="Allow rewrites that are exact for real numbers only: NaN, infinities, signed zeros, rounding "
        "may differ. Convolutions of 3 by 3 use Winograd's algorithm.",
    )  # fmt: skip
    flush_denormals: bool = flag(
        False, "xla_cpu_ftz",
        doc="Allow treating denormals as zero where that is faster: in products of bf16 and conversions to "
        "bf16, on CPUs with instructions for them.",
    )  # fmt: skip
    allow_excess_precision: bool = flag(
        True, "xla_allow_excess_precision",
        doc="Omit a rounding to bf16 whose result is converted back to f32.",
    )  # fmt: skip
    optimization_level: int = flag(
        3, "xla_backend_optimization_level", check=_at_least(0, 3),
        doc="Effort of code generation, from 0 to 3.",
    )  # fmt: skip
    autotune: bool = flag(
        False, "xla_cpu_autotune",
        doc="`on`: measure several tiles, blocks and layouts of kernels (products, convolutions, sums of "
        "columns, loops) on this machine, and use the fastest. Results have the same bits.",
    )  # fmt: skip
    autotune_budget: int = flag(
        60, check=_at_least(1), doc="Seconds that measuring kernels may add to the compilation of a program."
    )
    host_device_count: int = flag(
        1, "xla_force_host_platform_device_count", check=_at_least(1, 4096),
        doc="Number of devices of a client that is created without a number.",
    )  # fmt: skip
    collective_timeout: int = flag(
        40, "xla_cpu_collective_call_terminate_timeout_seconds", check=_at_least(1),
        doc="Seconds that a collective or a compilation waits for other processes.",
    )  # fmt: skip
    cpu_max_isa: str = flag(
        "", "xla_cpu_max_isa", check=_isa, doc=f"Use no instructions above this level: {', '.join(ISAS)}."
    )
    num_threads: int | None = flag(
        None, check=_at_least(1, 4096),
        doc="Number of threads for parallel loops; by default the number of cores that this process may use.",
    )  # fmt: skip
    cache_dir: str | None = flag(
        None,
        doc="Folder of the cache of compiled programs and kernels; empty for none. By default in the user's "
        "cache folder. Its code is executed, so it must belong to the user, and nobody else may write to it.",
    )  # fmt: skip
    verify: bool = flag(
        False, doc="Verify the module after every pass, also if nothing changed, and verify the LLVM modules."
    )
    shuffle: int | None = flag(
        None, doc="Seed: before each pass, permute instructions as far as data dependences allow."
    )
    fuel: int | None = flag(
        None, check=_at_least(0),
        doc="Stop rewriting after this many rule firings and print the last one (bisects a miscompile).",
    )  # fmt: skip
    timings: bool = flag(
        False, doc="Print time, instructions before and after, and firings per rule of every pass."
    )
    progress: bool = flag(
        False, doc="Draw a progress bar on standard error during a compilation of more than one second."
    )
    trace: str = flag("", doc="File for a trace of passes and code generation, in Chrome's JSON format.")
    cuda: str = flag(
        "",
        doc="File of the CUDA driver's library that the backend `cuda` loads. By default `libcuda.so.1`. "
        "Read when the backend is first used.",
    )  # fmt: skip
    service: str = flag(
        "",
        doc="Server of the backend `remote`, as `axla.connect` takes it: `unix:/path` or `host:port`. Read "
        "when it is first used. AXLA_SERVICE_TOKEN has the token for the server.",
    )  # fmt: skip
    service_certificate: str = flag(
        "", doc="File of the root certificate for TLS connections of the backend `remote`."
    )
    opencl: str = flag(
        "",
        doc="File of the OpenCL library that the backend `opencl` loads: a loader, or the driver itself. By "
        "default `libOpenCL.so.1`, then the library that pip installed. Read when it is first used.",
    )  # fmt: skip


FIELDS: dict[str, dataclasses.Field] = {f.name: f for f in dataclasses.fields(Flags)}


def spellings_of(field: str) -> tuple[str, ...]:
    """The names of a flag without dashes: those of XLA first, if there are any, then axla's."""
    names = FIELDS[field].metadata["names"]
    return names if names[-1:] and names[-1].startswith("axla_") else (*names, f"axla_{field}")


SPELLINGS: dict[str, str] = {name: field for field in FIELDS for name in spellings_of(field)}
"""The field of each flag, by the flag's spellings without dashes."""
_TYPES: dict[str, Any] = typing.get_type_hints(Flags)
_OVERRIDE: ContextVar[Flags | None] = ContextVar("flags", default=None)
_reported: set[str] = set()
_parsed: tuple[tuple[tuple[str, str], ...], Flags] | None = None
_seen: dict | None = None


def current() -> Flags:
    """Returns the flags in effect: those set by `override`, else those in the environment."""
    overridden = _OVERRIDE.get()
    if overridden is not None:
        return overridden
    global _parsed, _seen
    # os.environ._data is a plain dict, where it exists: comparing it takes a microsecond, os.environ a
    # hundred.
    data = getattr(os.environ, "_data", None)
    if data is not None and data == _seen and _parsed is not None:
        return _parsed[1]
    seen = dict(data) if data is not None else None
    key = tuple(sorted((k, v) for k, v in os.environ.items() if k == "XLA_FLAGS" or k.startswith("AXLA_")))
    if _parsed is None or _parsed[0] != key:
        _parsed = (key, from_environment(dict(key)))
    _seen = seen  # set after parsing, so that an invalid value raises an error at every call
    return _parsed[1]


@contextmanager
def override(**changes: Any) -> Iterator[Flags]:
    """A context manager: inside the block, `current()` returns the flags with these fields changed. This
    holds for the current thread or async task only.
    """
    flags = replace(current(), **changes)
    token = _OVERRIDE.set(flags)
    try:
        yield flags
    finally:
        _OVERRIDE.reset(token)


def replace(flags: Flags, **changes: Any) -> Flags:
    """Returns `flags` with fields changed. InvalidArgument for an unknown field or an invalid value."""
    for field, value in changes.items():
        if field not in FIELDS:
            raise InvalidArgument(f"there is no flag {field!r}{did_you_mean(field, FIELDS)}")
        _validate(field, value, field)
    return dataclasses.replace(flags, **changes)


def from_environment(environment: typing.Mapping[str, str]) -> Flags:
    """Reads the flags from these environment variables."""
    values: dict[str, Any] = {}
    for variable in ("XLA_FLAGS", "AXLA_FLAGS"):
        values.update(parse(environment.get(variable, ""), variable))
    for variable, text in environment.items():
        if not variable.startswith("AXLA_") or variable == "AXLA_FLAGS" or variable in NOT_FLAGS:
            continue
        field = SPELLINGS.get(variable.lower())
        if field is None:
            known = [name.upper() for name in SPELLINGS if name.startswith("axla_")]
            _report(
                f"environment variable {variable} is not an option of axla{did_you_mean(variable, known)}"
            )
        else:
            values[field] = convert(field, text, variable)
    return Flags(**values)


def parse(text: str, where: str = "flags") -> dict[str, Any]:
    """Parses flags in the form `--name=value ...` into a dict from field to value. Text that does not begin
    with a dash is the name of a file with flags. `where` names the source in messages.
    """
    text = text.strip()
    if text and not text.startswith("-"):
        try:
            with open(text, encoding="utf-8") as file:
                text = file.read()
        except (OSError, ValueError) as error:
            raise InvalidArgument(
                f"{where}: {text!r} is neither flags (--name=value) nor a readable file: {error}"
            ) from None
    try:
        import shlex

        words = shlex.split(text)
    except ValueError as error:
        raise InvalidArgument(f"{where}: {text!r}: {error}") from None
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        field = SPELLINGS.get(name)
        if field is None:
            message = f"{where}: unknown flag --{name}{did_you_mean(name, SPELLINGS)}"
            if where == "AXLA_FLAGS" and not name.startswith("xla_"):
                raise InvalidArgument(message)
            _report(message)
            continue
        values[field] = convert(field, value if equals else None, f"--{name}")
    return values


def convert(field: str, text: str | None, spelling: str) -> Any:
    """Converts the text of a flag to the type of the field. `text` is None for a flag without a value, such
    as `--name`. Raises InvalidArgument for a wrong value; the message calls the flag `spelling`.
    """
    wanted = _TYPES[field]
    value: Any = text
    if wanted is bool:
        known = {None: True, "true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
        known[""] = False
        key = text.lower() if text is not None else None
        if key not in known:
            raise InvalidArgument(f"{spelling}={text}: wanted true or false")
        value = known[key]
    elif text is None:
        raise InvalidArgument(f"{spelling} needs a value: {spelling}=...")
    elif wanted in (int, int | None):
        try:
            value = int(text) if text or wanted is int else None
        except ValueError:
            raise InvalidArgument(f"{spelling}={text}: wanted an integer") from None
    elif wanted == tuple[str, ...]:
        value = tuple(part.strip() for part in text.split(",") if part.strip())
    _validate(field, value, spelling)
    return value


def _validate(field: str, value: Any, spelling: str) -> None:
    check = FIELDS[field].metadata["check"]
    wrong = check(value) if check is not None else None
    if wrong:
        raise InvalidArgument(f"{spelling}={value}: wanted {wrong}")


def _report(message: str) -> None:
    if message not in _reported:
        _reported.add(message)
        warnings.warn(message, stacklevel=4)
