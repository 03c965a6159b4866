"""Draws a module without a browser: computations one below the other, with data flowing downwards.

Instructions are put in layers by their longest path to the end; within a layer they are ordered to reduce
crossings, by moving each box to the average position of its neighbours above and below in turn (Sugiyama's
method). Long edges have a point in each layer that they cross.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from html import escape

from axla.core.dataclass import dataclass
from axla.ir.dot_graph import color
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.traverse import computations_callees_first, post_order

LETTER, LINE = 6.2, 14  # a letter's width and a line's height, in pixels
GAP, RISE = 14, 44  # between boxes of a layer, and between layers
SWEEPS = 4
LONGEST_EDGE = 12
"""Edges across more layers are straight lines: across thousands of layers they would have thousands of
points.
"""


@dataclass(slots=True, eq=False)
class _Box:
    """An instruction, or a point where an edge crosses a layer; a point has no lines of text."""

    lines: tuple[str, ...] = ()
    inst: Instruction | None = None
    x: float = 0.0  # the position of its middle
    layer: int = 0
    above: list[_Box] = field(default_factory=list)
    below: list[_Box] = field(default_factory=list)

    @property
    def width(self) -> float:
        return max((len(line) for line in self.lines), default=0) * LETTER + (12 if self.lines else 2)


def drawing(module: Module) -> str:
    """The picture of a module, as SVG."""
    parts, top, width = [], 10.0, 200.0
    for computation in reversed(computations_callees_first(module)):
        found, right, bottom = _computation(computation, top)
        parts += found
        top, width = bottom + 30, max(width, right + 10)
    style = "text{font:10px monospace} path{fill:none;stroke:#90a4ae} rect{stroke:#78909c}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{top:.0f}">'
    return "\n".join([f"{head}<style>{style}</style>", *parts, "</svg>"]) + "\n"


def _computation(computation: Computation, top: float) -> tuple[list[str], float, float]:
    """Returns (SVG elements, right limit, lower limit) of the drawing of a computation, whose upper limit is
    `top`.
    """
    boxes = _boxes(computation)
    layers = _layers(boxes)
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        for layer in layers if downwards else reversed(layers):
            _arrange(layer, "above" if downwards else "below")
    least = min((box.x - box.width / 2 for layer in layers for box in layer), default=0.0)
    for layer in layers:
        for box in layer:
            box.x += 10 - least
    height = 2 * LINE + 6
    is_entry = computation is computation.module.entry
    name = f"ENTRY {computation.name}" if is_entry else computation.name
    parts = [f'<text x="10" y="{top + 10:.0f}" font-weight="bold">{escape(name)}</text>']

    def y(box: _Box) -> float:
        return top + 20 + box.layer * (height + RISE)

    for box in boxes.values():
        parts += [_edge(box, below, y, height) for below in box.below]
    for box in boxes.values():
        assert box.inst is not None
        left = box.x - box.width / 2
        border = ' stroke-width="3"' if box.inst is computation.root else ""
        parts.append(
            f'<rect x="{left:.1f}" y="{y(box):.1f}" width="{box.width:.1f}" height="{height}" rx="3" '
            f'fill="{color(box.inst)}"{border}/>'
        )
        for number, line in enumerate(box.lines, 1):
            parts.append(f'<text x="{left + 6:.1f}" y="{y(box) + number * LINE:.1f}">{escape(line)}</text>')
    right = max((box.x + box.width / 2 for layer in layers for box in layer), default=0.0)
    return parts, right, top + 20 + len(layers) * (height + RISE)


def _boxes(computation: Computation) -> dict[Instruction, _Box]:
    boxes: dict[Instruction, _Box] = {}
    for inst in post_order(computation):
        shape = inst.shape.to_string()
        lines = (f"{inst.opcode} {_cut(inst.name)}", _cut(shape, 40))
        layer = max((boxes[o].layer + 1 for o in inst.operands), default=0)
        boxes[inst] = _Box(lines, inst, layer=layer)
    for inst, box in reversed(boxes.items()):  # each box is right above its first user
        box.layer = min((boxes[user].layer - 1 for user in inst.users), default=box.layer)
    for inst, box in boxes.items():
        for operand in dict.fromkeys(inst.operands):
            boxes[operand].below.append(box)
    return boxes


def _layers(boxes: dict[Instruction, _Box]) -> list[list[_Box]]:
    """The boxes of each layer, with a point for each edge that crosses the layer."""
    layers: list[list[_Box]] = [[] for _ in range(max((b.layer for b in boxes.values()), default=-1) + 1)]
    for box in boxes.values():
        layers[box.layer].append(box)
    for box in boxes.values():
        for number, end in enumerate(box.below):
            start = box
            if end.layer - box.layer <= LONGEST_EDGE:
                for layer in range(box.layer + 1, end.layer):
                    point = _Box(layer=layer, above=[start])
                    if start is box:
                        box.below[number] = point
                    else:
                        start.below.append(point)
                    layers[layer].append(point)
                    start = point
            if start is not box:
                start.below.append(end)
            end.above.append(start)
    for layer in layers:
        _spread(layer, [0.0] * len(layer))
    return layers


def _arrange(layer: list[_Box], side: str) -> None:
    """Orders a layer by the average position of each box's neighbours on one side, "above" or "below"."""
    wanted = {}
    for box in layer:
        near: list[_Box] = getattr(box, side)
        wanted[box] = sum(other.x for other in near) / len(near) if near else box.x
    layer.sort(key=lambda box: wanted[box])
    _spread(layer, [wanted[box] for box in layer])


def _spread(layer: Sequence[_Box], wanted: Sequence[float]) -> None:
    """Places the boxes of a layer as near as possible to the wanted positions, in order, without overlaps."""
    right = float("-inf")
    for box, x in zip(layer, wanted, strict=True):
        box.x = max(x, right + box.width / 2)
        right = box.x + box.width / 2 + GAP
    if layer:  # all are moved left by the average distance that they were pushed to the right
        pushed = sum(box.x - x for box, x in zip(layer, wanted, strict=True)) / len(layer)
        for box in layer:
            box.x -= pushed


def _edge(start: _Box, end: _Box, y: Callable[[_Box], float], height: float) -> str:
    points = [(start.x, y(start) + height)]
    while end.inst is None:
        points += [(end.x, y(end)), (end.x, y(end) + height)]
        [end] = end.below
    points.append((end.x, y(end)))
    return f'<path d="M{" L".join(f"{x:.1f},{down:.1f}" for x, down in points)}"/>'


def _cut(text: str, most: int = 34) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
