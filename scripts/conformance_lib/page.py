"""Writes docs/conformance.md from the outcomes of a whole run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from axla.core.dtypes import ALL
from axla.ir.op import OPS
from axla.tools.samples import STARTS, UNTYPED
from conformance_lib.reasons import UNEXPLAINED, general, reason
from conformance_lib.report import is_good, totals
from conformance_lib.samples import NOT_TAKEN
from conformance_lib.section import UNSUPPORTED, Outcome

BACKENDS = ("interpreter", "cpu", "one-lane")
NARROW = "f8 f6 f4"
SMALL = "s1 s2 u1 u2"
COLUMNS = [
    "pred", "s4", "s8", "s16", "s32", "s64", "u4", "u8", "u16", "u32", "u64", SMALL, NARROW, "bf16", "f16",
    "f32", "f64", "c64", "c128", "",
]  # fmt: skip

WHAT = {
    "text": "parses texts that XLA parses; the printed text parses to the same text",
    "print": "prints the same text as XLA, if XLA's own text is a fixed point of XLA",
    "proto": "converts texts to protos and back to the same texts; XLA and axla read each other's protos",
    "invalid": "rejects invalid texts, with a position in the text or a named rule",
    "invalid-stablehlo": "rejects invalid StableHLO, with a position in the text or a labelled rule",
    "exec": "texts compute XLA:CPU's results",
    "matrix": "one-op modules compute XLA:CPU's results on special values",
    "models": "whole programs compute the recorded results and training losses",
    "objects": "ahead-of-time objects have no undefined symbols",
    "stablehlo": "StableHLO with inputs and expected outputs passes its own checks",
    "dynamic": "StableHLO with sizes `?`, specialized for given types, computes XLA:CPU's results",
    "quantized": "StableHLO with quantized types passes its own checks",
    "interpret": "the tests of StableHLO's own interpreter pass",
    "models-stablehlo": "whole programs from StableHLO compute the recorded results",
    "models-bytecode": "whole programs from portable bytecode compute the recorded results",
    "export": "exported StableHLO is accepted by MLIR and computes the expected outputs in XLA",
    "export-models": "whole programs, exported as StableHLO, compute the recorded results in XLA",
    "export-exec": "texts, exported as StableHLO for MLIR and imported, compute the same results",
    "programs": "compiled programs, printed and parsed, print the same text and compute the same bits",
    "devices": "texts for 2 to 8 devices compute XLA:CPU's results on each device",
    "devices-jax": "JAX programs with shard_map, as StableHLO, compute JAX's results on every partition",
    "devices-bytecode": "the same programs in the form that a PJRT plugin receives",
    "devices-auto": "programs that need a partitioner compute the results as a whole on one device",
    "devices-spmd": "the same programs, partitioned by XLA, compute the results on every partition",
    "devices-invalid": "rejects invalid programs for several devices",
    "samples": "each op and element type computes the interpreter's result (on the interpreter: it runs)",
}

HEAD = """\
# Conformance

Made by `python scripts/conformance`; do not edit.

The corpora contain XLA's own tests as HLO text, with results recorded from XLA:CPU (jaxlib 0.10.2), one-op
modules on special values, and whole programs. The corpora define the tolerances. All programs run on the
reference interpreter, on `cpu`, and on `one-lane`, the same compiler with one lane and 32-bit indices.

## Totals

"""

TABLE = (
    """
## Ops and element types

The element type is that of the op's first operand, or of its result if it has no operands.

| mark | meaning |
| --- | --- |
| a number | the number of cases in the corpora for the op and type; all agree on all three backends |
| `3/5` | three of five cases agree; the others are among the exceptions |
| `+` | no case, but the op's samples run, and compiled code computes the interpreter's results |
| `i` | only the interpreter runs it |
| `-` | no backend runs it |
| `!` | no case, and compiled code differs from the interpreter on the op's samples |
| empty | the op does not support this type |

`"""
    + SMALL
    + "` and `"
    + NARROW
    + """` show the worst result of their types.

