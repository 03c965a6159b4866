"""The parts of TensorFlow that are used here: the package, and some undocumented modules."""

from importlib import import_module
from typing import Any

tf: Any = import_module("tensorflow")
context: Any = import_module("tensorflow.python.eager.context")
execute: Any = import_module("tensorflow.python.eager.execute")
client: Any = import_module("tensorflow.python.client.pywrap_tf_session")
graph_pb2: Any = import_module("tensorflow.core.framework.graph_pb2")
importer: Any = import_module("tensorflow.python.framework.importer")
op_def_registry: Any = import_module("tensorflow.python.framework.op_def_registry")
ops: Any = import_module("tensorflow.python.framework.ops")
step_timeline: Any = import_module("tensorflow.python.client.timeline")
backprop_util: Any = import_module("tensorflow.python.eager.backprop_util")
function_type_utils: Any = import_module("tensorflow.python.eager.polymorphic_function.function_type_utils")
handle_data_util: Any = import_module("tensorflow.python.ops.handle_data_util")
pywrap_tfe: Any = import_module("tensorflow.python.pywrap_tfe")
script_ops: Any = import_module("tensorflow.python.ops.script_ops")
resource_variable_ops: Any = import_module("tensorflow.python.ops.resource_variable_ops")
