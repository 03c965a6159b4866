"""Random programs of several participants: synchronous and asynchronous collectives, between computations, in
loops and branches. `scripts/sweep_collectives --programs N` compares them on two backends.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from collective_cases import difference

import axla
from axla.core.errors import AxlaError

SIZE = 24
"""The number of elements of every array; it is divisible by 2, 3, 4 and 8 participants."""
ARRAY = f"f32[{SIZE}]"
GLOBAL = ", channel_id=3, use_global_device_ids=true"
GRIDS = ((2, 1), (1, 2), (3, 1), (4, 1), (2, 2), (1, 4), (4, 2), (2, 4))


class Text:
    """Writes a random program; `rng` makes all choices."""

    def __init__(self, rng: random.Random, grid: tuple[int, int]) -> None:
        self.rng, self.grid = rng, grid
        self.computations = [
            "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }",
            "own { a = f32[] parameter(0)\n b = f32[] parameter(1)\n d = f32[] add(a, a)\n"
            " ROOT c = f32[] subtract(d, b) }",
        ]
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def module(self, steps: int) -> str:
        lines, last = self.steps(["x"], steps, 2)
        entry = [f"ENTRY e {{ x = {ARRAY} parameter(0)", *lines, f"ROOT out = {ARRAY} negate({last}) }}"]
        head = f"HloModule random, replica_count={self.grid[0]}, num_partitions={self.grid[1]}"
        return "\n".join([head, *self.computations, *entry])

    def steps(self, values: list[str], count: int, depth: int) -> tuple[list[str], str]:
        """Returns lines that compute from these values, and the name of a value that depends on most of
        them.
        """
        lines: list[str] = []
        begun: list[tuple[str, str]] = []
        for _ in range(count):
            kind = self.rng.random()
            operand = self.rng.choice(values[-4:])
            if kind < 0.3:
                other, op = self.rng.choice(values), self.rng.choice(["add", "subtract", "maximum"])
                values.append(self.name())
                lines.append(f"{values[-1]} = {ARRAY} {op}({operand}, {other})")
            elif kind < 0.55:
                begun += self.begin(lines, operand)
            elif kind < 0.9 or not depth:
                lines += self.whole(operand, values)
            else:
                lines += self.nested(operand, values, depth - 1)
            while begun and self.rng.random() < 0.4:
                self.end(lines, begun.pop(self.rng.randrange(len(begun))), values)
        for pair in begun:
            self.end(lines, pair, values)
        last = values[-1]
        for other in values[-4:-1]:
            lines.append(f"{(total := self.name())} = {ARRAY} add({last}, {other})")
            last = total
        half, scaled = self.name(), self.name()
        lines += [
            f"{half} = f32[] constant(0.125)", f"{half}s = {ARRAY} broadcast({half}), dimensions={{}}",
            f"{scaled} = {ARRAY} multiply({last}, {half}s)",
        ]  # fmt: skip
        return lines, scaled

    def groups(self, mode: str) -> str:
        replicas, partitions = self.grid
        count = {"replica": replicas, "partition": partitions}.get(mode, replicas * partitions)
        order = self.rng.sample(range(count), count)
        size = self.rng.choice([n for n in range(1, count + 1) if count % n == 0])
        rows = [order[n : n + size] for n in range(0, count, size)]
        text = ",".join("{" + ",".join(map(str, row)) + "}" for row in rows)
        more = {"replica": "", "partition": ", channel_id=3"}.get(mode, GLOBAL)
        return f", replica_groups={{{text}}}{more}"

    def reduced(self) -> str:
        mode = self.rng.choice(["replica", "global"])
        return f"{self.groups(mode)}, to_apply={self.rng.choice(['add', 'own'])}"

    def pairs(self) -> str:
        mode = self.rng.choice([0, 1])
        count = self.grid[mode]
        size = self.rng.randint(1, count)
        ends = zip(self.rng.sample(range(count), size), self.rng.sample(range(count), size), strict=True)
        text = ",".join(f"{{{a},{b}}}" for a, b in ends)
        return f", source_target_pairs={{{text}}}{', channel_id=3' * mode}"

    def begin(self, lines: list[str], operand: str) -> list[tuple[str, str]]:
        """Adds the start of an asynchronous collective; returns its name and the opcode of the done op."""
        start = self.name()
        if self.rng.random() < 0.6:
            lines.append(f"{start} = {ARRAY} all-reduce-start({operand}){self.reduced()}")
            return [(start, "all-reduce-done")]
        lines.append(f"{start} = ({ARRAY}, {ARRAY}) collective-permute-start({operand}){self.pairs()}")
        return [(start, "collective-permute-done")]

    def end(self, lines: list[str], pair: tuple[str, str], values: list[str]) -> None:
        values.append(self.name())
        lines.append(f"{values[-1]} = {ARRAY} {pair[1]}({pair[0]})")

    def whole(self, operand: str, values: list[str]) -> list[str]:
        """The lines of a synchronous collective; a larger result is cut to the size of the others."""
        values.append(self.name())
        found, mode = values[-1], self.rng.choice(["replica", "partition"])
        count = self.grid[0] * self.grid[1]
        part = f"{found}p"
        every = f"{GLOBAL}, dimensions={{0}}, replica_groups=[1,{count}]<=[{count}]"
        return self.rng.choice([
            [f"{found} = {ARRAY} all-reduce({operand}){self.reduced()}"],
            [f"{found} = {ARRAY} all-to-all({operand}), dimensions={{0}}{self.groups(mode)}"],
            [f"{found} = {ARRAY} collective-permute({operand}){self.pairs()}"],
            [f"{found} = {ARRAY} collective-broadcast({operand}){self.groups(mode)}"],
            [f"{part} = f32[{SIZE // count}] reduce-scatter({operand}){every}, to_apply=own",
             f"{found} = {ARRAY} all-gather({part}){every}"],
        ])  # fmt: skip

    def nested(self, operand: str, values: list[str], depth: int) -> list[str]:
        """The lines of a loop, or of a branch that all participants take."""
        name = self.name()
        values.append(f"{name}r")
        if self.rng.random() < 0.5:
            for side in "ab":
                lines, last = self.steps([f"{name}{side}x"], 3, depth)
                text = [f"{name}{side} {{ {name}{side}x = {ARRAY} parameter(0)", *lines]
                self.computations.append(
                    "\n".join([*text, f"ROOT {name}{side}o = {ARRAY} negate({last}) }}"])
                )
            pred = self.rng.choice(["true", "false"])
            return [
                f"{name}p = pred[] constant({pred})",
                f"{name}r = {ARRAY} conditional({name}p, {operand}, {operand}), true_computation={name}a, "
                f"false_computation={name}b",
            ]  # fmt: skip
        state = f"(s32[], {ARRAY})"
        lines, last = self.steps([f"{name}x"], 3, depth)
        head = f"{{ {name}t = {state} parameter(0)\n {name}i = s32[] get-tuple-element({name}t), index=0"
        self.computations.append("\n".join([
            f"{name}b {head}", f"{name}x = {ARRAY} get-tuple-element({name}t), index=1", *lines,
            f"{name}k = s32[] constant(1)", f"{name}j = s32[] add({name}i, {name}k)",
            f"ROOT {name}o = {state} tuple({name}j, {last}) }}",
        ]))  # fmt: skip
        head = head.replace(f"{name}t", f"{name}u").replace(f"{name}i", f"{name}l")
        self.computations.append(
            f"{name}c {head}\n{name}n = s32[] constant({self.rng.randint(0, 3)})\n"
            f"ROOT {name}q = pred[] compare({name}l, {name}n), direction=LT }}"
        )
        return [
            f"{name}z = s32[] constant(0)", f"{name}w = {state} tuple({name}z, {operand})",
            f"{name}v = {state} while({name}w), condition={name}c, body={name}b",
            f"{name}r = {ARRAY} get-tuple-element({name}v), index=1",
        ]  # fmt: skip


def text_of(seed: int) -> str:
    rng = random.Random(seed)
    return Text(rng, rng.choice(GRIDS)).module(rng.randint(4, 14))


def compared(seed: int, backends: Sequence[str] = ("interpreter", "cpu")) -> str:
    """The difference between the results of the program of a seed on two backends; "" if there is none."""
    text, found = text_of(seed), []
    for backend in backends:
        try:
            program = axla.compile(axla.parse(text), backend=backend)
            rng = np.random.default_rng(seed)
            count = program.num_replicas * program.num_partitions
            rows = [[rng.normal(size=SIZE).astype(np.float32)] for _ in range(count)]
            found.append([np.asarray(row[0]) for row in program.execute_replicated(rows, deadline=60)])
        except AxlaError as error:
            return f"{backend}: {type(error).__name__}: {error}"
    why = [difference(a, b, True) for a, b in zip(*found, strict=True)]
    return "; ".join(f"device {n}: {one}" for n, one in enumerate(why) if one)
