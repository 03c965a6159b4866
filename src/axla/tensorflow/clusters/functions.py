"""`axla.tensorflow.jit`: functions of TensorFlow, each compiled to one axla program."""

from __future__ import annotations

import functools
import operator
import re
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from axla.core.errors import InvalidArgument, UnsupportedError
from axla.tensorflow.clusters.framework import context, function_type_utils, ops, pywrap_tfe, tf
from axla.tensorflow.clusters.launch import register
from axla.tensorflow.clusters.traced import Traced, is_whole, whole

_are_run_eagerly = tf.config.functions_run_eagerly
_STATIC = (bool, int, float, complex, str, bytes, type(None))
_AROUND = re.compile(r"\{\{.*?\}\} |\s*\[\[.*")
"""Matches the parts that TensorFlow adds to the error message of a cluster."""
_MOST_KEYS = 4096
"""The largest number of combinations of argument kinds that a function remembers."""


def jit(
    fn: Any = None, *, input_signature: Sequence[Any] | None = None, autograph: bool = True,
    reduce_retracing: bool = False,
) -> Any:  # fmt: skip
    """Compiles a function with axla, as a whole, as `tf.function(jit_compile=True)` does with XLA: each call
    is one operation of TensorFlow. Also a decorator; the options are those of `tf.function`.

        step = axla.tensorflow.jit(step)                  a function, a method, or a result of tf.function
        model = axla.tensorflow.jit(model)                a layer or a model of Keras, changed in place

    A function is traced by TensorFlow, once for each combination of Python values, types and shapes, and
    compiled for the shapes of its calls. UnsupportedError names an operation that cannot be compiled; nothing
    is left to TensorFlow. Variables and gradients are as in TensorFlow. If a gradient tape outside of the
    function needs its gradient, the function is computed again, together with the gradient.

    The calls of a Keras layer run through axla. So do the training, evaluation and prediction steps of a
    model: each step, with its gradient and its optimizer, is one program.
    """
    options = dict(input_signature=input_signature, autograph=autograph, reduce_retracing=reduce_retracing)
    if fn is None:
        return functools.partial(jit, **options)
    keras = sys.modules.get("keras")
    if keras is not None and isinstance(fn, keras.Layer):
        return _layer(fn)
    if not callable(fn):
        raise InvalidArgument(f"fn is {type(fn).__name__}, wanted a function, a layer or a model")
    if isinstance(fn, tf.types.experimental.PolymorphicFunction):
        options["input_signature"] = options["input_signature"] or fn.input_signature
        options["autograph"], options["reduce_retracing"] = fn._autograph, fn._reduce_retracing
        fn = fn.python_function
    return Jitted(fn, **options)


class Jitted:
    """A function that runs as one cluster, both eagerly and while a graph is being built."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        functools.update_wrapper(self, function, updated=())
        self.python_function, self._options = function, options
        self._inside = tf.function(function, **options)

        @functools.wraps(function, updated=())
        def launched(*args: Any, **kwargs: Any) -> Any:
            return self._launched(args, kwargs)

        self._around = tf.function(launched, **options | {"autograph": False})
        """Reads variables, launches the cluster of `_inside`, and writes variables."""
        self._traced: dict[Any, Traced] = {}
        self._ready: dict[Any, _Ready] = {}
        self._lock = threading.Lock()

    @property
    def traces(self) -> list[Traced]:
        """The traces of TensorFlow so far, each with its cluster."""
        return list(self._traced.values())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the function as one cluster, or adds the cluster to the graph being built."""
        if is_whole():
            return self._inside(*args, **kwargs)
        try:
            if not context.executing_eagerly():
                return self._by_tensorflow(args, kwargs)
            return self._called(args, kwargs)
        except tf.errors.UnimplementedError as error:
            message = _AROUND.sub("", error.message.rpartition("\n\n")[2])
            raise UnsupportedError(message) from None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        # The name of the class is part of the key: a subclass may override the method and call the original.
        place = f"axla.tensorflow.jit {self.python_function.__qualname__}"
        found = instance.__dict__.get(place)
        # If the function is bound to another object, `instance` is a copy of that object.
        if found is None or getattr(found.python_function, "__self__", instance) is not instance:
            found = Jitted(self.python_function.__get__(instance, owner), **self._options)
            (type if isinstance(instance, type) else object).__setattr__(instance, place, found)
        return found

    def __reduce__(self) -> Any:
        return functools.partial(jit, **self._options), (self.python_function,)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> Any:
        """The ConcreteFunction of TensorFlow that runs the cluster for arguments or their TensorSpecs."""
        return self._around.get_concrete_function(*args, **kwargs)

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _are_run_eagerly():
            return self.python_function(*args, **kwargs)
        tensors: list[Any] = []
        try:
            key = _kind(args, tensors)
            count = len(tensors)
            key = (key, _kind(kwargs, tensors)) if kwargs else key
            ready = self._ready.get(key)
        except TypeError:
            return self._by_tensorflow(args, kwargs)
        if ready is not None:
            return ready(tensors)
        results = self._around(*args, **kwargs)
        if len(tensors) == count:
            self._remember(key, args, kwargs, tensors)
        return results

    def _by_tensorflow(self, args: Any, kwargs: Any) -> Any:
        """Calls the function with the trace that TensorFlow finds. UnsupportedError for a variable that is
        both an argument and captured by the function: the cluster would treat it as two variables.
        """
        if self._traced and any(isinstance(one, tf.Variable) for one in tf.nest.flatten([args, kwargs])):
            traced, tensors = self._bound(args, kwargs)
            if not {*map(id, tensors)}.isdisjoint(map(id, traced.function.captured_inputs)):
                why = "a variable is an argument and is also used in another way"
                raise UnsupportedError(f"function '{traced.cluster.name}': {why}")
        return self._around(*args, **kwargs)

    def _launched(self, args: Any, kwargs: Any) -> Any:
        """Launches a cluster; called while TensorFlow traces."""
        traced, tensors = self._bound(args, kwargs)
        results = traced.run([*tensors, *traced.function.captured_inputs])
        return traced.function.function_type.pack_output(results)

    def _bound(self, args: Any, kwargs: Any) -> tuple[Traced, list[Any]]:
        """The trace for these arguments, and the arguments as tensors."""
        with whole():
            function = self._inside.get_concrete_function(*args, **kwargs)
        with self._lock:
            if function not in self._traced:
                self._traced[function] = Traced(function)
        spec = self._inside.function_spec
        bound = function_type_utils.canonicalize_function_inputs(
            args, kwargs, spec.function_type, spec.default_values
        )
        bound = function.function_type.bind(*bound.args, **bound.kwargs)
        return self._traced[function], function.function_type.unpack_inputs(bound)

    def _remember(self, key: Any, args: Any, kwargs: Any, tensors: Sequence[Any]) -> None:
        """Makes later calls with arguments of the same kinds, which have the key `key`, skip TensorFlow's
        argument processing. It does so only if this processing passes the arguments' own tensors, `tensors`,
        to the cluster unchanged.
        """
        traced, found = self._bound(args, kwargs)
        same = len(found) == len(tensors) and all(map(operator.is_, found, tensors))
        if same and len(self._ready) < _MOST_KEYS:
            self._ready[key] = _Ready(traced, self._around.get_concrete_function(*args, **kwargs))


