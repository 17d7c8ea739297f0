"""Stand-ins for torch_npu and torchair: a script written for the NPU runs on the CPU, and what it
compiles goes to our backend.

Devices ``npu`` and ``cuda`` (which ``transfer_to_npu`` turns into the former) are the CPU; settings
are taken and do nothing; ops of the NPU's own have no CPU counterpart and are refused when they are
called.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Callable, Optional

from ...base.errors import InputError
from .backend import Backend

PACKAGES = ("torch_npu", "torchair", "npugraph_ex", "msprobe")
_DEVICES = ("npu", "cuda")


def install(backend: Backend) -> None:
    """Install the stand-ins, and pass everything given to torch.compile to a backend; imports
    PyTorch.
    """
    import torch

    sys.meta_path.insert(0, _Finder(backend))
    _let_old_dynamo_ask_devices(torch.device)
    torch.device = _device_of(torch.device)  # type: ignore[misc]
    torch.npu = _Module("torch.npu", backend)  # type: ignore[attr-defined]
    sys.modules["torch.npu"] = torch.npu
    _compile_with(torch, backend)
    _stay_on_cpu(torch)
    # Its fused CPU kernel would be one node of an op that no NPU has.
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)


def _compile_with(torch: Any, backend: Backend) -> None:
    original = torch.compile

    @functools.wraps(original)
    def compile_here(model: Any = None, **options: Any) -> Any:
        requested = options.get("backend")
        chosen = requested if getattr(requested, "func", None) is backend else backend
        passed_on = {
            name: options[name] for name in ("fullgraph", "dynamic", "disable") if name in options
        }
        return original(model, backend=chosen, **passed_on)

    torch.compile = compile_here


def _stay_on_cpu(torch: Any) -> None:
    from torch.utils._device import _device_constructors

    made = {id(function) for function in _device_constructors()}
    for name, function in list(vars(torch).items()):
        if id(function) in made:
            setattr(torch, name, _on_cpu(function))
    for kind in (torch.Tensor, torch.nn.Module):
        kind.to = _on_cpu(kind.to)
        for device in _DEVICES:
            setattr(kind, device, _itself)
    torch.distributed.init_process_group = _without_hccl(torch.distributed.init_process_group)


def _device_of(original: Any) -> Any:
    """Return a replacement of ``torch.device``, which does not know npu."""

    class Maker(type):
        def __call__(cls, *values: Any, **options: Any) -> Any:
            kind = str(values[0] if values else options.get("type", ""))
            return original("cpu") if kind.startswith(_DEVICES) else original(*values, **options)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, original)

    return Maker("device", (), {"__module__": "torch", "__doc__": original.__doc__})


def _let_old_dynamo_ask_devices(kind: Any) -> None:
    """Make PyTorch 2.1 trace ``isinstance(x.device, …)``, where a compiled function calls the
    result of :func:`_on_cpu`.
    """
    with contextlib.suppress(ImportError):
        from torch._dynamo.variables.torch import TorchVariable

        original = TorchVariable.python_type
        TorchVariable.python_type = (
            lambda self: kind if isinstance(self.value, kind) else original(self)
        )


def _itself(self: Any, *_: Any, **__: Any) -> Any:
    return self


def _on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def on_cpu(*values: Any, **options: Any) -> Any:
        values = tuple("cpu" if _is_accelerator(value) else value for value in values)
        if _is_accelerator(options.get("device")):
            options["device"] = "cpu"
        return function(*values, **options)

    return on_cpu


def _is_accelerator(value: Any) -> bool:
    import torch

    return isinstance(value, (str, torch.device)) and str(value).startswith(_DEVICES)


def _without_hccl(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def on_cpu(backend: Optional[str] = None, *values: Any, **options: Any) -> Any:
        return function(
            "gloo" if backend is not None and "ccl" in backend else backend, *values, **options
        )

    return on_cpu


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def find_spec(
        self, fullname: str, path: Any, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Module(spec.name, self._backend)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Module(ModuleType):
    def __init__(self, name: str, backend: Backend) -> None:
        super().__init__(name)
        self.__path__ = []
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = self._value(name)
        setattr(self, name, value)
        return value

    def _value(self, name: str) -> Any:
        if name == "get_npu_backend":
            return (
                lambda *, compiler_config=None, custom_decompositions=None, **_: functools.partial(
                    self._backend, decompositions=custom_decompositions or {}
                )
            )
        if name == "cache_compile":
            return _compiled
        if name.startswith("npu_") and self.__name__.partition(".")[0] in ("torch_npu", "torchair"):
            return _refused(name)
        return {
            "device_count": lambda *_: 1,
            "current_device": lambda *_: 0,
            "is_available": lambda *_: True,
        }.get(name, Settings(name))


def _compiled(function: Any, **_: Any) -> Any:
    import torch

    return torch.compile(function)


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise InputError(
            "the script uses the NPU's own op %s, which no CPU has" % name,
            hint="replace it by PyTorch's ops first",
        )

    return refuse


class Settings:
    """Anything else of those packages: it accepts every setting, and a call returns its first
    argument, or other settings.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name

    def __call__(self, *values: Any, **settings: Any) -> Any:
        """Return the first argument, or other settings."""
        return values[0] if values else settings.get("compiler_config") or Settings(self._name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = Settings(name)
        setattr(self, name, made)
        return made

    def __enter__(self) -> Settings:
        return self

    def __exit__(self, *_: Any) -> None:
        pass
