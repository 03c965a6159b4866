"""Texts of programs that scan an array."""

from __future__ import annotations


def scan_text(kind, dims, at, op, init, reverse, before="copy(p)", behind="copy(s)") -> str:
    """A reduce-window that scans dimension `at` of an array. `op` is an opcode, or the instructions of a
    combiner of a and b. `before` is an instruction on the parameter p, whose result is scanned, `behind` one
    on the sums s.
    """
    shape, reach = f"{kind}[{','.join(map(str, dims))}]", dims[at] - 1
    size = "x".join(str(n if d == at else 1) for d, n in enumerate(dims))
    own = f"0_{reach}" if reverse else f"{reach}_0"
    pad = "x".join(own if d == at else "0_0" for d in range(len(dims)))
    joined = op if "ROOT" in op else f"ROOT r = {kind}[] {op}(a, b)"
    init = f"({init}, 0)" if kind == "c64" else init
    return f"""HloModule scan
combine {{ a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  {joined} }}
ENTRY main {{ p = {shape} parameter(0)
  x = {shape} {before}
  z = {kind}[] constant({init})
  s = {shape} reduce-window(x, z), window={{size={size} pad={pad}}}, to_apply=combine
  ROOT r = {shape} {behind} }}"""
