"""axla ops: lists what programs are made of.

axla ops                 ops and kinds of kernels, a line for each: its name, its package, what it is
axla ops reduce          what an op takes

An installed package adds an op by an entry point of the group axla.ops, whose name is the opcode.
"""

from __future__ import annotations

import argparse
import re


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla ops`."""
    parser.add_argument("op", metavar="NAME", nargs="?", help="an opcode")


def execute(options: argparse.Namespace) -> int:
    """Runs `axla ops`; returns its exit status."""
    print(table() if options.op is None else detail(options.op))
    return 0


def table() -> str:
    """A line for each op, then for each kind of kernel. For an op that cannot be loaded, the line has the
    reason.
    """
    import axla.hlo  # noqa: F401  (declares the ops)
    from axla.core.errors import AxlaError
    from axla.ir.op import declared, known, package_of
    from axla.kernels.kinds import kinds

    rows = []
    for opcode in known():
        try:
            found = declared(opcode)
        except AxlaError as error:
            rows.append((opcode, "-", str(error)))
        else:
            assert found is not None
            rows.append((opcode, package_of(found), _first_sentence(found)))
    rows.append(("", "", ""))
    rows += [(f"kind {kind.name}", package_of(kind), _first_sentence(kind)) for kind in kinds()]
    widths = [max(len(row[k]) for row in rows) for k in range(2)]
    return "\n".join(f"{a:{widths[0]}}  {b:{widths[1]}}  {c}".rstrip() for a, b, c in rows)


def _first_sentence(cls: type) -> str:
    text = " ".join((cls.__doc__ or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[.;])\s", text)[0].rstrip(";.")


def detail(name: str) -> str:
    """The description of an op."""
    import axla.hlo  # noqa: F401  (declares the ops)
    from axla.core.errors import InvalidArgument
    from axla.ir.op import FACTS, declared, package_of, unknown

    found = declared(name)
    if found is None:
        raise InvalidArgument(unknown(name))
    last = len(found.operand_names) - 1
    operands = [f"*{n}" if found.variadic and k == last else n for k, n in enumerate(found.operand_names)]
    facts = [
        ("package", package_of(found)), ("operands", ", ".join(operands) or "none"),
        ("attributes", ", ".join(attribute.text for attribute in found.attributes) or "none"),
        ("facts", ", ".join(sorted(fact for fact in FACTS if getattr(found, fact) is True)) or "none"),
    ]  # fmt: skip
    lines = (f"  {label:<10}  {text}" for label, text in facts)
    return "\n".join([f"{name}: {_first_sentence(found)}", *lines])
