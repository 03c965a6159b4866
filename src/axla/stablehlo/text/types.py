"""Parses types in MLIR text."""

from __future__ import annotations

import re
from typing import Any

from axla.core.cursor import always
from axla.core.regex import ascii_regex
from axla.stablehlo import mlir
from axla.stablehlo.text.lexer import BLANK, MlirCursor

_DIMS = always(ascii_regex(BLANK + r"((?:(?:\d++|\?)\s*+x\s*+)*+)"))
_UNRANKED = ascii_regex(BLANK + r"\*\s*+x\s*+")
_INTEGER = ascii_regex(r"(|s|u)i([1-9]\d{0,7})")
FLOATS = (
    "f32", "f64", "f16", "bf16", "tf32", "f80", "f128", "f8E5M2", "f8E4M3", "f8E4M3FN", "f8E5M2FNUZ",
    "f8E4M3FNUZ", "f8E4M3B11FNUZ", "f8E3M4", "f8E8M0FNU", "f6E3M2FN", "f6E2M3FN", "f4E2M1FN",
)  # fmt: skip
_SIMPLE: dict[str, mlir.Type] = {
    "index": mlir.IndexType(), "none": mlir.NoneType(), "!stablehlo.token": mlir.TokenType(),
    **{name: mlir.FloatType(name) for name in FLOATS},
}  # fmt: skip
MAX_INTEGER_WIDTH = (1 << 24) - 1
MAX_DIMENSION = (1 << 63) - 1


