"""Runs the programs beside this file under stock JAX and under axla, and draws what they took.

python examples/jax/compare.py [--repeat N]        needs what the programs need, and matplotlib

The chart is written to out/jax-programs.png: time to run, time to compile and peak memory of each program.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "jax_programs"))
from sides import COMPILE, SIDES, measure  # noqa: E402

COLORS = {"stock": "#8a8f98", "axla": "#2a6fbb"}


def draw(programs, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figures = {
        "run, s": lambda program, side: program.run_seconds(side),
        "compile, s": lambda program, side: program.processes[side].median(COMPILE),
        "peak memory, MB": lambda program, side: program.processes[side].median("peak_mb"),
    }
    figure, axes = pyplot.subplots(1, len(figures), figsize=(11, 3.5), layout="constrained")
    for plot, (title, value) in zip(axes, figures.items(), strict=True):
        for i, side in enumerate(SIDES):
            heights = [value(program, side) for program in programs]
            bars = plot.bar(
                [x + 0.4 * i for x in range(len(programs))], heights, 0.38, label=side, color=COLORS[side]
            )
            plot.bar_label(bars, fmt="%.3g", fontsize=8)
        plot.set_xticks([x + 0.2 for x in range(len(programs))], [program.name for program in programs])
        plot.set_title(title)
        plot.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=1, help="rounds, of which medians are drawn (1)")
    programs = measure(("digits_cnn", "gpt", "schools"), repeats=parser.parse_args().repeat)
    if failed := [program for program in programs if program.failures]:
        return "\n".join(f"{program.name}: {program.failures}" for program in failed)
    for program in programs:
        print(f"{program.name}: results differ by {program.difference():.2g} of what is tolerated")
    path = Path("out") / "jax-programs.png"
    draw(programs, path)
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
