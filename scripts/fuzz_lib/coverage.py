"""Counts what the cases reach: passes that changed a module, rules that fired, kernels by plan, ops."""

from __future__ import annotations

from collections import Counter

counts: dict[str, Counter[str]] = {
    kind: Counter() for kind in ("passes", "rules", "kernels", "ops", "families")
}


def watch() -> None:
    """Replaces functions of the compiler by ones that also count, for the rest of this process."""
    from axla.cpu import compiler
    from axla.passes import driver

    runner = driver._Runner
    run_pass, report, emit = runner.run_pass, runner.report, compiler.emit_kernel

    def counted_pass(self, step, number, group):
        version = self.module.version
        run_pass(self, step, number, group)
        counts["passes"][step.name] += self.module.version != version

    def counted_report(self):
        counts["rules"].update(self.session.firings)
        report(self)

    def counted_kernel(module, kernel, target):
        counts["kernels"][type(kernel.plan).__name__] += 1
        emit(module, kernel, target)

    runner.run_pass, runner.report = counted_pass, counted_report
    compiler.emit_kernel = counted_kernel


def taken() -> dict[str, Counter[str]]:
    """Returns the counts since the last call, and sets them to zero."""
    found = {kind: Counter(c) for kind, c in counts.items()}
    for counter in counts.values():
        counter.clear()
    return found


def shown(found: dict[str, Counter[str]]) -> str:
    """The counts as a table, the lowest first, with the names that were never reached."""
    from axla.ir.op import OPS
    from axla.passes import rewrite
    from axla.passes.pipelines import CPU
    from axla.passes.steps import flat

    known = {
        "passes": {p.name for _, p in flat(CPU)}, "rules": set(rewrite.rules_by_name()), "ops": set(OPS),
        "kernels": set(), "families": set(),
    }  # fmt: skip
    lines = []
    for kind, counter in found.items():
        missing = sorted(known[kind] - {n for n, c in counter.items() if c})
        listed = ", ".join(f"{name} {n}" for name, n in sorted(counter.items(), key=lambda i: i[1]) if n)
        lines.append(f"{kind}: {listed}")
        if missing:
            lines.append(f"  never: {', '.join(missing)}")
    return "\n".join(lines)
