"""What runs inside the Python that has TensorFlow: does the job and tells the parent after every
step.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import multiprocessing
import os
import resource
import sys
from types import ModuleType
from typing import Any, Dict, Optional

from ...base.errors import EXIT_INTERRUPTED, EnvironmentProblem, GoldwatchError, InputError
from ...base.interrupts import caused_by_interrupt
from ..child.serve import Parent
from ..run_script import run_as_main
from .after_import import after_import
from .pythons import PROTOBUF_HINT
from .recorder import Recorder, Refused
from .session_patches import C_API, activate, forget_unmade, session_actions

PACKAGES = ("npu_bridge", "npu_device")
# npu_bridge.npu_init's names, which scripts import with *.
NAMES = (
    "DumpConfig NPUBroadcastGlobalVariablesHook NPUDistributedOptimizer NPUEstimator "
    "NPUEstimatorSpec NPUOptimizer NPURunConfig "
    "ProfilingConfig RewriterConfig close_session init_resource npu_callbacks_append "
    "npu_config_proto npu_distributed_optimizer_wrapper "
    "npu_graph_options npu_hooks_append npu_keras_optimizer npu_ops npu_rewriter_config "
    "npu_run_config_init npu_session_options_init "
    "npu_tf_optimizer set_keras_session_npu_config shutdown_resource util"
).split()
_OPS = (
    "npu_ops",
    "npu_unary_ops",
    "npu_aicore_ops",
    "npu_rnn",
    "npu_cube_ops",
    "npu_vector_ops",
    "npu_image_ops",
    "npu_map_ops",
)
_RESOURCES = ("initialize_system", "shutdown_system")


def install() -> None:
    """Make ``import npu_bridge`` (and npu_device) find the stand-in."""
    sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Any, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(), is_package=True)


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(__all__=list(NAMES))


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _value(name, self.__name__.rpartition(".")[2])
        setattr(self, name, value)
        return value


def _value(name: str, module: str) -> Any:
    import tensorflow as tf

    if name == "NPUEstimator":
        return tf.compat.v1.estimator.Estimator
    if name == "NPUEstimatorSpec":
        return tf.compat.v1.estimator.EstimatorSpec
    if name == "NPURunConfig":
        return _run_config
    if name == "RewriterConfig":
        from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

        return RewriterConfig
    if name == "npu_config_proto":
        return (
            lambda config_proto=None, *_, **__: tf.compat.v1.ConfigProto()
            if config_proto is None
            else config_proto
        )
    if name in ("npu_hooks_append", "npu_callbacks_append"):
        return lambda *lists, **named: [
            entry for entries in lists + tuple(named.values()) for entry in entries or ()
        ]
    if name in _OPS:
        return _Module("npu_bridge." + name)
    if name in _RESOURCES:
        return lambda *_, **__: tf.no_op()
    if module in _OPS:
        return _refused(name)
    return _Passes(name)


def _run_config(**settings: Any) -> Any:
    """Return TensorFlow's RunConfig with those settings that it knows."""
    import tensorflow as tf

    known = (
        "model_dir tf_random_seed save_summary_steps save_checkpoints_steps "
        "save_checkpoints_secs session_config keep_checkpoint_max "
        "keep_checkpoint_every_n_hours log_step_count_steps"
    ).split()
    known_settings: Dict[str, Any] = {
        name: value for name, value in settings.items() if name in known
    }
    return tf.compat.v1.estimator.RunConfig(**known_settings)


