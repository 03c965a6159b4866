"""The kernel of AxlaLaunch as emitted native code, which runs in each step without the interpreter lock.

TensorFlow calls `create` once for a node, `compute` in each step, possibly in several threads at once, and
`delete`. Inputs are read in place; results are written to memory that TensorFlow allocates.
"""

from __future__ import annotations

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.native.structs import PROGRAM
from axla.codegen.straight import Ssa
from axla.program.abi import FRAME, OUT_OF_MEMORY
from axla.tensorflow.clusters.structs import CLUSTER, EXECUTABLE, INPUT, OUTPUT

ALIGNMENT = 64
"""The alignment in bytes of the inputs of programs. TensorFlow aligns its allocations, but an input may be a
part of one.
"""
_FUNCTIONS = GlueFunctions()


def emit(m: GlueModule) -> None:
    """Adds the kernel to a module."""
    m.variable("tf_compiled", "ptr", "null")  # the function in Python that makes an EXECUTABLE
    m.variable("tf_executed", "ptr", "null")  # the function in Python that runs a program
    m.variable("tf_failed", "ptr", "null")  # the function in Python that reports the error of a run
    _FUNCTIONS.emit(m)


@_FUNCTIONS("tf_delete", "void", "cluster:ptr", exported=True)
def _delete(f: GlueFunction, cluster: Ssa) -> None:
    f.guard(cluster.eq(0))
    with f.if_(f.call("i32", "Py_IsInitialized").ne(0), likely=True):
        state = f.call("i32", "PyGILState_Ensure")
        f.call("void", "Py_DecRef", cluster.get(CLUSTER, "owner"))
        f.call("void", "PyGILState_Release", state)


# Executables.


@_FUNCTIONS("tf_lock", "void", "cluster:ptr", exported=True)
def _lock(f: GlueFunction, cluster: Ssa) -> None:
    with f.while_loop() as loop:
        with f.if_(cluster.atomic("xchg", f.i32(1), "acquire").eq(0), likely=True):
            loop.leave()
        f.call("i32", "sched_yield")


@_FUNCTIONS("tf_unlock", "void", "cluster:ptr", exported=True)
def _unlock(f: GlueFunction, cluster: Ssa) -> None:
    cluster.store(f.i32(0), "release")


@_FUNCTIONS("tf_fits", "i1", "executable:ptr, count:i64, tensors:ptr")
def _fits(f: GlueFunction, executable: Ssa, count: Ssa, tensors: Ssa) -> None:
    """Writes a function that returns whether `executable` was compiled for inputs like the `count` tensors in
    the list `tensors`.
    """
    no = f.const("i1", 0)
    with f.loop(0, count) as loop:
        wanted = executable.get(EXECUTABLE, "inputs").item(loop.index, INPUT.size)
        tensor = tensors.item(loop.index).load("ptr")
        rank = wanted.get(INPUT, "rank")
        f.guard(f.call("i32", "TF_NumDims", tensor).cast("i64").ne(rank), no)
        dims = wanted.get(INPUT, "dims")
        with f.loop(0, rank) as along:
            size = f.call("i64", "TF_Dim", tensor, along.index.cast("i32"))
            f.guard(size.ne(dims.item(along.index).load("i64")), no)
        value, size = wanted.get(INPUT, "value"), wanted.get(INPUT, "bytes")
        with f.if_(value.ne(0)):
            data = f.call("ptr", "TF_TensorData", tensor)
            f.guard(f.call("i32", "memcmp", data, value, size).ne(0), no)
    f.ret(f.const("i1", 1))


