"""Programs with sort and topk, for tests with one thread and with thread blocks."""

from __future__ import annotations

LESS = "ROOT c = pred[] compare(a0, b0), direction=LT"
GREATER = "ROOT c = pred[] compare(b0, a0), direction=LT"
NOT_GREATER = "ROOT c = pred[] compare(a0, b0), direction=LE"
NOT_EQUAL = "ROOT c = pred[] compare(a0, b0), direction=NE"
TOTAL = "ROOT c = pred[] compare(a0, b0), direction=LT, type=TOTALORDER"
TOTAL_GREATER = "ROOT c = pred[] compare(a0, b0), direction=GT, type=TOTALORDER"
OF_MAGNITUDE = "n = f32[] abs(a0)\n  m = f32[] abs(b0)\n  ROOT c = pred[] compare(n, m), direction=LT"
OF_NEGATED = "n = s32[] negate(a0)\n  m = s32[] negate(b0)\n  ROOT c = pred[] compare(n, m), direction=LT"
OF_SECOND = "ROOT c = pred[] compare(a1, b1), direction=GT"
TWO_KEYS = """l = pred[] compare(a0, b0), direction=LT
  q = pred[] compare(a0, b0), direction=EQ
  r = pred[] compare(a1, b1), direction=GT
  t = pred[] and(q, r)
  ROOT c = pred[] or(l, t)"""


def sort_text(types: tuple[str, ...], comparator: str, dims: tuple[int, ...], dimension: int) -> str:
    """A stable sort of an operand of each type. The scalars in the comparator are `a0` and `b0` for the first
    operand, `a1` and `b1` for the second, and so on.
    """
    size = ",".join(map(str, dims))
    arrays = [f"{t}[{size}]" for t in types]
    result = arrays[0] if len(arrays) == 1 else f"({', '.join(arrays)})"
    scalars = "\n".join(
        f"  a{k} = {t}[] parameter({2 * k})\n  b{k} = {t}[] parameter({2 * k + 1})"
        for k, t in enumerate(types)
    )
    parameters = "\n".join(f"  p{k} = {a} parameter({k})" for k, a in enumerate(arrays))
    names = ", ".join(f"p{k}" for k in range(len(arrays)))
    return f"""HloModule sorts
before {{
{scalars}
  {comparator}
}}
ENTRY main {{
{parameters}
  ROOT s = {result} sort({names}), dimensions={{{dimension}}}, is_stable=true, to_apply=before
}}"""


def topk_text(name: str, dims: tuple[int, ...], k: int, largest: bool) -> str:
    """The k largest or smallest elements along the last dimension."""
    size, result = (",".join(map(str, d)) for d in (dims, (*dims[:-1], k)))
    return f"""HloModule topk
ENTRY main {{
  x = {name}[{size}] parameter(0)
  ROOT y = ({name}[{result}], s32[{result}]) topk(x), k={k}, largest={str(largest).lower()}
}}"""
