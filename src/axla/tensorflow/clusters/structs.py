"""The structs that the emitted kernel shares with Python."""

from __future__ import annotations

from axla.codegen.native.structs import fields
from axla.program.abi import CField, Struct

CLUSTER = Struct(
    "axla_cluster",
    "A part of a graph; what its kernels are made of.",
    CField("lock", "i32", "1: somebody reads or changes `executables`"),
    CField("inputs", "i64", "how many"),
    CField("outputs", "i64", "how many"),
    CField("count", "i64", "of executables"),
    CField("executables", "ptr", "addresses of EXECUTABLEs"),
    CField("clock", "i64", "goes on with each use"),
    CField("owner", "ptr", "the Python object"),
    CField("in_python", "i32", "1: Python runs its programs: on other devices, and while a profile is taken"),
)

EXECUTABLE = Struct(
    "axla_cluster_executable",
    "The program of a cluster for inputs of certain shapes, and of certain values.",
    CField("uses", "i32", "runs that are under way"),
    CField("last", "i64", "CLUSTER.clock of its last use"),
    CField("program", "ptr", "PROGRAM"),
    CField("inputs", "ptr", "an INPUT for each"),
    CField("parameters", "ptr", "the input that each parameter of the program is, i64"),
    CField("outputs", "ptr", "an OUTPUT for each"),
)

INPUT = Struct(
    "axla_cluster_input",
    "What an input must be; `value`: null, or the bytes that it has.",
    *fields("rank:i64, dims:ptr, value:ptr, bytes:i64"),
)

OUTPUT = Struct(
    "axla_cluster_output",
    "A result of the program; `type` is TensorFlow's number.",
    *fields("type:i32, rank:i32, dims:ptr, bytes:i64"),
)
