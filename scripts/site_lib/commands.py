"""The command line as Markdown, from its argument parsers."""

from __future__ import annotations

import argparse

from .api import plain


def row(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else action.metavar or ""
    if action.choices is not None and not value:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    if not value and action.nargs != 0:
        value = action.dest.upper()
    if isinstance(value, tuple):
        value = " ".join(value)
    names = [f"`{name} {value}`".replace(" `", "`") for name in action.option_strings] or [f"`{value}`"]
    about = (action.help or "") % {**vars(action), "prog": "axla"}
    return f"| {', '.join(names)} | {plain(' '.join(about.split()))} |"


def verb(name: str, parser: argparse.ArgumentParser, about: str) -> str:
    """The documentation of a verb: description, examples, arguments and options."""
    rows = [
        row(action)
        for action in parser._actions
        if action.help != argparse.SUPPRESS and action.dest != "help"
    ]
    lines = [f"## axla {name}", "", f"{about[0].upper()}{about[1:]}."]
    if parser.description and parser.description != about:
        lines += ["", "```text", parser.description.strip("\n"), "```"]
    if rows:
        lines += ["", "| argument | what |", "| --- | --- |", *rows]
    return "\n".join([*lines, ""])


def page() -> str:
    from axla.tools import main

    verbs = next(a for a in main.parser()._actions if isinstance(a, argparse._SubParsersAction))
    return "\n".join(verb(name, verbs.choices[name], about) for name, about in main.VERBS.items())
