"""The programs to time, as HLO text, which axla and XLA both get."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
MAX = "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] maximum(a, b) }\n"


@dataclass(frozen=True)
class Benchmark:
    """A program and the shapes of its f32 inputs. `tolerance` is the allowed relative difference of
    results.
    """

    name: str
    text: str
    shapes: tuple[tuple[int, ...], ...]
    tolerance: float = 1e-4

    def inputs(self) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        return [rng.standard_normal(shape, np.float32) for shape in self.shapes]


def kernels() -> list[Benchmark]:
    """Fused elementwise ops, reductions, data movement and matrix products of common sizes."""
    wide = (4096, 1024)
    products = [(128, 128, 128), (512, 512, 512), (1024, 1024, 1024), (128, 768, 3072), (128, 3072, 768)]
    return [
        Benchmark("bias+gelu erf", _gelu(wide, _GELU_ERF), (wide, wide[1:])),
        Benchmark("bias+gelu tanh", _gelu(wide, _GELU_TANH), (wide, wide[1:])),
        Benchmark("softmax", _softmax(wide), (wide,)),
        Benchmark("layernorm", _layernorm(wide), (wide, wide[1:], wide[1:])),
        Benchmark("sum axis 0", _sum(wide, 0), (wide,), 1e-3),
        Benchmark("sum axis 1", _sum(wide, 1), (wide,), 1e-3),
        Benchmark("transpose 4096x4096", _transpose(4096), ((4096, 4096),)),
        *(product(*sizes) for sizes in products),
    ]  # fmt: skip


def product(m: int, n: int, k: int) -> Benchmark:
    name = f"matmul {m}x{n}x{k}" if m != n else f"matmul {m}"
    return Benchmark(name, _matmul(m, n, k), ((m, k), (k, n)), 1e-3)


def _module(name: str, body: str, before: str = "") -> str:
    return f"HloModule {name}\n\n{before}ENTRY main {{\n{body}}}\n"


# GELU of y = x + bias; {s} stands for the shape.
_GELU_ERF = """
 r = f32[] constant(0.70710678)
 rb = {s} broadcast(r), dimensions={{}}
 z = {s} multiply(y, rb)
 t = {s} erf(z)
"""
_GELU_TANH = """
 c = f32[] constant(0.044715)
 cb = {s} broadcast(c), dimensions={{}}
 r = f32[] constant(0.79788456)
 rb = {s} broadcast(r), dimensions={{}}
 y2 = {s} multiply(y, y)
 y3 = {s} multiply(y2, y)
 cy = {s} multiply(y3, cb)
 sum = {s} add(y, cy)
 z = {s} multiply(sum, rb)
 t = {s} tanh(z)
"""


def _gelu(dims: tuple[int, int], middle: str) -> str:
    s = f"f32[{dims[0]},{dims[1]}]"
    return _module("gelu", f""" x = {s} parameter(0)
 b = f32[{dims[1]}] parameter(1)
 bb = {s} broadcast(b), dimensions={{1}}
 y = {s} add(x, bb)
{middle.format(s=s)} one = f32[] constant(1)
 ones = {s} broadcast(one), dimensions={{}}
 h = f32[] constant(0.5)
 hb = {s} broadcast(h), dimensions={{}}
 t1 = {s} add(t, ones)
 hy = {s} multiply(y, hb)
 ROOT out = {s} multiply(hy, t1)
""")  # fmt: skip


def _softmax(dims: tuple[int, int]) -> str:
    s, row = f"f32[{dims[0]},{dims[1]}]", f"f32[{dims[0]}]"
    return _module("softmax", f""" x = {s} parameter(0)
 low = f32[] constant(-inf)
 zero = f32[] constant(0)
 m = {row} reduce(x, low), dimensions={{1}}, to_apply=max
 mb = {s} broadcast(m), dimensions={{0}}
 d = {s} subtract(x, mb)
 e = {s} exponential(d)
 t = {row} reduce(e, zero), dimensions={{1}}, to_apply=add
 tb = {s} broadcast(t), dimensions={{0}}
 ROOT out = {s} divide(e, tb)
