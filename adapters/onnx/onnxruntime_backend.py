"""onnxruntime runs the model: optimisation off, on the CPU, with every wanted value as an output,
in slices where memory is short.
"""

from __future__ import annotations

import os
import threading
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

import numpy as np

from ...base.element_types import element_count
from ...netfiles.narrow_types import decode, held_as, is_narrow
from ...netfiles.onnx_model import OnnxModel, OnnxNode
from ...netfiles.onnx_types import BY_NAME, OnnxType
from ...netfiles.onnx_value_headers import OnnxTensor, OnnxValue
from .exact_products import products_to_replace, without_cut_products
from .inputs import Fed
from .model_additions import initializer_of, input_of, node_of, output_of, with_additions
from .onnxruntime_messages import explained, lacks_kernel, missing_package
from .values_to_save import ValueToSave

_SPELLED = {"float": "float32", "double": "float64"}
_ROUNDED = ("float16", "bfloat16")
_SIZE = "goldwatch/size/"
# Elements of an initializer that may tell a shape; chosen, no trial.
_MOST_OF_SHAPE = 1024
Result = Tuple[ValueToSave, Union[np.ndarray, str], str]
"""A target, its values (or the reason why there are none), and the name of the model's type."""


class Stopped(Exception):
    """The user pressed Ctrl-C."""


class Stop:
    """Set by Ctrl-C: ends a run between two nodes.

    Attributes
    ----------
    requested
        Whether Ctrl-C came.
    """

    def __init__(self) -> None:
        self.requested = False
        self._options: Any = None

    def __call__(self) -> None:
        """Request the end."""
        self.requested = True
        if self._options is not None:
            self._options.terminate = True

    def options(self, runtime: Any) -> Any:
        """Return run options that end the run when that is requested."""
        self._options = runtime.RunOptions()
        self._options.terminate = self.requested
        return self._options


