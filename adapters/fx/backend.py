"""A backend of torch.compile that runs each graph on the CPU, node by node, and records every
node's values.

Graphs are cut as TorchAir cuts them: AOTAutograd with the default partition, no decomposition
besides those that PyTorch makes by itself, and changes of inputs kept in the graph of an inference.
Source: TorchAir's ``npu_fx_compiler.py`` (``_npu_backend``, ``get_npu_backend``).
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple

from .recorder import RecordedGraph, Recorder

Backend = Callable[..., Any]


def make_backend(recorder: Recorder) -> Backend:
    """Return the backend; PyTorch is imported now."""
    from torch._functorch.aot_autograd import aot_module_simplified

    _keep_upsampling()

    def compiled(gm: Any, _: Sequence[Any]) -> Callable[..., Any]:
        return _boxed(_running(gm, recorder.graph()))

    def backend(gm: Any, example_inputs: Sequence[Any], **options: Any) -> Any:
        decompositions: Dict[Any, Any] = dict(options.get("decompositions") or {})
        return aot_module_simplified(
            gm,
            example_inputs,
            fw_compiler=compiled,
            decompositions=decompositions,
            keep_inference_input_mutations=True,
        )

    return backend


def _keep_upsampling() -> None:
    """Keep nearest-neighbour upsampling as one op, which PyTorch decomposes by itself. Source:
    TorchAir's ``adjust_implicit_decomposition.py``.
    """
    import torch

    for rank in (1, 2, 3):
        whole = getattr(torch.ops.aten, "upsample_nearest%dd" % rank, None)
        if whole is None:
            continue
        for key in (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd):
            whole.default.py_kernels.pop(key, None)
            if key in whole.vec.py_kernels:
                whole.vec.py_kernels[key] = _by_sizes(whole.default)


def _by_sizes(whole: Any) -> Callable[..., Any]:
    def vec(values: Any, output_size: Any, scale_factors: Any) -> Any:
        factors = scale_factors or [None] * (values.dim() - 2)
        sizes = output_size or [
            int(size * factor) for size, factor in zip(values.shape[2:], factors)
        ]
        return whole(values, sizes, *factors)

    return vec


def _boxed(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that AOTAutograd calls with a list it may clear."""

    def boxed(inputs: List[Any]) -> Any:
        arguments = list(inputs)
        inputs.clear()
        return run(*arguments)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def _running(gm: Any, graph: RecordedGraph) -> Callable[..., Any]:
    """Return the function that runs a graph in place of a compiled one."""
    import torch

    class Recording(torch.fx.Interpreter):  # type: ignore[misc]
        """Runs a graph as PyTorch's own interpreter does, and keeps what goes into each op and what
        comes out of it.
        """

        def run_node(self, node: Any) -> Any:
            """Run one node."""
            if (
                call is None
                or node.op != "call_function"
                or not isinstance(node.target, torch._ops.OpOverload)
            ):
                return super().run_node(node)
            arguments, _ = self.fetch_args_kwargs_from_env(node)
            call.write(node.name, str(node.target), "INPUT", numbered_tensors(arguments, as_array))
            result = super().run_node(node)
            call.write(
                node.name,
                str(node.target),
                "OUTPUT",
                numbered_tensors(
                    result if isinstance(result, (list, tuple)) else [result], as_array
                ),
            )
            return result

    call = None

    def run(*inputs: Any) -> Any:
        nonlocal call
        call = graph.call()
        try:
            return Recording(gm).run(*inputs)
        finally:
            if call is not None:
                call.close()

    return run


def numbered_tensors(
    values: Sequence[Any], as_array: Callable[[Any], Any]
) -> List[Tuple[Tuple[int, ...], Any]]:
    """Return each value with its number; the tensors of a list also with their position in it.
    Anything else is left out.
    """
    arrays: List[Tuple[Tuple[int, ...], Any]] = []
    for number, value in enumerate(values):
        if isinstance(value, (list, tuple)) and value and hasattr(value[0], "detach"):
            arrays += [
                ((number, place), as_array(entry))
                for place, entry in enumerate(value)
                if entry is not None
            ]
        elif hasattr(value, "detach") or is_number(value):
            arrays.append(((number,), as_array(value)))
    return arrays


def is_number(value: Any) -> bool:
    """Tell whether a value is a number or a list of numbers."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(is_number, value))
    return isinstance(value, (bool, int, float, complex))


def as_array(value: Any) -> Any:
    """Return a tensor as an array, in a wider type where numpy has none of its own: bfloat16 as
    float32, as TorchAir has it.

    None of one that numpy cannot hold: sparse, quantised.
    """
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu().resolve_conj().resolve_neg()
    if value.dtype in (torch.bfloat16,) or str(value.dtype).startswith("torch.float8"):
        return value.to(torch.float32).numpy()
    if value.dtype == torch.complex32:
        return value.to(torch.complex64).numpy()
    try:
        return value.numpy()
    except (RuntimeError, TypeError):
        return None
