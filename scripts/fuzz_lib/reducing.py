"""Reduces failures, as `axla reduce` does: a smaller program must still fail by the same oracle."""

from __future__ import annotations

import os
import pickle
import random
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from axla.comparison import parameter_leaves
from axla.ir.graph import Module
from axla.tools.apart import Apart, Ended
from axla.tools.reduce import reduce

from . import told
from .work import BY_FORCE, ENDED, headline

SECONDS = 600.0
"""The seconds for a reduction. Most of them are spent on starting processes, as candidates may end theirs."""
CALL = 180.0
"""The seconds for one question of `bisect`."""
CANDIDATE = 2.0
"""The seconds for a run of a candidate, which may have an endless loop; more on a busy machine."""
TWINS = 100
"""The number of tries to make modules that the cache may mistake for the program."""
STEADY = 10
"""The number of targets that are tried to find one on which ranges depend on each other."""
AGAIN = 5
"""The number of processes in which `bisect` looks for a failure that comes by chance."""
TRIES = 3
"""The number of times that an oracle is asked about a candidate, as its random choices may miss the
failure.
"""

Given = Sequence[tuple[str, np.ndarray]]
"""Arguments with the names of their parameters, for the program to be reduced."""


def reduced(
    module: Module, inputs: Sequence[np.ndarray], oracle: str, seed: str, family: str, why: str
) -> Module:
    """The smallest module found in SECONDS on which the oracle reports a failure of the same kind."""
    given = [(name, array) for (name, _), array in zip(parameter_leaves(module), inputs, strict=True)]
    with Apart(seconds=40.0) as child:

        def fails(candidate: Module) -> bool:
            try:
                found = child.call(asked, candidate, given, oracle, seed, family, why)
            except Ended as error:
                found = f"{ENDED} {BY_FORCE if error.how == 'hang' else error.how}"
            return kind_of(found) == kind_of(why)

        return reduce(module, fails, seconds=SECONDS)


def smallest_apart(module: Module) -> Module:
    """The smallest module for which `cpu` and the interpreter differ on random arguments."""
    from axla.tools.trial import Question, Trials, text_of

    with Trials(seconds=40.0) as trials:
        return reduce(module, lambda m: trials.ask(text_of(m), Question()).failed, seconds=SECONDS)


def backend_of(oracle: str) -> str:
    """The backend that an oracle tests."""
    return oracle if oracle in ("one-lane", "opencl") else "cpu"


def steady(
    module: Module, inputs: Sequence[np.ndarray], oracle: str, seed: str, family: str, why: str
) -> tuple[str, str, str, str]:  # fmt: skip
    """Returns (oracle, seed, family, why) with which a failure that depends on chance occurs each time: the
    oracle `apart`, with a seed that selects a target on which ranges depend on each other. Without such a
    seed, returns the arguments.
    """
    given = [(name, array) for (name, _), array in zip(parameter_leaves(module), inputs, strict=True)]
    with Apart(seconds=40.0) as child:
        for number in range(STEADY):
            question = ("apart", f"{seed} {number}", family, "it differs")
            if child.call(asked, module, given, *question):
                return question
    return oracle, seed, family, why


def compiled_how(
    module: Module, given: Given, oracle: str, seed: str, family: str, why: str
) -> tuple[Module, str, tuple[int, ...]]:  # fmt: skip
    """The last compilation by a failing oracle: the module with the control edges that the oracle added, the
    text of a file for `--load` with the target and the flags ("" for this machine without flags), and the
    donated parameters.
    """
    with TemporaryDirectory() as folder, Apart(seconds=40.0) as child:
        file = Path(folder) / "latest"
        with suppress(Ended):
            child.call(asked_noting, file, module, given, oracle, seed, family, why)
        return noted(file, module)


def asked_noting(file: Path, *question: Any) -> None:
    """Asks an oracle in this process. Stores the compilations in a file, since the process may crash."""
    from .oracles import LATEST

    LATEST.clear()
    LATEST.file = file
    try:
        asked(*question)
    finally:
        LATEST.file = None