""", ADD + MAX)  # fmt: skip


def _layernorm(dims: tuple[int, int]) -> str:
    s, row, column = f"f32[{dims[0]},{dims[1]}]", f"f32[{dims[0]}]", f"f32[{dims[1]}]"
    return _module("layernorm", f""" x = {s} parameter(0)
 scale = {column} parameter(1)
 bias = {column} parameter(2)
 zero = f32[] constant(0)
 n = f32[] constant({1 / dims[1]})
 nb = {row} broadcast(n), dimensions={{}}
 total = {row} reduce(x, zero), dimensions={{1}}, to_apply=add
 mean = {row} multiply(total, nb)
 meanb = {s} broadcast(mean), dimensions={{0}}
 d = {s} subtract(x, meanb)
 d2 = {s} multiply(d, d)
 squares = {row} reduce(d2, zero), dimensions={{1}}, to_apply=add
 var = {row} multiply(squares, nb)
 eps = f32[] constant(1e-05)
 epsb = {row} broadcast(eps), dimensions={{}}
 vare = {row} add(var, epsb)
 inv = {row} rsqrt(vare)
 invb = {s} broadcast(inv), dimensions={{0}}
 normal = {s} multiply(d, invb)
 sb = {s} broadcast(scale), dimensions={{1}}
 scaled = {s} multiply(normal, sb)
 bb = {s} broadcast(bias), dimensions={{1}}
 ROOT out = {s} add(scaled, bb)
""", ADD)  # fmt: skip


def _sum(dims: tuple[int, int], axis: int) -> str:
    return _module("sum", f""" x = f32[{dims[0]},{dims[1]}] parameter(0)
 zero = f32[] constant(0)
 ROOT out = f32[{dims[1 - axis]}] reduce(x, zero), dimensions={{{axis}}}, to_apply=add
