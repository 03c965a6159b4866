"""The text of one LLVM module."""

from __future__ import annotations

from axla.target.machine import ObjectForm

INDEX = "i64"
"""The default type of index arithmetic; a Target with 32-bit addresses sets `LlvmModule.index_type`."""
_PLAIN = ObjectForm()


class LlvmModule:
    """The text of one LLVM module: declarations, globals, functions, metadata."""

    def __init__(self, index_type: str = INDEX, form: ObjectForm = _PLAIN):
        self.index_type = index_type
        self.pointer_bytes = form.pointer_bytes
        self.byte_order = form.byte_order
        self.common = form.attributes and " " + form.attributes  # attributes of every function
        self.declared: dict[str, str] = {}
        self.globals: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self.attributes: dict[str, int] = {}
        self.outlined: dict[str, str] = {}  # shared internal functions and their result types
        self.has_bit_masks = True  # an i1 vector can be cast to an integer of one bit per lane
        self.in_process = True  # this process runs the code; parallel_for of its glue polls

    def declare(self, name: str, signature: str) -> None:
        """Declares external symbol or intrinsic `name`; `signature` is the whole `declare` line."""
        self.declared.setdefault(name, signature)

    def publish(self, name: str) -> None:
        """Makes an internal function of this module visible to the modules that this module is linked with,
        and to no other modules.
        """
        self.functions[name] = self.functions[name].replace("define internal ", "define hidden ", 1)

    def enclose(self, name: str) -> None:
        """Makes a function of this module internal."""
        self.functions[name] = self.functions[name].replace("define ", "define internal ", 1)

    def align(self, type_: str) -> int:
        """The alignment in bytes of an integer or a pointer."""
        return self.pointer_bytes if type_ == "ptr" else max(int(type_[1:]) // 8, 1)

    def attribute_group(self, text: str) -> int:
        """The number of a group of function attributes; groups of equal text have one number."""
        return self.attributes.setdefault(text, len(self.attributes))

    def size(self) -> int:
        """The number of characters in the texts of all functions."""
        return sum(map(len, self.functions.values()))

    def text(self) -> str:
        """The whole module as LLVM assembly."""
        declared = (line for name, line in self.declared.items() if name not in self.functions)
        groups = (
            f"attributes #{number} = {{ {text}{self.common} }}" for text, number in self.attributes.items()
        )
        metadata = (
            ("!0 = !{i32 1}",) if any("!nontemporal !0" in body for body in self.functions.values()) else ()
        )
        parts = (declared, self.globals.values(), self.functions.values(), groups, metadata)
        return "\n".join(line for part in parts for line in part) + "\n"
