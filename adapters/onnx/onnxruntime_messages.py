"""What onnxruntime says, as one sentence: which node, what it lacks, and what to do."""

from __future__ import annotations

import re
from typing import Callable, List, Match, Optional, Sequence, Set, Tuple

from ...base.errors import EnvironmentProblem, GoldwatchError, InputError
from ...base.naming import printable
from ...base.wording import listed
from ...netfiles.narrow_types import is_narrow
from ...netfiles.onnx_model import OnnxModel, OnnxNode
from ...netfiles.onnx_types import type_name

_NEWER = (
    "install a newer onnxruntime, or name the Python of an environment that has one with "
    "`python=PATH`"
)
_HEAD = re.compile(
    r"^(?:\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : )?(?:Failed to load model with error: )?"
)
_PLACE = re.compile(r"/onnxruntime_src/\S+ .*?\)(?: const)? (?=[A-Z])")
_SHOWN = 3
_OTHER_OPSET = "export the model with an opset whose operator takes this type"
# How onnxruntime writes that a kernel has no last version.
_NO_END = 1000


def missing_package(package: str, error: ImportError) -> GoldwatchError:
    """Return the error of a package that cannot be imported."""
    text = " ".join(str(error).split())
    if "numpy" in text and "No module" not in text:
        return EnvironmentProblem(
            "%s does not work with this numpy: %s" % (package, text),
            hint="onnxruntime before 1.19 needs numpy before 2: pip install 'numpy<2'",
        )
    extra = "goldwatch[onnx]" if package == "onnxruntime" else package
    return EnvironmentProblem(
        "%s cannot be imported (%s)" % (package, text),
        hint="pip install '%s', or name the Python that has it with `python=PATH`" % extra,
    )


def explained(
    error: BaseException,
    model: OnnxModel,
    names: Sequence[str],
    version: str,
    lacking: Optional[int] = None,
) -> GoldwatchError:
    """Return the error for an exception of onnxruntime.

    Parameters
    ----------
    names
        Of the main graph's nodes in an om.
    lacking
        Which of these onnxruntime has no kernel for, where that is known.
    """
    text = " ".join(str(error).split())
    for pattern in _NO_KERNEL:
        match = pattern.search(text)
        if match is not None:
            return _kernel(match, model, names, version, lacking)
    for pattern, rule in _RULES:
        match = pattern.search(text)
        if match is not None:
            return rule(match, model, names, version)
    reason = _PLACE.sub("", _HEAD.sub("", text))
    return InputError(
        "%s: onnxruntime %s says: %s"
        % (model.path, version, printable(reason or type(error).__name__)),
        hint=_hint(text),
    )


def lacks_kernel(error: BaseException) -> bool:
    """Return whether onnxruntime has no kernel for some node."""
    text = " ".join(str(error).split())
    return any(pattern.search(text) for pattern in _NO_KERNEL)


def _hint(text: str) -> Optional[str]:
    if "codec can't decode" in text:
        return "a name in the model is no text: the file is damaged, copy it again"
    if "tensor(float6" in text:
        return "onnxruntime has no floats of 6 bits: use `backend=reference`"
    return (
        "free some memory, or use a smaller batch"
        if "allocate memory" in text or "bad_alloc" in text
        else None
    )


def _named(
    model: OnnxModel, names: Sequence[str], op_type: str, domain: str, node_name: str = ""
) -> List[str]:
    """Return the names in an om of the nodes of a type."""
    return [
        name
        for name, node in zip(names, model.graph.nodes)
        if node.op_type == op_type
        and node.domain.replace("ai.onnx", "") in (domain, domain.replace("ai.onnx", ""))
        and node_name in ("", node.name)
    ]


def _shown(names: Sequence[str]) -> str:
    if not names:
        return "a node"
    return ("node " if len(names) == 1 else "nodes ") + listed(
        [printable(name) for name in names], _SHOWN
    )


def _ir(match: Match[str], model: OnnxModel, _: Sequence[str], version: str) -> GoldwatchError:
    message = "%s: IR version %s (opset %d); onnxruntime %s reads up to %s"
    return EnvironmentProblem(
        message % (model.path, match[1], model.opsets.get("", 1), version, match[2]), hint=_NEWER
    )


def _opset(match: Match[str], model: OnnxModel, _: Sequence[str], version: str) -> GoldwatchError:
    message = "%s: opset %s of %s; onnxruntime %s knows up to %s"
    return EnvironmentProblem(
        message % (model.path, match[1], match[2], version, match[3]), hint=_NEWER
    )