class TypeReader(MlirCursor):
    """Reads types. `known` has every type by its text, so that equal types are usually one object."""

    __slots__ = ("known", "type_aliases")

    def __init__(self, text: str, at: int = 0) -> None:
        self.known: dict[str, mlir.Type] = dict(_SIMPLE)
        self.type_aliases: dict[str, mlir.Type] = {}
        super().__init__(text, at)

    def attribute(self) -> Any:
        """Reads an attribute, such as the encoding of a tensor; Attributes implements it."""
        raise NotImplementedError

    def type(self) -> mlir.Type:
        """Reads a type."""
        found = self.known.get(self.token)
        if found is not None:
            self.advance()
            return found
        kind, token, at = self.kind, self.token, self.start
        self.deeper()
        if kind == "type":
            self.seek(at + 6)
            found = self._tensor()
            self.known[token] = found
        elif kind == "bare":
            found = self._named()
        elif kind == "bang":
            found = self._dialect()
        elif token == "(":
            found = self._function()
        else:
            self.fail(f"expected a type, found {self.saw()}")
        self.depth -= 1
        return found

    def types(self) -> list[mlir.Type]:
        """Reads types separated by commas."""
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return found

    def type_list(self) -> list[mlir.Type]:
        """Reads `()` or `(type, ...)`."""
        self.expect("(")
        return self.until(")", self.type)

    def results(self) -> list[mlir.Type]:
        """Reads the types after `->`: one type or a list in parentheses."""
        if self.token != "(":
            return [self.type()]
        at = self.start
        found = self.type_list()
        if self.token == "->":  # the only result is a function
            self.seek(at)
            return [self.type()]
        return found

    def _function(self) -> mlir.Type:
        inputs = self.type_list()
        self.expect("->")
        return mlir.FunctionType(tuple(inputs), tuple(self.results()))

    def _named(self) -> mlir.Type:
        token, at = self.token, self.start
        integer = _INTEGER.fullmatch(token)
        if integer:
            self.advance()
            width = int(integer[2])
            if width > MAX_INTEGER_WIDTH:
                self.fail(f"integers have at most {MAX_INTEGER_WIDTH} bits", at)
            return self.known.setdefault(token, mlir.IntegerType(width, integer[1]))
        if token not in ("tensor", "complex", "tuple", "memref", "vector"):
            self.fail(f"expected a type, found {self.saw()}")
        self.advance()
        if self.token != "<":
            self.fail(f"expected '<' after {token}, found {self.saw()}")
        if token in ("vector", "memref"):
            return self._memory(token, at)
        if token == "tensor":
            return self._tensor()
        if token == "tuple":
            return mlir.TupleType(tuple(self.listed("<>", self.type)))
        return mlir.ComplexType(self.inside("<>", self.type))

    def shape(self) -> tuple[int | None, ...]:
        """Reads sizes, each followed by an x, after the current token."""
        found = _DIMS(self.text, self.end)
        self.seek(found.end())
        sizes = re.sub(r"\s", "", found[1])
        shape = tuple([None if size == "?" else int(size[:20]) for size in sizes.split("x")[:-1]])
        if any(size is not None and size > MAX_DIMENSION for size in shape):
            self.fail("a size of more than 64 bits", found.start(1))
        return shape

    def _tensor(self) -> mlir.TensorType:
        """Reads a tensor type after `tensor`, from `<` on."""
        unranked = _UNRANKED.match(self.text, self.end)
        if unranked:
            self.seek(unranked.end())
        shape = None if unranked else self.shape()
        at = self.start
        element = self.type()
        if isinstance(element, mlir.TensorType | mlir.TupleType | mlir.FunctionType | mlir.TokenType):
            self.fail("elements of a tensor cannot have this type", at)
        encoding = self.attribute() if self.accept(",") else None
        self.expect(">")
        return mlir.TensorType(shape, element, encoding)

    def _memory(self, word: str, begin: int) -> mlir.Type:
        """Reads `memref<4xf32>`, or another type that begins with `word` at the offset `begin`. Vectors, and
        memrefs with layouts or memory spaces, are kept as text.
        """
        at = self.start
        if word == "memref" and not _UNRANKED.match(self.text, self.end):
            shape = self.shape()
            element = self.type()
            if self.accept(">"):
                return mlir.MemRefType(shape, element)
        self.seek(at)
        return mlir.OpaqueType(self.balanced(begin))

    def _dialect(self) -> mlir.Type:
        at, name = self.start, self.advance()[1:]
        if self.token != "<" or self.start != at + len(name) + 1:
            if name in self.type_aliases:
                self.use_alias("!" + name, at)
                return self.type_aliases[name]
            if "." not in name:
                self.fail(f"type alias !{name} is not defined", at)
            if name.startswith(("stablehlo.", "chlo.", "quant.")):
                self.fail(f"unknown {name.split('.')[0]} type: {name.split('.', 1)[1]}", at)
            return mlir.OpaqueType(name)
        if name == "stablehlo.future":
            return self._future()
        if name == "quant.uniform":
            return self._quantized()
        if name.startswith("stablehlo."):
            self.fail(f"unknown stablehlo type: {name.split('.', 1)[1]}", at)
        return mlir.OpaqueType(self.balanced(at + 1))

    def _future(self) -> mlir.Type:
        at, found = self.start, tuple(self.listed("<>", self.type))
        if any(not isinstance(kind, mlir.TensorType) or kind.shape is None for kind in found):
            self.fail("a future must hold ranked tensors", at)
        return mlir.FutureType(found)

    # ---- Quantized types

    def _quantized(self) -> mlir.Type:
        """Reads `<i8<-127:127>:f32:0, {0.1:1, 0.2}>`: storage type, range, expressed type, axes, scales and
        zero points.
        """
        self.expect("<")
        at = self.start
        unsigned = re.fullmatch(r"u(\d{1,3})", self.token)
        if unsigned:
            self.advance()
        storage = mlir.IntegerType(int(unsigned[1]), "u") if unsigned else self.type()
        if not isinstance(storage, mlir.IntegerType) or storage.width > 32:
            self.fail("the storage type must be an integer of at most 32 bits", at)
        low, high = least, greatest = mlir.QuantizedType.limits(storage)
        if self.token == "<":
            least, greatest = self.inside("<>", self.pair_of_integers)
            if not low <= least < greatest <= high:
                self.fail(f"the storage range {least}:{greatest} is empty or outside of {low}:{high}", at)
        self.expect(":")
        at = self.start
        expressed = self.type()
        if not isinstance(expressed, mlir.FloatType):
            self.fail("the expressed type must be a float", at)
        axes, block_sizes = self._quantized_axes()
        self.expect(",")
        at = self.start
        blocks, parameters = self._parameters()
        if blocks and not axes:
            self.fail("several scales need an axis", at)
        if axes and not blocks:
            self.fail("expected scales in braces for a type with axes", at)
        if axes and not block_sizes and len(blocks) != 1:
            self.fail("scales along one axis must be in one list", at)
        self.expect(">")
        scales, zeros = tuple([scale for scale, _ in parameters]), tuple([zero for _, zero in parameters])
        blocks = blocks if block_sizes else ()
        return mlir.QuantizedType(
            storage, expressed, scales, zeros, axes, least, greatest, block_sizes, blocks
        )

    def _quantized_axes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Reads nothing, `:1` or `:{0:4, 1:2}`; returns axes and the sizes of their blocks."""
        if not self.accept(":"):
            return (), ()
        if self.token != "{":
            return (self.integer(),), ()
        pairs = self.listed("{}", self.pair_of_integers)
        return tuple([axis for axis, _ in pairs]), tuple([size for _, size in pairs])

    def _parameters(self) -> tuple[tuple[int, ...], list[tuple[float, int]]]:
        """Reads `scale`, `scale:zero point`, or several of them in nested braces. Returns the shape of the
        lists, and the (scale, zero point) pairs in row-major order.
        """
        at = self.start
        if self.token != "{":
            token = self.take("number", "a scale")
            try:
                return (), [(float(token), self.integer() if self.accept(":") else 0)]
            except ValueError:
                self.fail(f"expected a scale, found {token!r}", at)
        self.deeper()
        lists = self.listed("{}", self._parameters)
        self.depth -= 1
        if len({shape for shape, _ in lists}) != 1:
            self.fail("lists of scales must have equal lengths", at)
        return (len(lists), *lists[0][0]), [pair for _, pairs in lists for pair in pairs]
