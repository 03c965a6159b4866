"""What is used of TensorFlow: the package, and parts of it that it does not document."""

from importlib import import_module
from typing import Any

tf: Any = import_module("tensorflow")
attr_value_pb2: Any = import_module("tensorflow.core.framework.attr_value_pb2")
context: Any = import_module("tensorflow.python.eager.context")
execute: Any = import_module("tensorflow.python.eager.execute")
client: Any = import_module("tensorflow.python.client.pywrap_tf_session")
graph_pb2: Any = import_module("tensorflow.core.framework.graph_pb2")
importer: Any = import_module("tensorflow.python.framework.importer")
op_def_registry: Any = import_module("tensorflow.python.framework.op_def_registry")
ops: Any = import_module("tensorflow.python.framework.ops")
step_timeline: Any = import_module("tensorflow.python.client.timeline")