def _unknown(
    model: OnnxModel, names: Sequence[str], version: str, op_type: str, domain: str, node_name: str
) -> GoldwatchError:
    node = _named(model, names, op_type, domain, node_name)
    what = "%s of %s" % (op_type, domain) if domain and domain != "ai.onnx" else op_type
    message = "%s (%s): onnxruntime %s does not know this op"
    example = printable(node[0]) if node else "NODE"
    hint = (
        "give the outputs of each such node, for example from the device's dump: "
        "`feeds=%s=dump:FILE`" % example
    )
    return InputError(message % (_shown(node), printable(what), version), hint=hint)


def _function(
    match: Match[str], model: OnnxModel, names: Sequence[str], version: str
) -> GoldwatchError:
    return _unknown(model, names, version, match[2], match[1], "")


def _no_op(
    match: Match[str], model: OnnxModel, names: Sequence[str], version: str
) -> GoldwatchError:
    domain = next((node.domain for node in model.graph.nodes if node.op_type == match[2]), "")
    return _unknown(model, names, version, match[2], domain, match[1])


def _kernel(
    match: Match[str],
    model: OnnxModel,
    names: Sequence[str],
    version: str,
    lacking: Optional[int],
) -> GoldwatchError:
    domain, _, op_type = match["op"].rpartition(".")
    since = int(match["version"])
    found = [
        (name, node)
        for number, (name, node) in enumerate(zip(names, model.graph.nodes))
        if number == lacking or (lacking is None and _holds(model, node, op_type, match["name"]))
    ]
    what = op_type
    if found and found[0][1].op_type != op_type:
        outer = list(dict.fromkeys(node.op_type for _, node in found))
        what = "%s; %s in a body or function of it" % (listed(outer, _SHOWN), op_type)
    text = "%s (%s): onnxruntime %s " % (
        _shown([name for name, _ in found] or [match["name"]] if found or match["name"] else []),
        what,
        version,
    )
    known, hint = _versions_with_kernel(domain, op_type), ""
    if known is None or since in known:
        text += "cannot compute it with these types on the CPU"
        if known is None:
            text += ", or has no kernel for version %d of %s" % (since, op_type)
    else:
        text += "has no kernel for version %d of %s on the CPU" % (since, op_type)
        nearest = [each for each in known if each < since][-1:] or known[:1]
        if nearest:
            hint = "export the model with opset %d, which it computes; or " % nearest[0]
    example = found[0][0] if found else match["name"] or "NODE"
    hint += "use `backend=reference`, or give its output: `feeds=%s=FILE`" % printable(example)
    return InputError(text, hint=hint)


def _no_type(match: Match[str], model: OnnxModel, _: Sequence[str], version: str) -> GoldwatchError:
    """Explain a type without kernels; onnxruntime does not name that of an initializer."""
    held = {type_name(tensor.dtype) for tensor in model.graph.initializers.values()}
    what = match["type"] or " or ".join(sorted(filter(is_narrow, held)))
    return InputError(
        "%s: onnxruntime %s lacks %s"
        % (model.path, version, "the type " + printable(what) if what else "a type of this model"),
        hint="use `backend=reference`",
    )


def _holds(
    model: OnnxModel,
    node: OnnxNode,
    op_type: str,
    node_name: str,
    within: Tuple[Tuple[str, str], ...] = (),
) -> bool:
    """Return whether a node is the one that onnxruntime speaks of, or has it in a body or in the
    function that it calls; onnxruntime names what it expands ``_inlfunc_{function}_{node}``.
    """
    prefix, call = "_inlfunc_%s_" % node.op_type, (node.domain, node.op_type)
    if node_name.startswith(prefix) or (node.op_type, node.name) == (op_type, node_name):
        return True
    inner = [each for graph in node.graphs.values() for each in graph.nodes]
    if call not in within:
        inner += model.functions.get(call, [])
    return any(_holds(model, each, op_type, node_name, (*within, call)) for each in inner)


def _versions_with_kernel(domain: str, op_type: str) -> Optional[List[int]]:
    """Return the versions of an operator that onnxruntime's kernels for the CPU compute, rising;
    None where onnxruntime does not tell.

    A kernel without an end is registered for the version that it begins with alone
    (KernelRegistry::VerifyKernelDef of onnxruntime).
    """
    try:
        from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def
    except ImportError:
        return None
    versions: Set[int] = set()
    for kernel in get_all_opkernel_def():
        key = kernel.op_name, kernel.domain, kernel.provider
        if key == (op_type, domain, "CPUExecutionProvider"):
            first, last = kernel.version_range
            versions.update(range(first, last + 1) if last < _NO_END else [first])
    return sorted(versions)