"""
)


def column(dtype: str) -> str:
    """The column of an element type in the table. The last column is for tokens and empty tuples."""
    if dtype in COLUMNS:
        return dtype
    return SMALL if dtype[0] in "su" else NARROW


def markdown(outcomes: Sequence[Outcome]) -> str:
    return "".join(
        [HEAD, _totals(outcomes), TABLE, _table(outcomes), *_exceptions(outcomes), _refused(outcomes)]
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _totals(outcomes: Sequence[Outcome]) -> str:
    rows = []
    for t in totals(outcomes):
        rows.append([t.section, WHAT[t.section], t.backend or "-", f"{t.good} of {t.cases}", t.share, t.rest])
    return table(["section", "what", "backend", "passed", "share", "rest"], rows)


def _table(outcomes: Sequence[Outcome]) -> str:
    """The table with a row for each op and a column for each element type. A cell counts the cases of the
    corpora or, where there are none, the samples.
    """
    ran: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    for o in outcomes:
        if o.section in ("exec", "matrix", "models"):
            for pair in o.pairs:
                opcode, _, dtype = pair.partition(" ")
                cases = ran[opcode, column(dtype)]
                key = f"{o.section} {o.case}"
                cases[key] = cases.get(key, True) and is_good(o)
    kinds: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for o in outcomes:
        if o.section == "samples":
            opcode, dtype = o.case.split()
            dtype = "" if opcode in UNTYPED else dtype
            kinds[opcode, column(dtype)][o.backend].add(o.kind)
    rows = []
    for opcode in sorted(OPS):
        cells = [_cell(ran.get((opcode, c), {}), kinds.get((opcode, c), {})) for c in COLUMNS]
        rows.append([f"[{opcode}](ops/{opcode}.md)", *cells])
    return table(["op", *COLUMNS[:-1], "none"], rows)


def _cell(ran: dict[str, bool], kinds: dict[str, set[str]]) -> str:
    if ran:
        good = sum(ran.values())
        return str(good) if good == len(ran) else f"{good}/{len(ran)}"
    found = {backend: kinds.get(backend, set()) - {NOT_TAKEN} for backend in BACKENDS}
    if not any(found.values()):
        return ""
    if all(kind == {"ok"} for kind in found.values()):
        return "+"
    if "differs" in found["cpu"] | found["one-lane"]:
        return "!"
    return "i" if found["interpreter"] == {"ok"} else "-"


def _exceptions(outcomes: Sequence[Outcome]) -> Iterable[str]:
    """Yields the lines about cases of the corpora with other outcomes than the wanted ones, by reason."""
    groups: dict[str, dict[str, list[Outcome]]] = defaultdict(lambda: defaultdict(list))
    for o in outcomes:
        if o.section != "samples" and not is_good(o):
            groups[reason(o)][f"`{o.section} {o.case}`"].append(o)
    yield "\n## Exceptions\n"
    if not groups:
        yield "\nNone.\n"
    for why in sorted(groups, key=lambda why: (-len(groups[why]), why)):
        yield f"\n### {why[0].upper() + why[1:]}\n\n"
        for case, found in sorted(groups[why].items()):
            on = sorted({o.backend for o in found if o.backend})
            told = f": {_short(found[-1].detail)}" if why.endswith(UNEXPLAINED) else ""
            where = f" ({', '.join(on)})" if on else ""
            yield f"- {case}{where}{told}\n"


def _short(detail: str) -> str:
    text = " ".join(detail.split())
    return f"`{text[:160]}`" if text else "nothing was said"


def _refused(outcomes: Sequence[Outcome]) -> str:
    """The messages of the errors for samples, without names of shapes and types."""
    said: dict[str, set[str]] = defaultdict(set)
    where: dict[str, Counter[str]] = defaultdict(Counter)
    for o in outcomes:
        if o.section == "samples" and not is_good(o):
            opcode, dtype = o.case.split()
            message = _general(o.detail if o.kind == UNSUPPORTED else f"{o.kind}: {o.detail}", o)
            said[message].add(f"{opcode} {dtype}")
            where[message][o.backend] += 1
    rows = []
    for message in sorted(said, key=lambda m: (-len(said[m]), m)):
        by_op: dict[str, list[str]] = defaultdict(list)
        for pair in sorted(said[message]):
            opcode, dtype = pair.split()
            by_op[opcode].append(dtype)
        shown = "; ".join(
            f"{opcode} ({'all' if len(types) > len(ALL) // 2 else ', '.join(types)})"
            for opcode, types in by_op.items()
        )
        rows.append([message.replace("|", "\\|"), ", ".join(sorted(where[message])), shown])
    text = "\n## Reasons for refused samples\n\n"
    return text + (table(["message", "backend", "ops (element types)"], rows) if rows else "Nothing.\n")


def _general(message: str, outcome: Outcome) -> str:
    """The message without the names of the op and the backend."""
    opcode, _, _ = outcome.case.partition(" ")
    for name in (opcode, STARTS.get(opcode, opcode)):
        message = message.replace(name, "OP")
    if outcome.backend != "interpreter":
        message = message.replace(f"{outcome.backend} and interpreter", "compiled code and interpreter")
    return general(message)