@_FUNCTIONS("tf_find", "ptr", "cluster:ptr, tensors:ptr", exported=True)
def _find(f: GlueFunction, cluster: Ssa, tensors: Ssa) -> None:
    """Writes a function that returns the cluster's executable for the inputs `tensors`, with a reference
    held; null if there is none.
    """
    found = f.slot(f.null())
    count = cluster.get(CLUSTER, "inputs")
    f.call("void", "tf_lock", cluster)
    with f.loop(0, cluster.get(CLUSTER, "count")) as loop:
        executable = cluster.get(CLUSTER, "executables").item(loop.index).load("ptr")
        with f.if_(found.load("ptr").eq(0)), f.if_(f.call("i1", "tf_fits", executable, count, tensors)):
            found.store(executable)
    executable = found.load("ptr")
    with f.if_(executable.ne(0), likely=True):
        executable.atomic("add", f.i32(1))
        cluster.set(CLUSTER, "clock", cluster.get(CLUSTER, "clock") + 1)
        executable.set(EXECUTABLE, "last", cluster.get(CLUSTER, "clock"))
    f.call("void", "tf_unlock", cluster)
    f.ret(executable)


# Running a step.


@_FUNCTIONS("tf_compute", "void", "cluster:ptr, context:ptr", exported=True)
def _compute(f: GlueFunction, cluster: Ssa, context: Ssa) -> None:
    """Writes the function that runs a cluster in a step of TensorFlow."""
    inputs, outputs = cluster.get(CLUSTER, "inputs"), cluster.get(CLUSTER, "outputs")
    # Lists of input and output tensors, of their addresses, and of copies of inputs.
    size = (inputs * 3 + outputs * 2 + 1) << 3
    lists = f.call("ptr", "axla_allocate", size)
    with f.if_(lists.ne(0), likely=True):
        f.call("void", "tf_step", cluster, context, lists)
        f.call("void", "axla_free", lists, size)
    with f.if_(lists.eq(0), likely=False):
        failed = f.glob("tf_failed").load("ptr")
        f.call_pointer("void", failed, cluster, context, f.null(), f.null(), f.i32(OUT_OF_MEMORY))


@_FUNCTIONS("tf_step", "void", "cluster:ptr, context:ptr, lists:ptr")
def _step(f: GlueFunction, cluster: Ssa, context: Ssa, lists: Ssa) -> None:
    inputs, outputs = cluster.get(CLUSTER, "inputs"), cluster.get(CLUSTER, "outputs")
    status, tensors, made = f.call("ptr", "TF_NewStatus"), lists, lists.item(inputs)
    with f.loop(0, inputs + outputs) as loop:
        tensors.item(loop.index).store(f.null())
    with f.loop(0, inputs) as loop:
        place = tensors.item(loop.index)
        f.call("void", "TF_GetInput", context, loop.index.cast("i32"), place, status)
    bad = f.call("i32", "TF_GetCode", status)
    with f.if_(bad.eq(0), likely=True):
        executable = f.slot(f.call("ptr", "tf_find", cluster, tensors))
        with f.if_(executable.load("ptr").eq(0), likely=False):
            compiled = f.glob("tf_compiled").load("ptr")
            executable.store(f.call_pointer("ptr", compiled, cluster, context, tensors))
        found = executable.load("ptr")
        with f.if_(found.ne(0), likely=True):
            f.call("void", "tf_outputs", outputs, found, context, made, status)
            good = f.call("i32", "TF_GetCode", status).eq(0)
            by_python = cluster.get(CLUSTER, "in_python").ne(0)
            with f.if_(good & by_python, likely=False):
                executed = f.glob("tf_executed").load("ptr")
                f.call_pointer("void", executed, cluster, context, found, tensors)
            with f.if_(good & (by_python ^ 1), likely=True):
                f.call("void", "tf_run", cluster, found, context, tensors, made.item(outputs))
            found.atomic("sub", f.i32(1))
    with f.if_(f.call("i32", "TF_GetCode", status).ne(0), likely=False):
        f.call("void", "TF_OpKernelContext_Failure", context, status)
    with f.loop(0, inputs + outputs) as loop:
        tensor = tensors.item(loop.index).load("ptr")
        with f.if_(tensor.ne(0)):
            f.call("void", "TF_DeleteTensor", tensor)
    f.call("void", "TF_DeleteStatus", status)