class _Ready:
    """Calls a function with its arguments as tensors: the cluster directly, if there are no variables and no
    gradient tape, else the ConcreteFunction `around` it.
    """

    def __init__(self, traced: Traced, around: Any) -> None:
        function = traced.function
        self.traced, self.around, self.captured = traced, around, around.captured_inputs
        self.name, self.fed, self.constants = traced.cluster.name, traced.fed, function.captured_inputs
        self.is_alone = not any(tensor.dtype == tf.resource for tensor in traced.tensors)
        types = [output.dtype for output in traced.results]
        self.way = way = register(traced.cluster)
        self.attributes = way.results, types, way.key, getattr(traced.cluster, way.value)
        self.pack = function.function_type.pack_output

    def __call__(self, tensors: list[Any]) -> Any:
        if not (self.is_alone and pywrap_tfe.TFE_Py_TapeSetIsEmpty()):
            return self.around._call_flat(tensors, self.captured)
        given = tensors + self.constants
        values = [given[number] for number in self.fed]
        try:
            fast = pywrap_tfe.TFE_Py_FastPathExecute
            results = fast(context.context(), self.way.op, self.name, values, *self.attributes)
        except Exception:  # an internal error of TensorFlow: the second call raises the public one
            results = self.traced.launched(values)
        return self.pack(results)


def _kind(value: Any, tensors: list[Any]) -> Any:
    """A key that distinguishes arguments with different traces; appends their tensors to `tensors`. TypeError
    for arguments that only TensorFlow can distinguish.
    """
    kind = type(value)
    if kind is ops.EagerTensor:
        tensors.append(value)
        return value._datatype_enum(), value._shape_tuple()
    if kind in _STATIC and value == value:  # not NaN, which is not equal to itself
        return kind, value
    if kind is tuple or kind is list:
        return kind, *[_kind(each, tensors) for each in value]
    if kind is dict:
        return kind, *[(name, _kind(value[name], tensors)) for name in sorted(value)]
    raise TypeError


# Keras.


def _layer(layer: Any) -> Any:
    """Makes the calls of a Keras layer, and the steps of a model, run through axla; returns the layer."""
    in_stateless_scope = sys.modules["keras.src.backend.common.stateless_scope"].in_stateless_scope
    call = layer.call
    layer.jitted_call = jitted = Jitted(call, autograph=False)  # read by `explain`

    @functools.wraps(call)
    def called(*args: Any, **kwargs: Any) -> Any:
        is_inner = is_whole() or in_stateless_scope()
        return (call if is_inner else jitted)(*args, **kwargs)

    layer.call = called
    if hasattr(layer, "train_step"):
        layer.supports_jit = layer.jit_compile = False  # TensorFlow's XLA must not compile the steps
        for kind in ("train", "test", "predict"):
            _steps(layer, kind)
        layer.export = whole()(layer.export)  # an exported model has TensorFlow's operations
    return layer


def _steps(model: Any, kind: str) -> None:
    """Makes the steps of `fit`, `evaluate` or `predict` (the kind is train, test or predict) clusters: a new
    one whenever Keras creates its step function, so that it uses the optimizer and loss of the last
    `compile`.
    """
    step, make = getattr(model, f"{kind}_step"), getattr(model, f"make_{kind}_function")

    @functools.wraps(make)
    def made(force: bool = False) -> Any:
        if force or getattr(model, f"{kind}_function") is None:
            setattr(model, f"{kind}_step", Jitted(step, autograph=False, reduce_retracing=True))
        return make(force)

    setattr(model, f"make_{kind}_function", made)
    setattr(model, f"{kind}_function", None)