def _refused(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise InputError(
            "the script uses the NPU's own op %s, which no CPU has" % name,
            hint="replace it by TensorFlow's ops first",
        )

    return refuse


class _Passes:
    """Anything else of npu_bridge: called, it returns its first argument; used as a setting or a
    context, it does nothing.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *values: Any, **settings: Any) -> Any:
        candidates = values + tuple(
            settings[name] for name in ("optimizer", "opt", "func") if name in settings
        )
        return candidates[0] if candidates else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Passes(name)

    def __enter__(self) -> _Passes:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


# The exit code of a script that was ended because its chosen run cannot give golden data.
OWN_ERROR = 70
# An import of TensorFlow takes longer than this, most tools that scripts call do not.
_CHILD_S = 0.5


class StateSender:
    """What is known so far; the parent is told whenever that changes, and the last it heard counts
    even when this process dies.

    Parameters
    ----------
    parent
        The pipe to the parent.
    folder
        For files of this job's own.
    """

    def __init__(self, parent: Parent, folder: str) -> None:
        self.folder = folder
        self.state: Dict[str, Any] = {
            "import_error": None,
            "version": None,
            "runs": 0,
            "done": [],
            "raised": [],
            "npu_missing": False,
        }
        self.state.update(partial_runs=0, children=False, listed=[])
        self._parent = parent
        self._failed = False

    def note_recorder(self, recorder: Recorder) -> None:
        """Send the state of a recorder."""
        self.state.update(runs=recorder.count, done=recorder.done, raised=recorder.raised)
        self.state.update(
            partial_runs=recorder.partial_runs, children=_children(), listed=recorder.listed
        )
        if recorder.error is not None:
            self.note_error(recorder.error)
        self.send()

    def note_foreign(self) -> None:
        """Tell, from a process that the script forked, that it makes runs."""
        with contextlib.suppress(OSError):
            self._parent.send(foreign=True)

    def progress(self, done: int, total: int) -> None:
        """Send how many tensors of all are saved."""
        with contextlib.suppress(OSError):
            self._parent.progress(done, total)

    def note_error(self, error: GoldwatchError) -> None:
        """Send the first error of goldwatch's own."""
        if not self._failed:
            self._failed = True
            with contextlib.suppress(OSError):
                self._parent.send_error(error)

    def send(self) -> None:
        """Send the state. The script goes on even when the parent is gone, or when it has closed
        the pipe itself.
        """
        versions = sys.modules.get("tensorflow.python.framework.versions")
        self.state["version"] = getattr(versions, "VERSION", None) or self.state["version"]
        with contextlib.suppress(OSError):
            self._parent.send(state=self.state)


_MADE_OF_INTERRUPTS = (SystemError, ImportError)
"""What the interpreter and extension modules make of a KeyboardInterrupt, while TensorFlow is
imported above all.
"""


def _children() -> bool:
    """Tell whether the script ran other programs or processes for some time."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime > _CHILD_S or bool(multiprocessing.active_children())


def work(job: Dict[str, Any], parent: Parent) -> None:
    """Do the job, as :mod:`.parent` writes it; a script ends the process with its own exit code."""
    # Give the script the PYTHONPATH of its user; our folder stays on sys.path only.
    if job["pythonpath"] is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = job["pythonpath"]
    # oneDNN of TensorFlow 2 rewrites convolutions; golden data shall hold every op of the graph.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    # So does XLA: without fuel it clusters no op, not even one in a jit scope.
    os.environ["TF_XLA_FLAGS"] = (
        os.environ.get("TF_XLA_FLAGS", "") + " --tf_xla_clustering_fuel=0"
    ).strip()
    if job.get("without_npu"):
        install()
    sender = StateSender(parent, job["folder"])
    sender.send()
    after_import({C_API: forget_unmade})
    if job["action"] == "graph":
        from .dump_graph import dump_graph

        dump_graph(job, sender)
    else:
        recorder = Recorder(
            {int(number): out for number, out in job["folders"].items()},
            force=job["force"],
            source=job["source"],
            extra=job["extra"],
            monitored_only=job.get("estimator", False),
            scratch=sender.folder,
            on_change=sender.note_recorder,
            provisional=True,
            listing=job.get("listing", False),
            on_foreign=sender.note_foreign,
        )
        activate(recorder)
        actions = session_actions(optimiser_off=True)
        actions["tensorflow"] = lambda module: None
        after_import(actions, lambda name, error: _note_import_error(sender, name, error))
        _run_script(job, sender, recorder)


def _note_import_error(sender: StateSender, name: str, error: BaseException) -> None:
    text = (str(error).strip().splitlines() or [""])[0]
    sender.state["import_error"] = "%s: %s" % (type(error).__name__, text)
    if name == "tensorflow":
        hint = (
            PROTOBUF_HINT
            if "Descriptors" in str(error)
            else "repair that environment, or name another one with `python=PATH`"
        )
        message = "TensorFlow cannot be imported by %s: %s" % (
            sys.executable,
            sender.state["import_error"],
        )
        sender.note_error(EnvironmentProblem(message, hint))
    sender.send()


def _run_script(job: Dict[str, Any], sender: StateSender, recorder: Recorder) -> None:
    code: Any = 0
    try:
        run_as_main(job["kind"], job["target"], job["arguments"])
    except Refused:
        code = OWN_ERROR
    except SystemExit:
        raise
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except BaseException as error:
        if isinstance(error, _MADE_OF_INTERRUPTS) and caused_by_interrupt(error):
            sys.exit(EXIT_INTERRUPTED)
        missing = str(getattr(error, "name", None) or "").partition(".")[0]
        sender.state["npu_missing"] = isinstance(error, ImportError) and missing in PACKAGES
        # As python prints it: without the frames of the launcher.
        shown = error.with_traceback(_script_part(error))
        sys.excepthook(type(shown), shown, shown.__traceback__)
        code = 1
    finally:
        sender.note_recorder(recorder)
    if code:
        sys.exit(code)


def _script_part(error: BaseException) -> Optional[Any]:
    folder = os.path.dirname(os.path.abspath(__file__))
    trace = error.__traceback__
    while (
        trace is not None
        and trace.tb_next is not None
        and _is_own(trace.tb_frame.f_code.co_filename, folder)
    ):
        trace = trace.tb_next
    return trace


def _is_own(file_name: str, folder: str) -> bool:
    if os.path.dirname(os.path.abspath(file_name)) == folder:
        return True
    return file_name.startswith("<frozen runpy") or os.path.basename(file_name) == "runpy.py"
