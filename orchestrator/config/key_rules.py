"""Rules about keys: unknown ones, those that stand at the wrong level, and those newer than the
CANN in use.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..base.naming import nearest_names
from ..schemas.documents import MAX_SUGGESTIONS
from .cann_versions import parse_version
from .finding import Findings, Path

#: Sections of acl.json that have nothing to do with dumps.
OTHER_SECTIONS = (
    "profiler", "max_opqueue_num", "err_msg_mode", "defaultDevice", "StackSize", "event_mode",
    "aclGraph",
    "simt_printf_fifo_size", "simd_printf_fifo_size_per_core",
)  # fmt: skip
_DEVICE_KEYS = (
    "device",
    "device_id",
    "deviceid",
    "dump_device",
    "dump_deviceid",
    "dump_device_id",
    "devices",
)
_ENABLE_KEYS = ("enable", "enable_dump", "dump_enable", "dump_switch")
# Arguments of npu_bridge's NPURunConfig (TF Adapter, npu_bridge/estimator/npu/npu_config.py; the
# older ones' auto_tune_mode, too), which are none of DumpConfig's.
RUN_CONFIG = frozenset(
    "iterations_per_loop profiling_config model_dir tf_random_seed save_summary_steps "
    "save_checkpoints_steps save_checkpoints_secs session_config keep_checkpoint_max "
    "keep_checkpoint_every_n_hours log_step_count_steps distribute enable_data_pre_proc "
    "precision_mode enable_reduce_precision variable_format_optimize mix_compile_mode "
    "hcom_parallel graph_memory_max_size variable_memory_max_size auto_tune_mode dump_config "
    "stream_max_parallel_num is_tailing_optimization horovod_mode graph_run_mode op_debug_level "
    "enable_scope_fusion_passes enable_exception_dump op_select_implmode optypelist_for_implmode "
    "dynamic_input_config aoe_mode work_path buffer_optimize enable_small_channel "
    "fusion_switch_file enable_compress_weight compress_weight_conf op_compiler_cache_mode "
    "op_compiler_cache_dir debug_dir hcom_multi_mode dynamic_input dynamic_graph_execute_mode "
    "dynamic_inputs_shape_range train_distribute eval_distribute local_rank_id local_device_list "
    "session_device_id distribute_config modify_mixlist op_precision_mode device_type soc_config "
    "hccl_timeout op_wait_timeout op_execute_timeout HCCL_algorithm customize_dtypes "
    "op_debug_config memory_config experimental_config topo_sorting_mode aoe_config_file "
    "insert_op_file stream_sync_timeout event_sync_timeout external_weight es_cluster_config "
    "deterministic frozen_variable variable_placement jit_compile precision_mode_v2".split()
)
_NPU_SWITCHES = ("enable_dump_debug", "dump_debug_mode")
_OFF: Tuple[Any, ...] = (False, 0, None, "off", "", "0", "false", [], {})
_IGNORES = "ignored without a word"
_SHOWN_LAYERS = 10


class KeyRules:
    """Finds unknown keys; only the first twenty get a suggestion.

    Parameters
    ----------
    findings
        Where findings go.
    homes
        ``{key: where it belongs}`` of keys that are known at another level.
    """

    def __init__(self, findings: Findings, homes: Optional[Mapping[str, str]] = None) -> None:
        self.findings = findings
        self.homes: Mapping[str, str] = homes or {}
        self._left = MAX_SUGGESTIONS

    def unknown(
        self, value: Mapping[str, Any], known: Iterable[str], path: Path, also: Sequence[str] = ()
    ) -> None:
        """Add a warning for every key of ``value`` that is neither in ``known`` nor in ``also``."""
        names = list(known)
        for key in value:
            if key not in names and key not in also:
                message, fix = self._explain(key, names, value[key], path)
                self.findings.warning(
                    "unknown-key", path + (key,), message, _IGNORES, fix, at_key=True
                )

    def _explain(self, key: str, names: List[str], value: Any, path: Path) -> Tuple[str, str]:
        if key in self.homes:
            return "%r belongs into %s" % (key, self.homes[key]), "move it into %s" % self.homes[
                key
            ]
        if key == "dump" and path:
            return "a dump section stands inside another one", "move its content one level up"
        if "enable_dump" in names:
            return self._nearest(key, names)
        if key == "dump_layer" and "layer" in names:
            return (
                "%r is a setting of npu_bridge; here it is called 'layer'" % key,
                '"layer": %s' % _as_list(value),
            )
        if key == "dump_layer":
            message = (
                "%r is a setting of npu_bridge; acl.json names layers in the entries of dump_list"
                % key
            )
            return message, '"dump_list": [{"layer": %s}]' % _as_list(value)
        if key in _NPU_SWITCHES:
            return (
                "%r is a setting of npu_bridge; acl.json calls it dump_debug" % key,
                '"dump_debug": "on"',
            )
        if key == "dump_status":
            return "dump_status is internal to GE and documented nowhere", "leave it out"
        if key.lower() in _DEVICE_KEYS:
            return (
                "%r: no consumer can choose a device here" % key,
                "leave it out; every device of the process dumps",
            )
        if key.lower() in _ENABLE_KEYS:
            return (
                "%r: acl.json has no such switch" % key,
                "leave it out; a dump_list that is not empty switches dumping on",
            )
        return self._nearest(key, names)

    def _nearest(self, key: str, names: List[str]) -> Tuple[str, str]:
        near = None
        if self._left > 0 and key not in RUN_CONFIG:
            self._left -= 1
            near = nearest_word(key, names)
        if near:
            return "unknown key %r; did you mean %r?" % (key, near), near
        return "unknown key %r" % key, "leave it out; known here: %s" % ", ".join(names)


def nearest_word(word: str, words: Iterable[str]) -> Optional[str]:
    """Return the known word that is most like this one, or None."""
    return next(iter(nearest_names(word, words)), None)


def _as_list(value: Any) -> str:
    """Return the JSON list of the names in a dump_layer."""
    words = value.replace(",", " ").split() if isinstance(value, str) else []
    return json.dumps(words[:_SHOWN_LAYERS] or ["OP"], ensure_ascii=False)


def asks_for_a_dump(
    value: Mapping[str, Any],
    known: Iterable[str],
    switches: Sequence[str],
    also: Iterable[str] = (),
) -> bool:
    """Tell whether an unknown key of ``value`` is meant to switch dumping on: one that misspells a
    switch, or is in ``also``.

    A key whose value says off (false, 0, "off", nothing) asks for nothing.
    """
    names, others = list(known), frozenset(also)
    unknown = [key for key, setting in value.items() if key not in names and setting not in _OFF]
    return any(
        key in others or key.lower() in _ENABLE_KEYS or nearest_word(key, names) in switches
        for key in unknown[:MAX_SUGGESTIONS]
    )


def hidden_section(document: Mapping[str, Any], fields: Iterable[str]) -> Optional[Path]:
    """Return where in ``document``, below its outermost level, settings stand that ask for a dump,
    or None.

    A section called ``dump`` asks for one, and so does an object with fields of one, unless all of
    them say off.
    """
    known = frozenset(fields)
    queue: List[Tuple[Path, Any]] = [((), document)]
    for path, node in queue:
        inner = (
            list(node.items())
            if isinstance(node, dict)
            else list(enumerate(node))
            if isinstance(node, list)
            else []
        )
        for key, value in inner:
            asks = isinstance(value, dict) if key == "dump" else key in known and value not in _OFF
            if path and asks:
                return path + ("dump",) if key == "dump" else path
            queue.append((path + (key,), value))
    return None


def check_since(
    findings: Findings,
    value: Mapping[str, Any],
    path: Path,
    since: Dict[Tuple[str, Optional[str]], str],
    cann: Optional[str],
) -> None:
    """Warn about fields and values that were first seen in a newer CANN than ``cann``."""
    if not cann:
        return
    for (field, word), sighting in since.items():
        if (
            field not in value
            or (word is not None and value[field] != word)
            or parse_version(sighting) <= parse_version(cann)
        ):
            continue
        what = field if word is None else '%s "%s"' % (field, word)
        message = "%s was first seen in CANN %s, newer than %s" % (what, sighting, cann)
        consumer = (
            "an older CANN ignores a field that it does not know; a sighting is no proof of the "
            "first release"
        )
        fix = "leave it out, or use CANN %s or later" % sighting
        findings.warning("newer-than-cann", path + (field,), message, consumer, fix, at_key=True)
