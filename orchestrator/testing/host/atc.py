"""The stand-in's atc: an original model to an om, an om to its json.

Source of the options, of the words that it prints and of its error codes: the vendor's public ATC
manuals and public callers' logs.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from typing import Dict, List, Optional, Sequence

from ...base.errors import GoldwatchError
from .aipp import read_aipp
from .loaded_model import LoadedModel
from .om_file import read_om, write_om
from .original_network import FRAMEWORKS, read_network
from .precision_options import AtcError, read_build

_KNOWN = frozenset(
    "mode framework model weight output input_shape input_shape_range input_format "
    "soc_version precision_mode precision_mode_v2 keep_dtype "
    "customize_dtypes modify_mixlist op_precision_mode op_select_implmode "
    "optypelist_for_implmode fusion_switch_file dynamic_batch_size "
    "dynamic_image_size dynamic_dims out_nodes input_fp16_nodes output_type log om json "
    "buffer_optimize enable_small_channel "
    "op_debug_level debug_dir op_compiler_cache_mode op_compiler_cache_dir "
    "disable_reuse_memory core_type aicore_num "
    "enable_single_stream check_report singleop auto_tune_mode insert_op_conf "
    "is_output_adjust_hw_layout is_input_adjust_hw_layout "
    "external_weight deterministic host_env_os host_env_cpu".split()
)
_NOT_IMITATED = ("singleop",)
_FILES = (
    "insert_op_conf",
    "keep_dtype",
    "customize_dtypes",
    "modify_mixlist",
    "op_precision_mode",
    "fusion_switch_file",
)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run atc and return its exit code: 0, or 1 behind the words that it failed with."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    print("ATC start working now, please wait for a moment.", flush=True)
    try:
        options = _options(words)
        if options.get("mode", "0") == "1":
            om = read_om(_required(options, "om"))
            # As atc's json has it, and as clients of the vendor's rely on.
            for op in (op for graph in om.document["graph"] for op in graph["op"]):
                op.setdefault("attr", [])
                if op["type"] == "Data":
                    op.setdefault("input_desc", op["output_desc"])
            path = os.path.abspath(_required(options, "json"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as stream:
                json.dump(om.document, stream, indent=1)
        elif options.get("mode", "0") == "0":
            _convert(options, words)
        else:
            raise AtcError("E10006", "Value [%s] for [--mode] is not valid" % options["mode"])
    except (AtcError, GoldwatchError, OSError) as error:
        print("ATC run failed, Please check the detail log, Try 'atc --help' for more information")
        print(error if isinstance(error, AtcError) else "E10003: %s" % error, flush=True)
        return 1
    print("ATC run success, welcome to the next use.", flush=True)
    return 0


def _options(words: Sequence[str]) -> Dict[str, str]:
    options: Dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            raise AtcError("E10001", "unknown command line flag '%s'" % word)
        name, sign, value = word.lstrip("-").partition("=")
        if name not in _KNOWN:
            raise AtcError("E10001", "unknown command line flag '%s'" % name)
        if name in _NOT_IMITATED:
            raise AtcError("E10001", "the stand-in compiler does not imitate --%s" % name)
        if not sign and rest:
            value = rest.pop(0)
        options[name] = value.strip("\"'")
    return options


def _required(options: Dict[str, str], name: str) -> str:
    if not options.get(name):
        raise AtcError("E10004", "Value of [--%s] is empty" % name)
    return options[name]


def _convert(options: Dict[str, str], words: Sequence[str]) -> None:
    model, output = _required(options, "model"), _required(options, "output")
    soc = _required(options, "soc_version")
    framework = _required(options, "framework")
    if framework not in FRAMEWORKS.values():
        raise AtcError(
            "E10007",
            "Value [%s] for [--framework] must be one of [0(Caffe) 3(TensorFlow) 5(ONNX)]"
            % framework,
        )
    weights = _required(options, "weight") if framework == "0" else None
    for path in [model] + [
        path for path in (weights, *(options.get(name) for name in _FILES)) if path
    ]:
        if not os.path.isfile(path):
            raise AtcError("E10401", "File [%s] does not exist" % path)
    if not os.path.isdir(os.path.dirname(os.path.abspath(output))):
        raise AtcError("E10404", "Path of [--output=%s] does not exist" % output)
    network = read_network(model, weights, options)
    if FRAMEWORKS[network.dialect] != framework:
        raise AtcError("E19005", "Model [%s] is not one of --framework=%s" % (model, framework))
    command = " ".join(["atc"] + [word.replace('"', "").replace("'", "") for word in words])
    build = read_build(options)
    if options.get("insert_op_conf"):
        build = replace(
            build, aipp=tuple(aipp.settings for aipp in read_aipp(options["insert_op_conf"]))
        )
    loaded = LoadedModel(network, options, build, os.path.basename(output), command)
    document = loaded.document(soc, command)
    outputs = [
        {"name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape)}
        for tensor in loaded.outputs
    ]
    kept: Dict[str, object] = {
        "options": options, "build": build.document(), "soc": soc, "command": command,
        "outputs": outputs,
    }  # fmt: skip
    files: List[str] = network.files()
    path = output if output.endswith(".om") else output + ".om"
    write_om(path, document, kept, model, weights, files)
    for line in loaded.arithmetic.told():
        print("stand-in for a device: " + line)