def _failed(
    match: Match[str], model: OnnxModel, names: Sequence[str], version: str
) -> GoldwatchError:
    node_name, reason = match["name"], _PLACE.sub("", match["text"])
    found = [
        (name, node)
        for name, node in zip(names, model.graph.nodes)
        if _holds(model, node, match["op"], node_name)
    ]
    # onnxruntime tells no more of nodes without a name.
    title = " or ".join(name for name, _ in found[:_SHOWN]) or node_name or "without a name"
    what = match["op"]
    if found and all(node.op_type != what for _, node in found):
        what += " in a body or function of it"
    hint = _hint(reason)
    if hint is None and re.search("unsupported type|typestr", reason):
        hint = _OTHER_OPSET
    elif hint is None and re.search("shape|dim|size|rank", reason, re.IGNORECASE):
        hint = "do the shapes of the inputs fit the model?"
    elif hint is None:
        hint = "give other inputs, or its output: `feeds=%s=FILE`" % printable(
            found[0][0] if found else node_name or "NODE"
        )
    return InputError(
        "node %s (%s) failed in onnxruntime %s: %s"
        % (printable(title), what, version, printable(reason)),
        hint=hint,
    )


def _invalid_type(
    match: Match[str], model: OnnxModel, names: Sequence[str], version: str
) -> GoldwatchError:
    """Explain an input of a type that its operator does not take: onnxruntime tells a node without
    a name by the input alone.
    """
    found = [
        name
        for name, node in zip(names, model.graph.nodes)
        if node.op_type == match["op"] and match["value"] in node.inputs
    ]
    return InputError(
        "%s (%s): opset %d does not allow its input %s to be %s, says onnxruntime %s"
        % (
            _shown(found or ([match["name"]] if match["name"] else [])),
            match["op"],
            model.opsets.get("", 1),
            printable(match["value"]),
            match["type"],
            version,
        ),
        hint=_hint(match.string) or _OTHER_OPSET,
    )


def _external(
    match: Match[str], model: OnnxModel, _: Sequence[str], version: str
) -> GoldwatchError:
    message = "%s: onnxruntime %s does not read its external data: %s"
    return InputError(
        message % (model.path, version, printable(match[0])),
        hint="copy model and data to a folder: cp -L",
    )


_NO_KERNEL = (
    re.compile(
        r"Could not find an implementation for (?P<op>[\w.]+)\((?P<version>\d+)\) "
        r"node with name '(?P<name>.*?)'"
    ),
    re.compile(
        r"Failed to find kernel for (?P<op>[\w.]+)\((?P<version>\d+)\) "
        r"\(node:? ?'?(?P<name>.*?)'?(?: ep:.*?)?\)"
    ),
)
_Rule = Callable[[Match[str], OnnxModel, Sequence[str], str], GoldwatchError]
_RULES: Tuple[Tuple["re.Pattern[str]", _Rule], ...] = (
    (re.compile(r"Unsupported model IR version: (\d+), max supported IR version: (\d+)"), _ir),
    (
        re.compile(
            r"Opset (\d+) is under development.*support for domain (\S+) is till opset (\d+)"
        ),
        _opset,
    ),
    (
        re.compile(r"Fatal error: (.*?):([^:()]+)\(-?\d+\) is not a registered function/op"),
        _function,
    ),
    (
        re.compile(
            r"In Node, \(\"(.*?)\", (\w+), .* No Op registered for (?:\S+) with "
            r"domain_version of \d+"
        ),
        _no_op,
    ),
    (
        re.compile(
            r"returned while running (?P<op>\w+) node\. Name:'(?P<name>.*?)' Status Message: "
            r"(?P<text>.*)"
        ),
        _failed,
    ),
    (re.compile(r"Node \((?P<name>.*?)\) Op \((?P<op>\w+)\) (?P<text>.*)"), _failed),
    (
        re.compile(
            r"Type 'tensor\((?P<type>\w+)\)' of input parameter \((?P<value>.*?)\) of operator "
            r"\((?P<op>\w+)\) in node \((?P<name>.*?)\) is invalid"
        ),
        _invalid_type,
    ),
    (re.compile(r"[Ee]xternal data.*"), _external),
    (re.compile(r"MLDataType for: tensor\((?P<type>\w+)\) is not|NOT_IMPLEMENTED :$"), _no_type),
)