@_FUNCTIONS("tf_outputs", "void", "count:i64, executable:ptr, context:ptr, made:ptr, status:ptr")
def _outputs(f: GlueFunction, count: Ssa, executable: Ssa, context: Ssa, made: Ssa, status: Ssa) -> None:
    """Writes a function that makes TensorFlow allocate the outputs one after the other, until one allocation
    fails. The tensors are stored in the list `made`.
    """
    with f.loop(0, count) as loop:
        output = executable.get(EXECUTABLE, "outputs").item(loop.index, OUTPUT.size)
        kind, rank = output.get(OUTPUT, "type"), output.get(OUTPUT, "rank")
        dims, size = output.get(OUTPUT, "dims"), output.get(OUTPUT, "bytes")
        number = loop.index.cast("i32")
        tensor = f.call("ptr", "TF_AllocateOutput", context, number, kind, dims, rank, size, status)
        made.item(loop.index).store(tensor)
        f.guard(f.call("i32", "TF_GetCode", status).ne(0))


@_FUNCTIONS("tf_run", "void", "cluster:ptr, executable:ptr, context:ptr, tensors:ptr, lists:ptr")
def _run(f: GlueFunction, cluster: Ssa, executable: Ssa, context: Ssa, tensors: Ssa, lists: Ssa) -> None:
    """Writes a function that runs the program. `tensors` has the inputs, then the outputs. `lists` has space
    for three lists: addresses of parameters, of their copies, and of results.
    """
    program, inputs = executable.get(EXECUTABLE, "program"), cluster.get(CLUSTER, "inputs")
    count = program.get(PROGRAM, "parameter_count")
    addresses, copies = lists, lists.item(count)
    results, made = copies.item(count), tensors.item(inputs)
    code, frame = f.slot(f.i32(0)), f.space(f"[{FRAME.size} x i8]", 16)
    for name in ("error_step", "error_detail"):
        frame.set(FRAME, name, 0)
    with f.loop(0, count) as loop:
        number = executable.get(EXECUTABLE, "parameters").item(loop.index).load("i64")
        data = f.call("ptr", "TF_TensorData", tensors.item(number).load("ptr"))
        addresses.item(loop.index).store(data)
        copies.item(loop.index).store(f.null())
        with f.if_((data.cast("i64") & (ALIGNMENT - 1)).ne(0), likely=False):
            size = f.call("i64", "TF_TensorByteSize", tensors.item(number).load("ptr"))
            copy = f.call("ptr", "axla_allocate", size)
            copies.item(loop.index).store(copy)
            addresses.item(loop.index).store(copy)
            with f.if_(copy.ne(0), likely=True):
                f.call("ptr", "memcpy", copy, data, size)
            with f.if_(copy.eq(0), likely=False):
                code.store(f.i32(OUT_OF_MEMORY))
                frame.set(FRAME, "error_detail", size)
    with f.loop(0, cluster.get(CLUSTER, "outputs")) as loop:
        data = f.call("ptr", "TF_TensorData", made.item(loop.index).load("ptr"))
        results.item(loop.index).store(data)
    with f.if_(code.load("i32").eq(0), likely=True):
        code.store(f.call("i32", "axla_run", program, frame, addresses, results))
    with f.loop(0, count) as loop:
        copy = copies.item(loop.index).load("ptr")
        with f.if_(copy.ne(0), likely=False):
            number = executable.get(EXECUTABLE, "parameters").item(loop.index).load("i64")
            size = f.call("i64", "TF_TensorByteSize", tensors.item(number).load("ptr"))
            f.call("void", "axla_free", copy, size)
    with f.if_(code.load("i32").ne(0), likely=False):
        failed = f.glob("tf_failed").load("ptr")
        f.call_pointer("void", failed, cluster, context, executable, frame, code.load("i32"))
