"""`axla <verb>`: runs a verb, and turns errors into a line of text and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import axla
from axla.core.errors import AxlaError, choices, did_you_mean
from axla.tools.colours import CYAN, RED, YELLOW, painted

VERBS = {
    "run": "run a program, and compare backends",
    "opt": "print a program after passes or at a stage of the compiler",
    "graph": "write a page that shows a program: graph, passes, kernels, times, memory",
    "compile": "compile a program to a C library",
    "targets": "list the machines that programs are compiled for",
    "check": "run programs and check their results",
    "bisect": "name the pass or kernel that makes a program fail",
    "reduce": "shrink a program that fails to a test",
    "stats": "instructions, cost, and memory over time",
    "convert": "write a program in another format",
    "cache": "size of the cache of compiled programs, and clear it",
    "backends": "list the backends, what they take and what they refuse",
    "new-backend": "write a package with a backend of your own",
    "ops": "list the ops and the kinds of kernels, those of installed packages too",
    "serve": "run programs for other processes",
    "doctor": "say what is installed here, and check that it works",
    "completion": "print what a shell needs to complete the words of axla",
    "help": "say what verbs do",
    "tfcompile": "compile a TensorFlow graph to an object file and a C++ class",
}
"""The verbs, with a line about each. The module of a verb has its name, and is imported when it is used."""

FAILED, USAGE, INTERRUPTED = 1, 2, 130  # the exit codes of shells and argparse


class _Parser(argparse.ArgumentParser):
    """A parser that suggests similar words for a wrong choice."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"{value!r} is unknown; {choices(action.choices, value)}")


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of the whole command line; with `only`, no other verb has its arguments."""
    whole = _Parser(prog="axla", description="XLA, the compiler for linear algebra.")
    whole.add_argument("--version", action="version", version=f"axla {axla.__version__}")
    verbs = whole.add_subparsers(dest="verb", metavar="VERB")
    for name, about in VERBS.items():
        verb = verbs.add_parser(name, help=about, formatter_class=argparse.RawDescriptionHelpFormatter)
        if only in (None, name):
            module = importlib.import_module(f"axla.tools.{name.replace('-', '_')}")
            verb.description = (module.__doc__ or "").partition("\n\n")[2] or about
            module.add_arguments(verb)
            verb.set_defaults(execute=module.execute, flags=list(verb._option_string_actions))
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns its exit code. For wrong usage, argparse exits with 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    given = parser(next((word for word in arguments if not word.startswith("-")), ""))
    options, unknown = given.parse_known_args(arguments)
    options.given = arguments
    if options.verb is None and not unknown:
        given.print_help()
        return 0
    if unknown:
        name = unknown[0].partition("=")[0]
        hint = did_you_mean(name, getattr(options, "flags", ()))
        if name.startswith(("--xla_", "--tf_xla_")):
            hint = "; flags of XLA are set in the environment variable XLA_FLAGS"
        given.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    from axla.core import flags
    from axla.ir.places import located

    with warnings.catch_warnings(), _nobody_feeds():
        warnings.showwarning = _show_warning
        drawn = sys.stderr.isatty() and "AXLA_PROGRESS" not in os.environ
        try:
            shown = flags.override(progress=True) if drawn else contextlib.nullcontext()
            with shown, located(_program(options)):
                code = options.execute(options)
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            # The reader has closed the pipe (`axla opt f | head`). Python would complain again when it
            # flushes the output.
            _discard_output()
            return FAILED
        except (AxlaError, OSError) as error:
            return _complain(error)
        except KeyboardInterrupt:
            return INTERRUPTED


def _program(options: argparse.Namespace) -> str:
    """The file of the program, if the verb has exactly one; else ""."""
    given = vars(options)
    named = given.get("paths") or [given.get("file") or given.get("source") or "-"]
    return named[0] if len(named) == 1 and named[0] != "-" else ""


@contextlib.contextmanager
def _nobody_feeds() -> Iterator[None]:
    """Makes an empty infeed fail at once instead of waiting, since nothing fills it while a command runs."""
    feed = axla.feeds().infeed
    before, feed.timeout = feed.timeout, 0.0
    try:
        yield
    finally:
        feed.timeout = before


def _complain(error: Exception) -> int:
    text = str(error)
    if isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    print(f"axla: {painted('error', RED, sys.stderr)}: {text or type(error).__name__}", file=sys.stderr)
    for note in getattr(error, "__notes__", ()):
        print(f"axla: {painted('note', CYAN, sys.stderr)}: {note}", file=sys.stderr)
    return FAILED


def _discard_output() -> None:
    with contextlib.suppress(OSError, ValueError):  # ValueError: a stream without a descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(message: Warning | str, *rest: object, **more: object) -> None:
    print(f"axla: {painted('warning', YELLOW, sys.stderr)}: {message}", file=sys.stderr)
