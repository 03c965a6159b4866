"""Compares random programs of several participants with a model of the collectives that has no code in common
with axla's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from math import prod

import collective_programs
import numpy as np

import axla
from axla.core import flags
from axla.core.errors import AxlaError

SIZE = 24
ARRAY = f"s32[{SIZE}]"
REDUCERS = {"add": np.add, "maximum": np.maximum, "xor": np.bitwise_xor, "minimum": np.minimum}
GRIDS = ((2, 1), (1, 2), (3, 1), (4, 1), (2, 2), (1, 4), (2, 3), (4, 2), (2, 4))


def check(draw: random.Random) -> str:
    """The difference between the results of a random program and those of the model; "" if they agree."""
    with flags.override(cache_dir="", optimization_level=draw.choice((0, 1))):
        if draw.random() < 0.35:
            seed = draw.randrange(1 << 30)
            why = collective_programs.compared(seed)
            return f"program {seed}: {why}\n{collective_programs.text_of(seed)}" if why else ""
        return modelled(draw)


def modelled(draw: random.Random) -> str:
    replicas, partitions = grid = draw.choice(GRIDS)
    members = list(product(range(replicas), range(partitions)))
    rng = np.random.default_rng(draw.randrange(1 << 30))
    values = {m: rng.integers(-100, 100, SIZE).astype(np.int32) for m in members}
    given = [[values[m]] for m in members]
    lines, last = [], "x"
    for number in range(draw.randint(1, 4)):
        name = f"v{number}"
        line, values = _step(draw, grid, name, last, values)
        lines += line
        last = name
        if draw.random() < 0.5:  # so that participants without a value differ from copies
            lines += [
                f"{name}i = s32[{SIZE}] iota(), iota_dimension=0",
                f"{name}a = {ARRAY} add({last}, {name}i)",
            ]
            values = {m: v + np.arange(SIZE, dtype=np.int32) for m, v in values.items()}
            last = f"{name}a"
    bodies = [
        f"{op} {{ a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] {op}(a, b) }}"
        for op in REDUCERS
    ]  # fmt: skip
    head = f"HloModule m, replica_count={replicas}, num_partitions={partitions}"
    text = "\n".join(
        [head, *bodies, f"ENTRY e {{ x = {ARRAY} parameter(0)", *lines, f"ROOT out = {ARRAY} copy({last}) }}"]
    )
    for backend in ("interpreter", "cpu"):
        try:
            found = axla.compile(axla.parse(text), backend=backend).execute_replicated(given, deadline=60)
        except AxlaError as error:
            return f"{backend}: {type(error).__name__}: {error}\n{text}"
        for m, row in zip(members, found, strict=True):
            if not np.array_equal(np.asarray(row[0]), values[m]):
                return f"{backend}, member {m}: found {np.asarray(row[0])}, wanted {values[m]}\n{text}"
    return ""


Values = dict[tuple[int, int], np.ndarray]


def _step(
    draw: random.Random, grid: tuple[int, int], name: str, x: str, values: Values
) -> tuple[list[str], Values]:  # fmt: skip
    """Makes a random collective on the value named `x`. Returns the lines of its instructions, and every
    participant's values after it.
    """
    op = draw.choice(
        ("all-reduce", "all-reduce", "started", "reduce-scatter", "all-to-all", "permute", "broadcast")
    )
    if op == "permute":
        across = draw.random() < 0.5
        count = grid[across]
        size = draw.randint(1, count)
        pairs = list(zip(draw.sample(range(count), size), draw.sample(range(count), size), strict=True))
        text = ",".join(f"{{{a},{b}}}" for a, b in pairs)
        source = {b: a for a, b in pairs}
        made = {}
        for m in values:
            come = source.get(m[across])
            other = None if come is None else (m[0], come) if across else (come, m[1])
            made[m] = values[other] if other is not None else np.zeros(SIZE, np.int32)
        channel = ", channel_id=1" if across else ""
        return [f"{name} = {ARRAY} collective-permute({x}), source_target_pairs={{{text}}}{channel}"], made
    modes = ("replica", "partition") if op in ("all-to-all", "broadcast") else ("replica", "global", "across")
    if op == "reduce-scatter":
        modes = ("replica", "global")
    mode = draw.choice(modes)
    attributes, groups = _groups(draw, grid, mode)
    whole = {m: next(g for g in groups if m in g) for m in values}
    if op in ("all-reduce", "started"):
        reducer = draw.choice(list(REDUCERS))
        made = {m: _reduced(reducer, [values[o] for o in whole[m]]) for m in values}
        if op == "all-reduce":
            return [f"{name} = {ARRAY} all-reduce({x}){attributes}, to_apply={reducer}"], made
        return [
            f"{name}s = {ARRAY} all-reduce-start({x}){attributes}, to_apply={reducer}",
            f"{name} = {ARRAY} all-reduce-done({name}s)",
        ], made  # fmt: skip
    if op == "broadcast":
        return [f"{name} = {ARRAY} collective-broadcast({x}){attributes}"], {
            m: values[whole[m][0]] for m in values
        }
    size = len(groups[0])
    if op == "all-to-all":
        if SIZE % size:
            return [f"{name} = {ARRAY} negate({x})"], {m: -v for m, v in values.items()}
        part = SIZE // size
        made = {}
        for m in values:
            at = whole[m].index(m)
            made[m] = np.concatenate([values[o][at * part : (at + 1) * part] for o in whole[m]])
        return [f"{name} = {ARRAY} all-to-all({x}), dimensions={{0}}{attributes}"], made
    if SIZE % size:
        return [f"{name} = {ARRAY} negate({x})"], {m: -v for m, v in values.items()}
    reducer, part = draw.choice(list(REDUCERS)), SIZE // size
    cut = {}
    for m in values:
        at = whole[m].index(m)
        cut[m] = _reduced(reducer, [values[o] for o in whole[m]])[at * part : (at + 1) * part]
    again, others = _groups(draw, grid, mode, size)
    back = {m: next(g for g in others if m in g) for m in values}
    made = {m: np.concatenate([cut[o] for o in back[m]]) for m in values}
    return [
        f"{name}p = s32[{part}] reduce-scatter({x}), dimensions={{0}}{attributes}, to_apply={reducer}",
        f"{name} = {ARRAY} all-gather({name}p), dimensions={{0}}{again}",
    ], made  # fmt: skip


def _reduced(name: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
    found = arrays[0]
    for array in arrays[1:]:
        found = REDUCERS[name](found, array)
    return found


def _groups(
    draw: random.Random, grid: tuple[int, int], mode: str, size: int = 0
) -> tuple[str, list[list[tuple[int, int]]]]:  # fmt: skip
    """Random replica groups: their text, and the participants of each group in order. `size` is the size of
    all groups, 0 for a random one.
    """
    replicas, partitions = grid
    count = {"replica": replicas, "across": replicas, "partition": partitions}.get(
        mode, replicas * partitions
    )
    size = size or draw.choice([n for n in range(1, count + 1) if count % n == 0])
    kind = draw.choice(("lists", "lists", "iota", "turned", "none"))
    if kind == "none" and size == count and mode != "global":
        rows, text = [list(range(count))], "{}"
    elif kind == "turned" and 1 < size < count:
        rows = np.arange(count).reshape(size, count // size).T.tolist()
        text = f"[{count // size},{size}]<=[{size},{count // size}]T(1,0)"
    elif kind == "iota":
        rows, text = np.arange(count).reshape(-1, size).tolist(), f"[{count // size},{size}]<=[{count}]"
    else:
        rows = np.array(draw.sample(range(count), count)).reshape(-1, size).tolist()
        text = "{" + ",".join("{" + ",".join(map(str, row)) + "}" for row in rows) + "}"
    channel = {"replica": "", "partition": ", channel_id=1", "across": ", channel_id=1"}.get(
        mode, ", channel_id=1, use_global_device_ids=true"
    )
    if mode == "global":
        groups = [[divmod(n, partitions) for n in row] for row in rows]
    elif mode == "across":
        groups = [[(r, p) for r in row for p in range(partitions)] for row in rows]
    elif mode == "partition":
        groups = [[(r, p) for p in row] for row in rows for r in range(replicas)]
    else:
        groups = [[(r, p) for r in row] for row in rows for p in range(partitions)]
    assert sum(map(len, groups)) == prod(grid)
    return f", replica_groups={text}{channel}", groups