""", ADD)  # fmt: skip


def _transpose(n: int) -> str:
    return _module(
        "transpose",
        f" x = f32[{n},{n}] parameter(0)\n ROOT out = f32[{n},{n}] transpose(x), dimensions={{1,0}}\n",
    )


def _matmul(m: int, n: int, k: int) -> str:
    return _module("matmul", f""" a = f32[{m},{k}] parameter(0)
 b = f32[{k},{n}] parameter(1)
 ROOT out = f32[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
""")  # fmt: skip


def add(size: int) -> Benchmark:
    s = f"f32[{size}]"
    text = _module("add", f" a = {s} parameter(0)\n b = {s} parameter(1)\n ROOT c = {s} add(a, b)\n")
    return Benchmark("add", text, ((size,), (size,)))


# Loops. They carry the trip count, the counter and the state.

LOOP_C = """
#include <stdint.h>
void loop(int32_t trips, uint32_t *u, float *f) {
    uint32_t a = u[0], b = u[1], c = u[2], d = u[3];
    float p = f[0], q = f[1], r = f[2], w = f[3];
    for (int32_t i = 0; i < trips; i++) {
        uint32_t a2 = b ^ (b << 13), b2 = c ^ (c >> 17), c2 = d ^ (d << 5), d2 = a ^ (a >> 7);
        float p2 = q * 0.5f + r * 0.25f, q2 = r * 0.375f - w * 0.5f;
        float r2 = w * 0.5f + p * 0.4375f, w2 = p * 0.25f - q * 0.625f;
        a = a2 + c; b = b2 ^ d; c = c2 + a2; d = d2 ^ b2;
        p = p2 + 1.0f; q = q2 + 0.5f; r = r2 + 0.25f; w = w2 + 0.125f;
    }
    u[0] = a; u[1] = b; u[2] = c; u[3] = d;
    f[0] = p; f[1] = q; f[2] = r; f[3] = w;
}
"""

# The body of LOOP_C, an expression per line: result, opcode, operands. Numbers are constants.
_MIXED_BODY = """
a1 shift-left b 13; a2 xor b a1; b1 shift-right-logical c 17; b2 xor c b1
c1 shift-left d 5; c2 xor d c1; d1 shift-right-logical a 7; d2 xor a d1
px multiply q 0.5; py multiply r 0.25; p2 add px py; qx multiply r 0.375; qy multiply w 0.5; q2 subtract qx qy
rx multiply w 0.5; ry multiply p 0.4375; r2 add rx ry; wx multiply p 0.25; wy multiply q 0.625
w2 subtract wx wy
an add a2 c; bn xor b2 d; cn add c2 a2; dn xor d2 b2
pn add p2 1; qn add q2 0.5; rn add r2 0.25; wn add w2 0.125
"""


def mixed_loop() -> str:
    """The loop of LOOP_C: 8 carried values, each of which depends on two others."""
    lines: list[str] = []
    for expression in _MIXED_BODY.replace("\n", ";").split(";"):
        if not expression.strip():
            continue
        name, opcode, *operands = expression.split()
        kind = "u32" if name[0] in "abcd" else "f32"
        for number, operand in enumerate(operands):
            if not operand[0].isalpha():
                operands[number] = f"{name}k"
                lines.append(f" {name}k = {kind}[] constant({operand})")
        lines.append(f" {name} = {kind}[] {opcode}({', '.join(operands)})")
    names = list("abcdpqrw")
    return _loop("mixed", names, ["u32"] * 4 + ["f32"] * 4, lines, [f"{name}n" for name in names])


def exp_tanh_loop(count: int) -> str:
    """A loop of `count` carried f32 values, each of which depends on two others through exp and tanh."""
    lines = [" half = f32[] constant(0.5)"]
    state = []
    for k in range(count):
        a, b = f"c{(k + 1) % count}", f"c{(k + 7) % count}"
        lines += [
            f" t{k} = f32[] tanh({a})", f" m{k} = f32[] negate({b})", f" e{k} = f32[] exponential(m{k})",
            f" h{k} = f32[] multiply(e{k}, half)", f" n{k} = f32[] add(t{k}, h{k})",
        ]  # fmt: skip
        state.append(f"n{k}")
    return _loop("exp_tanh", [f"c{k}" for k in range(count)], ["f32"] * count, lines, state)


def _loop(name: str, names: list[str], kinds: list[str], body: list[str], state: list[str]) -> str:
    tree = "(" + ", ".join(["s32[]", "s32[]", *(f"{k}[]" for k in kinds)]) + ")"
    parts = "".join(
        f" {n} = {k}[] get-tuple-element(t), index={i + 2}\n"
        for i, (n, k) in enumerate(zip(names, kinds, strict=True))
    )
    head = (
        f" t = {tree} parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
        " trips = s32[] get-tuple-element(t), index=1\n"
    )
    turn = "\n".join(body)
    loop = f"""body {{
{head}{parts}{turn}
 one = s32[] constant(1)
 next = s32[] add(i, one)
 ROOT new = {tree} tuple(next, trips, {", ".join(state)})
}}
condition {{
{head} ROOT go = pred[] compare(i, trips), direction=LT
}}
"""
    inputs = "".join(f" p{i + 1} = {k}[] parameter({i + 1})\n" for i, k in enumerate(kinds))
    results = "".join(f" r{i} = {k}[] get-tuple-element(w), index={i + 2}\n" for i, k in enumerate(kinds))
    initial = ", ".join(f"p{i + 1}" for i in range(len(kinds)))
    shapes = ", ".join(f"{k}[]" for k in kinds)
    outputs = ", ".join(f"r{i}" for i in range(len(kinds)))
    main = f""" trips = s32[] parameter(0)
{inputs} zero = s32[] constant(0)
 init = {tree} tuple(zero, trips, {initial})
 w = {tree} while(init), condition=condition, body=body
{results} ROOT out = ({shapes}) tuple({outputs})
"""
    return _module(name, main, loop)


def large(instructions: int, seed: int = 0) -> Benchmark:
    """A random graph of elementwise ops and dots on f32[32,32] without equal parts; all values are
    bounded.
    """
    rng = random.Random(seed)
    s = "f32[32,32]"
    lines = [f" v{k} = {s} parameter({k})" for k in range(4)]
    unary: tuple[str, ...] = ("tanh", "negate", "cosine", "abs", "logistic")
    binary = ("add", "multiply", "subtract", "maximum", "minimum")
    make: Callable[[str, list[str]], str] = lambda op, args: f"{s} {op}({', '.join(args)})"  # noqa: E731
    while len(lines) < instructions - 1:
        n = len(lines)
        x, y = (f"v{max(0, n - 1 - int(rng.expovariate(0.15)))}" for _ in range(2))
        if n % 25 == 0:
            lines.append(
                f" v{n} = {make('dot', [x, y])}, lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
            )
        elif n % 5 == 1:
            lines.append(f" v{n} = {make('tanh', [f'v{n - 1}'])}")  # keeps values small
        elif rng.random() < 0.3:
            lines.append(f" v{n} = {make(rng.choice(unary), [x])}")
        else:
            lines.append(f" v{n} = {make(rng.choice(binary), [x, y])}")
    lines.append(f" ROOT out = {make('add', [f'v{len(lines) - 1}', f'v{len(lines) - 2}'])}")
    return Benchmark(
        f"{instructions} instructions", _module("large", "\n".join(lines) + "\n"), ((32, 32),) * 4
    )