def noted(file: Path, module: Module) -> tuple[Module, str, tuple[int, ...]]:
    """Reads the file of `asked_noting`: (module, text of a file for `--load`, donated parameters)."""
    from .oracles import loading

    latest = pickle.loads(file.read_bytes()) if file.exists() else {}
    text = loading(latest.get("target"), latest.get("flags", {}))
    return latest.get("module", module), text, latest.get("donate", ())


def twins(module: Module) -> tuple[str, ...]:
    """The texts of modules that differ from a module in one place."""
    from .cases import Case, twin

    text = module.to_string(print_large_constants=True)
    case = Case("twins", module, [], text=text)
    found = []
    for seed in range(TWINS):
        case.draw = random.Random(seed)
        found.append(twin(case))
    return tuple(dict.fromkeys(m.to_string(print_large_constants=True) for m in found if m is not None))


def bisected(module: Module, inputs: Sequence[np.ndarray], oracle: str, load: Sequence[str] = ()) -> str:
    """The verdict of `axla bisect` on a module: the pass, kernel... by which it differs from the
    interpreter.
    """
    from axla.comparison import BITS, DEFAULT_TOLERANCE
    from axla.tools.bisect import bisect
    from axla.tools.trial import Question, Trials

    from .oracles import ORACLES
    from .roundings import is_rough

    given = tuple((name, array) for (name, _), array in zip(parameter_leaves(module), inputs, strict=True))
    question = Question(
        backend=backend_of(oracle), inputs=given if ORACLES[oracle].reduces else (),
        tolerance=DEFAULT_TOLERANCE if is_rough(module) else BITS,
        before=twins(module) if oracle == "cache" else (),
    )  # fmt: skip
    for _ in range(AGAIN):
        with Trials(seconds=CALL, load=[told.__file__, *load]) as trials:
            verdict = str(bisect(module, trials, question))
        if not verdict.startswith("it does not fail"):
            break
    return verdict


def kind_of(why: str) -> str:
    """The kind of a failure: "" (none), the class of an exception, "differs", or that the process ended or
    was killed.
    """
    if why.startswith(ENDED):
        return f"{ENDED} {BY_FORCE}" if BY_FORCE in why else ENDED
    if not why.startswith("Traceback"):
        return "differs" if why else ""
    return headline(why).partition(":")[0]


def asked(module: Module, given: Given, oracle: str, seed: str, family: str, why: str) -> str:
    """The message of an oracle about a module, in this process; "" if the oracle does not apply or finds no
    failure.
    """
    from . import cases
    from .cases import Case, Skip
    from .oracles import ORACLES

    sorts = [i for c in module.computations for i in c.instructions if i.opcode in ("sort", "custom-call")]
    if any(c.root.opcode == "constant" for i in sorts for c in i.op.computations()):
        return ""  # the comparator is no order
    cases.SECONDS = CANDIDATE * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    text = module.to_string(print_large_constants=True)
    case = Case(seed, module, arguments(module, given), family, text)
    question: Any = ORACLES[oracle]
    found = ""
    try:
        case.wanted  # noqa: B018  (computed once)
    except Skip:
        return ""
    for attempt in range(TRIES):
        case.draw = random.Random(f"{seed} {oracle}" + (f" {attempt}" if attempt else ""))
        question.forget()
        try:
            if not question.fits(case):
                return ""
            found = question.check(case)
        except Skip:
            continue
        except Exception:  # noqa: BLE001  (it may be the failure)
            found = traceback.format_exc(limit=-8)
        if kind_of(found) == kind_of(why):
            return found
    return found


def arguments(module: Module, given: Given) -> list[np.ndarray]:
    """The given arrays by the names of the parameters, cut to their sizes; random arrays for other
    parameters.
    """
    from verify_lib import operands

    known, found = dict(given), []
    for name, shape in parameter_leaves(module):
        array = known.get(name)
        if array is not None and array.dtype == shape.dtype.numpy and array.ndim == shape.rank:
            array = array[tuple(slice(0, n) for n in shape.dims)]
            if array.shape == shape.dims:
                found.append(array)
                continue
        found.append(operands.argument(shape.logical, random.Random(name)).array)
    return found
