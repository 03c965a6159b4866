"""axla help: shows what verbs do, and what options a verb takes."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla help`."""
    parser.add_argument("topic", metavar="VERB", nargs="?", help="the verbs to describe; all by default")


def execute(options: argparse.Namespace) -> int:
    """Runs `axla help`; returns its exit status."""
    from axla.core.errors import InvalidArgument, choices
    from axla.tools.main import VERBS, parser

    if options.topic is None:
        parser("").print_help()
        return 0
    if options.topic not in VERBS:
        raise InvalidArgument(f"help: there is no verb {options.topic!r}; {choices(VERBS, options.topic)}")
    whole = parser(options.topic)
    whole.parse_args([options.topic, "--help"])
    return 0
