"""Highlighting for languages that pygments does not know: HLO, MLIR and text protos."""

from __future__ import annotations

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

_COMMON = [
    (r"//[^\n]*|#[^\n]*", Comment),
    (r'"(\\.|[^"\\])*"', String),
    (r"[-+]?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d+)?\b", Number),
    (r"\s+", Text),
    (r"[=:<>+*/-]+", Operator),
    (r"[^\w\s]", Punctuation),
    (r"\w", Number),  # sizes such as 3x3 and 1_1
]


class Hlo(RegexLexer):
    """The lexer of HLO text: `ROOT sum = f32[4] add(product, y)`."""

    name = "HLO"
    tokens = {
        "root": [
            (r"(HloModule|ENTRY|ROOT)\b", Keyword),
            (r"(pred|token|opaque|tuple|[suf]\d+\w*|bf16|c64|c128)(?=\[)", Keyword.Type),
            (r"[a-z][a-z0-9-]*(?=\()", Name.Function),
            (r"[a-z_]+(?==)", Name.Attribute),
            (r"%?[A-Za-z_][\w.-]*", Name),
            *_COMMON,
        ]
    }


class Mlir(RegexLexer):
    """The lexer of MLIR text: `%0 = stablehlo.add %x, %y : tensor<4xf32>`."""

    name = "MLIR"
    tokens = {
        "root": [
            (r"(module|func\.func|return|attributes)\b", Keyword),
            (r"(tensor|complex|memref|vector)(?=<)|\b[uif]\d+\b|\bbf16\b", Keyword.Type),
            (r"[a-z_]+\.[a-z_.]+", Name.Function),
            (r"[%@^][\w.]+", Name.Variable),
            (r"\d+(?=x)", Number),
            (r"[A-Za-z_]\w*", Name),
            *_COMMON,
        ]
    }


class TextProto(RegexLexer):
    """The lexer of text protos: `feed { id { node_name: "x" } }`."""

    name = "text proto"
    tokens = {"root": [(r"[a-z_]\w*(?=\s*[:{])", Name.Attribute), (r"[A-Za-z_]\w*", Keyword), *_COMMON]}


LEXERS = {"hlo": Hlo, "mlir": Mlir, "pbtxt": TextProto}
