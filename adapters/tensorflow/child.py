"""What runs inside the Python that has TensorFlow: reads the job, does it, and writes down what was done after every step."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any, Dict, List, Optional

from ...errors import EnvironmentProblem, GoldwatchError
from ..manifest import write_whole
from .patches import activate, after_import, session_actions
from .recorder import Recorder, Refused
from .script import run_as_main

RESULT_FILE = "result.json"
OWN_ERROR = 70
PROTOBUF_HINT = "TensorFlow 1.15 needs protobuf older than 3.21: pip install 'protobuf>=3.20.2,<3.21' in that environment"


class Report:
    """The result file, written whole whenever something is known."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.state: Dict[str, Any] = {"error": None, "import_error": None, "version": None}
        self.state.update(runs=0, done=[], raised=[], notes=[])

    def note_recorder(self, recorder: Recorder) -> None:
        """Write down what a recorder has done so far."""
        self.state.update(runs=recorder.count, done=recorder.done, raised=recorder.raised)
        if recorder.error is not None:
            self.note_error(recorder.error)
        self.save()

    def note_error(self, error: GoldwatchError) -> None:
        """Keep the first error of goldwatch's own."""
        if self.state["error"] is None:
            kind, code = error.kind, error.exit_code
            self.state["error"] = {"kind": kind, "exit_code": code, "message": error.message, "hint": error.hint}

    def save(self) -> None:
        """Write the file."""
        modules = sys.modules.get("tensorflow.python.framework.versions")
        self.state["version"] = getattr(modules, "VERSION", None) or self.state["version"]
        write_whole(self.folder, RESULT_FILE, json.dumps(self.state).encode("ascii"))


def main(job_path: str) -> None:
    """Do the job in ``job_path`` (JSON, as :mod:`.parent` writes it) and end with the script's own exit code."""
    with open(job_path, encoding="utf-8") as stream:
        job = json.load(stream)
    _restore_environment(job)
    report = Report(os.path.dirname(job_path))
    report.save()
    if job["action"] == "graph":
        from .graphs import dump_graph

        _own_work(report, lambda: dump_graph(job, report))
    elif job["action"] == "drive":
        from .drive import Driver

        driver = Driver(job, report.folder)
        driver.on_change = report.note_recorder
        after_import(driver.actions(), lambda name, error: _note_import_error(report, name, error))
        _run_script(job, report, driver)
    else:
        recorder = _recorder(job, report)
        activate(recorder)
        actions = session_actions(optimiser_off=True)
        actions["tensorflow"] = lambda module: None
        after_import(actions, lambda name, error: _note_import_error(report, name, error))
        _run_script(job, report, recorder)


def _recorder(job: Dict[str, Any], report: Report) -> Recorder:
    return Recorder(
        {int(number): out for number, out in job["wanted"].items()},
        force=job["force"],
        source=job["source"],
        extra=job["extra"],
        monitored_only=job.get("estimator", False),
        scratch=report.folder,
        on_change=report.note_recorder,
    )


def _restore_environment(job: Dict[str, Any]) -> None:
    """Give the script the PYTHONPATH of its user; our folder stays on sys.path only."""
    if job["pythonpath"] is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = job["pythonpath"]
    # oneDNN of TensorFlow 2 rewrites convolutions; golden data shall hold every op of the graph.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")


def _note_import_error(report: Report, name: str, error: BaseException) -> None:
    text = (str(error).strip().splitlines() or [""])[0]
    report.state["import_error"] = "%s: %s" % (type(error).__name__, text)
    if name == "tensorflow":
        hint = PROTOBUF_HINT if "Descriptors" in str(error) else "repair that environment, or name another one with --python PATH"
        message = "TensorFlow cannot be imported by %s: %s" % (sys.executable, report.state["import_error"])
        report.note_error(EnvironmentProblem(message, hint))
    report.save()


def _run_script(job: Dict[str, Any], report: Report, recorder: Any) -> None:
    code: Any = 0
    try:
        run_as_main(job["kind"], job["target"], job["arguments"])
    except Refused:
        code = OWN_ERROR
    except SystemExit:
        raise
    except KeyboardInterrupt:
        code = 130
    except BaseException as error:
        # As python prints it: without the frames of the launcher.
        shown = error.with_traceback(_script_part(error))
        sys.excepthook(type(shown), shown, shown.__traceback__)
        code = 1
    finally:
        report.note_recorder(recorder)
    if code:
        sys.exit(code)


def _script_part(error: BaseException) -> Optional[Any]:
    own = os.path.dirname(os.path.abspath(__file__))
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and _is_own(trace.tb_frame.f_code.co_filename, own):
        trace = trace.tb_next
    return trace


def _is_own(file_name: str, own: str) -> bool:
    if os.path.dirname(os.path.abspath(file_name)) == own:
        return True
    return file_name.startswith("<frozen runpy") or os.path.basename(file_name) == "runpy.py"


def _own_work(report: Report, work: Any) -> None:
    try:
        work()
    except GoldwatchError as error:
        report.note_error(error)
        report.save()
        sys.exit(OWN_ERROR)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:
        traceback.print_exc()
        report.save()
        sys.exit(1)


def words_of(job_path: str, folder: str) -> List[str]:
    """Return python's ``-c`` option that starts :func:`main` with goldwatch found in ``folder``."""
    code = "import sys; sys.path[:] = [%r] + [p for p in sys.path if p]; from goldwatch.adapters.tensorflow.child import main; main(%r)"
    return ["-c", code % (folder, job_path)]