class _Memory:
    """The bytes of an OrtValue, for numpy; keeps it alive as long as an array looks at them."""

    def __init__(self, value: Any, nbytes: int) -> None:
        self._value = value
        self.__array_interface__ = {
            "data": (value.data_ptr(), True),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


class _Output(NamedTuple):
    """An output of a session: its type (None where it is no tensor of numbers), what onnxruntime
    calls that, and its elements if known.
    """

    type: Optional[OnnxType]
    called: str
    elements: Optional[int]


class Onnxruntime:
    """Runs one model with one set of inputs.

    Parameters
    ----------
    fed
        The values of inputs and given outputs.
    without
        The nodes whose outputs are given.
    threads
        Of one node's computation; 0: as many as onnxruntime takes.
    seed
        Of random ops.
    names
        Of the main graph's nodes, for messages.

    Attributes
    ----------
    name, version
        What runs, for the manifest.
    options
        What else the manifest holds of it.
    doing
        Called with what is begun, such as ``running …``, and with an empty text at its end:
        onnxruntime may end the process.
    """

    name = "onnxruntime"
    doing: Callable[[str], None] = staticmethod(lambda text: None)

    def __init__(
        self,
        model: OnnxModel,
        fed: Sequence[Fed],
        without: Sequence[OnnxNode],
        threads: int,
        seed: int,
        names: Sequence[str],
        stop: Stop,
    ) -> None:
        # From 1.32 on its import alone writes a number for this machine into the user's home and
        # sends events.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        try:
            import onnxruntime
        except ImportError as error:
            raise missing_package("onnxruntime", error) from error
        self._ort = onnxruntime
        self.version = str(onnxruntime.__version__)
        self._model, self._without, self._threads, self._seed, self._names, self._stop = (
            model,
            without,
            threads,
            seed,
            names,
            stop,
        )
        self._products = products_to_replace(model, onnxruntime)
        self._outputs_kept: Optional[Set[str]] = None
        inputs = {value.name for value in model.graph.inputs}
        self._input_fields = b"".join(
            input_of(each.name, each.type.code, each.array.shape)
            for each in fed
            if each.name not in inputs
        )
        # onnxruntime's Python takes no values of these types on every version: an initializer of an
        # input's name is its default.
        self._input_fields += b"".join(
            initializer_of(each.name, each.type.code, each.array.shape, each.raw)
            for each in fed
            if is_narrow(each.type.name)
        )
        self._feeds = {
            each.name: onnxruntime.OrtValue.ortvalue_from_numpy(each.array)
            for each in fed
            if not is_narrow(each.type.name)
        }
        shapes = {each.name: each.array.shape for each in fed}
        self._dims: Dict[str, int] = {}
        for value in model.graph.data_inputs:
            self._dims.update(
                {
                    dim: size
                    for dim, size in zip(value.shape or (), shapes[value.name])
                    if isinstance(dim, str)
                }
            )
        self.options: Dict[str, Any] = {
            "optimisation": "ORT_DISABLE_ALL",
            "provider": "CPUExecutionProvider",
            "threads": threads,
            "random_ops_seed": seed,
            "slices": 0,
        }

    def fetch(self, additions: bytes, names: Sequence[str]) -> List[np.ndarray]:
        """Return small values of the model with additions."""
        session = self._session(additions + b"".join(map(output_of, names)))
        outputs = self._outputs(session)
        return [
            _array(value, outputs[name].type)
            for name, value in zip(names, self._run(session, names, "what conditions of If need"))
        ]

    def run_first(self, count: int) -> None:
        """Run the model's first nodes alone, whatever comes of it."""
        kept, rest = self._model.graph.nodes[:count], self._model.graph.nodes[count:]
        self._without = [*(node for node in self._without if node in kept), *rest]
        computed = [name for node in kept for name in node.outputs if name]
        inputs = [value.name for value in self._model.graph.inputs]
        self._outputs_kept = {*computed, *inputs}
        names = [*computed, *self._feeds, *inputs]
        if names:
            last = computed[-1] if computed else names[0]
            probe = node_of("Identity", [last], [_SIZE]) + output_of(_SIZE)
            self._run(self._session(probe), [_SIZE], "the first %d nodes" % count)

    def results(
        self, additions: bytes, targets: Sequence[ValueToSave], budget_bytes: int
    ) -> Iterator[Result]:
        """Load the model and return the targets in order of the slices in which they are computed.

        Parameters
        ----------
        budget_bytes
            What the outputs of one slice may need.
        """
        session = self._session(additions + self._declared(targets))
        return self._computed(session, self._outputs(session), additions, targets, budget_bytes)

    def _computed(
        self,
        session: Any,
        outputs: Mapping[str, _Output],
        additions: bytes,
        targets: Sequence[ValueToSave],
        budget_bytes: int,
    ) -> Iterator[Result]:
        usable = [target for target in targets if outputs[target.value].type is not None]
        for target in targets:
            if outputs[target.value].type is None:
                yield target, "%s, which no dump holds" % outputs[target.value].called, ""
        types = {target.value: _type_of(outputs[target.value]) for target in usable}
        slices = [usable]
        if not {entry.name for entry in types.values()} & set(_ROUNDED):
            elements = {target.value: outputs[target.value].elements for target in usable}
            if None in elements.values():
                session = None
                elements.update(
                    self._sizes(
                        additions, [name for name, element in elements.items() if element is None]
                    )
                )
            sizes = {name: types[name].nbytes(element or 0) for name, element in elements.items()}
            slices = sliced(usable, sizes, budget_bytes)
        self.options["slices"] = len(slices)
        for number, chosen in enumerate(slices):
            if session is None or len(slices) > 1:
                # Free the previous session first, so that the weights are in memory only once.
                session = None
                session = self._session(
                    additions + self._declared(chosen if len(slices) > 1 else targets)
                )
            part = "all nodes at once (which of them it was at is not known)"
            if len(slices) > 1:
                part = "the nodes up to %s, part %d of %d" % (
                    chosen[-1].title,
                    number + 1,
                    len(slices),
                )
            values = self._run(session, [target.value for target in chosen], part)
            session = None
            values.reverse()
            for target in chosen:
                entry = types[target.value]
                yield target, _array(values.pop(), entry), entry.name

    def _declared(self, targets: Sequence[ValueToSave]) -> bytes:
        """Return the targets' values as outputs, but for those that the model gives out anyway."""
        present = {value.name for value in self._model.graph.outputs}
        return b"".join(
            output_of(target.value) for target in targets if target.value not in present
        )

    def _session(self, additions: bytes) -> Any:
        """Return a session of the model with additions."""
        data = self._edited(additions)
        self.doing("loading the model")
        try:
            session = self._loaded(data)
        except Exception as error:
            found = self._node_without_kernel() if lacks_kernel(error) else None
            lacking, reason = found or (None, error)
            raise explained(reason, self._model, self._names, self.version, lacking) from error
        self.doing("")
        # onnxruntime keeps it for a fallback to other providers.
        session._model_bytes = None
        return session

    def _node_without_kernel(self) -> Optional[Tuple[int, Exception]]:
        """Return the number of the first node for which onnxruntime has no kernel, and what it says
        of that; None where it is not known. What onnxruntime names is often without a name, and may
        be part of the node's body or of the function that its operator is made of. So the model is
        loaded up to some node, and the first one with which that fails is the one.
        """
        given = {node.record.start for node in self._without}
        numbers = [
            number
            for number, node in enumerate(self._model.graph.nodes)
            if node.record.start not in given and any(node.outputs)
        ]
        found = None
        # How many of them load, and how many do not.
        loaded, refused = 0, len(numbers) + 1
        while refused - loaded > 1:
            # All of them first: more than their kernels may be missing.
            count = (loaded + refused) // 2 if found else len(numbers)
            reason = self._refusal_up_to(numbers[count - 1])
            if reason is None:
                loaded = count
            elif lacks_kernel(reason):
                refused, found = count, (numbers[count - 1], reason)
            else:
                return None
        return found

    def _refusal_up_to(self, last: int) -> Optional[Exception]:
        """Return what onnxruntime raises when it loads the nodes up to a number, or None. Large
        weights become inputs: kernels are looked up by types.
        """
        graph = self._model.graph
        kept = {name for node in graph.nodes[: last + 1] for name in node.outputs}
        declared = {value.name for value in graph.outputs}
        outputs = [name for name in graph.nodes[last].outputs if name and name not in declared]
        inputs = {value.name for value in graph.inputs}
        weights = [
            tensor for tensor in graph.initializers.values() if tensor.elements > _MOST_OF_SHAPE
        ]
        additions = b"".join(map(output_of, outputs)) + b"".join(
            input_of(tensor.name, tensor.dtype, tensor.dims)
            for tensor in weights
            if tensor.name not in inputs
        )
        left_out = [value for value in graph.outputs if value.name not in kept]
        data = self._edited(additions, graph.nodes[last + 1 :], (*left_out, *weights))
        try:
            self._loaded(data)
        except Exception as error:  # whatever it is, it is told from a missing kernel
            return error
        return None

    def _edited(
        self,
        additions: bytes,
        without: Sequence[OnnxNode] = (),
        without_values: Sequence[Union[OnnxValue, OnnxTensor]] = (),
    ) -> bytes:
        """Return the model's bytes with additions, and without some nodes, outputs and
        initializers.
        """
        left_out = [
            value
            for value in self._model.graph.outputs
            if self._outputs_kept is not None
            and value.name not in self._outputs_kept
            and value not in without_values
        ]
        without = [*self._without, *without]
        replaced, exact = without_cut_products(self._products, without)
        with self._model.open() as file:
            return with_additions(
                file,
                self._input_fields + additions + exact,
                [*without, *replaced],
                [*left_out, *without_values],
            )

    def _loaded(self, data: bytes) -> Any:
        """Return a session of a model's bytes; the current folder is the model's from now on, where
        external data are looked for.
        """
        ort = self._ort
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        # The arena may keep memory for later, and each slice runs once; what onnxruntime refuses
        # comes as an exception, so only fatal errors are logged (4).
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 4
        for name, size in self._dims.items():
            options.add_free_dimension_override_by_name(name, size)
        ort.set_seed(self._seed)
        os.chdir(os.path.dirname(os.path.abspath(self._model.path)))
        return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def _outputs(self, session: Any) -> Dict[str, _Output]:
        by_name = {}
        try:
            outputs = [(output.name, output.type, output.shape) for output in session.get_outputs()]
        except UnicodeDecodeError as error:
            raise explained(error, self._model, self._names, self.version) from error
        for value, kind, shape in outputs:
            inner = kind[len("tensor(") : -1] if kind.startswith("tensor(") else ""
            name = _SPELLED.get(inner, inner)
            entry = BY_NAME.get(name) if name and held_as(name) is not None else None
            dims = [self._dims.get(dim) if isinstance(dim, str) else dim for dim in shape]
            # A value without a shape and a scalar look the same.
            known = bool(dims) and all(isinstance(dim, int) and dim >= 0 for dim in dims)
            by_name[value] = _Output(
                entry,
                "a value of type %s" % kind,
                element_count([dim or 0 for dim in dims]) if known else None,
            )
        return by_name

    def _sizes(self, additions: bytes, names: Sequence[str]) -> Dict[str, int]:
        """Return the number of elements of values whose shape only a run can tell."""
        size_outputs = {name: _SIZE + name for name in names}
        nodes = b"".join(
            node_of("Size", [name], [size]) + output_of(size) for name, size in size_outputs.items()
        )
        session = self._session(additions + nodes)
        values = self._run(
            session,
            list(size_outputs.values()),
            "all nodes for the sizes of %d values" % len(names),
        )
        return {name: int(_array(value, BY_NAME["int64"])) for name, value in zip(names, values)}

    def _run(self, session: Any, names: Sequence[str], part: str) -> List[Any]:
        """Return the OrtValues of the named outputs, after ``part`` of the nodes. The run is in a
        thread, so that this one hears Ctrl-C.
        """
        arrays: List[Any] = []
        failed: List[BaseException] = []
        options = self._stop.options(self._ort)

        def run() -> None:
            try:
                arrays.extend(session.run_with_ort_values(list(names), self._feeds, options))
            except BaseException as error:
                failed.append(error)

        self.doing("running " + part)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        while thread.is_alive():
            # With an endless wait the main thread of old Pythons handles no signal.
            thread.join(3600)
        self.doing("")
        if self._stop.requested:
            raise Stopped
        if failed:
            raise explained(failed[0], self._model, self._names, self.version) from failed[0]
        return arrays


def _type_of(output: _Output) -> OnnxType:
    assert output.type is not None
    return output.type


def _array(value: Any, entry: Optional[OnnxType]) -> np.ndarray:
    """Return an OrtValue as an array; of a type that numpy has, without a copy."""
    assert entry is not None
    shape = value.shape()
    elements = element_count(shape)
    dtype = held_as(entry.name)
    assert dtype is not None
    if not elements:
        return np.zeros(shape, dtype)
    data = np.asarray(_Memory(value, entry.nbytes(elements)))
    return (
        decode(data, entry.name, elements).reshape(shape)
        if is_narrow(entry.name)
        else data.view(dtype).reshape(shape)
    )


def sliced(
    targets: Sequence[ValueToSave], sizes: Mapping[str, int], budget_bytes: int
) -> List[List[ValueToSave]]:
    """Return the targets in slices of at most ``budget_bytes``, in order; a larger target is a
    slice by itself.
    """
    slices: List[List[ValueToSave]] = []
    left = 0
    for target in targets:
        size = sizes[target.value]
        if not slices or size > left:
            slices.append([])
            left = budget_bytes
        slices[-1].append(target)
        left -= size
    return slices or [[]]
