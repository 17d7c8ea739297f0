"""As much of PyTorch as ``golden fx`` asks of it: one graph, ``relu(x) + 1``, in the place of what
a script compiles.

The real one takes gigabytes; scripts/fx_trial runs it. FX_TORCH_VERSION changes the version.
"""

import os
from types import ModuleType, SimpleNamespace

import numpy as np

__version__ = os.environ.get("FX_TORCH_VERSION", "2.9.1+cpu")
bfloat16, float32, complex32, complex64 = "bfloat16", "float32", "complex32", "complex64"


class Tensor:
    def __init__(self, values):
        self.values = np.asarray(values, np.float32)
        self.dtype = float32

    def detach(self):
        return self

    cpu = resolve_conj = resolve_neg = detach

    def numpy(self):
        return self.values

    def to(self, *values):
        assert "npu" not in str(values)
        return self


class device:
    def __init__(self, name):
        assert name.partition(":")[0] == "cpu", "torch knows no " + name


class OpOverload:
    def __init__(self, name, function):
        self.name, self.function = name, function

    def __str__(self):
        return self.name


class Interpreter:
    """Runs nodes of (name, op, target, arguments); an argument that is a node's name stands for its
    value.
    """

    def __init__(self, gm):
        self.gm = gm

    def run(self, *inputs):
        self.env = {"x": inputs[0]}
        for node in self.gm:
            self.env[node.name] = self.run_node(node)
        return self.env[self.gm[-1].name]

    def fetch_args_kwargs_from_env(self, node):
        return [self.env.get(argument, argument) for argument in node.args], {}

    def run_node(self, node):
        return node.target.function(*self.fetch_args_kwargs_from_env(node)[0])


def zeros(*shape, device=None):
    assert device in (None, "cpu"), device
    return Tensor(np.zeros(shape))


def compile(model, *, backend="inductor", fullgraph=False, dynamic=None, disable=False):
    relu = OpOverload("aten.relu.default", lambda x: Tensor(np.maximum(x.values, 0)))
    add = OpOverload("aten.add.Tensor", lambda x, y: Tensor(x.values + y))
    graph = [SimpleNamespace(name="relu", op="call_function", target=relu, args=["x"]),
             SimpleNamespace(name="add", op="call_function", target=add,
             args=["relu", 1])]  # fmt: skip
    return backend(graph, [])


nn = SimpleNamespace(Module=type("Module", (), {"to": lambda self, *_: self}))
fx = SimpleNamespace(Interpreter=Interpreter)
ops = SimpleNamespace(aten=SimpleNamespace())
_ops = SimpleNamespace(OpOverload=OpOverload)
backends = SimpleNamespace(
    cuda=SimpleNamespace(enable_flash_sdp=lambda on: None, enable_mem_efficient_sdp=lambda on: None)
)
distributed = ModuleType("torch.distributed")
distributed.init_process_group = lambda backend=None: backend
