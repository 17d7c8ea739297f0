"""A network whose dumps are written in pieces, and a watcher as a user calls it, judged by
compare.
"""

from __future__ import annotations

import glob
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from typing import Any, Dict, List

import numpy as np
import pytest
from in_process import run_here

from goldwatch.testing.device_model import DeviceModel, DeviceOp, DeviceTensor

STAMP = 1767323045000000
TIME = "20260102030405"


class Net:
    """data -> a chain of ops with one input and one output each; op ``bad`` is wrong on the
    device.
    """

    def __init__(
        self,
        folder: str,
        until: Any,
        ops: int = 4,
        bad: int = -1,
        shape: Any = (2, 3, 4, 5),
        seed: int = 7,
    ) -> None:
        self.folder = folder
        self.until = until
        self.target = os.path.join(folder, "dump")
        self.golden = os.path.join(folder, "golden")
        self.out = os.path.join(folder, "out")
        self.model_path = os.path.join(folder, "net.json")
        os.makedirs(self.golden, exist_ok=True)
        random = np.random.RandomState(seed)
        value = random.standard_normal(shape).astype(np.float32)
        self.values: Dict[str, Any] = {"data": value}
        model = self.model = DeviceModel("net")
        model.add(DeviceOp("data", "Data", (), (DeviceTensor(value, "NCHW", "NCHW", "data"),)))
        source, exact = ("data", 0), value
        for number in range(ops):
            name = "op%d" % number
            exact = (np.abs(exact) * 0.5 + 0.25 * random.standard_normal(shape)).astype(np.float32)
            self.values[name] = exact
            there = exact[:, ::-1] if number == bad else exact
            model.add(
                DeviceOp(
                    name,
                    "Relu",
                    (source,),
                    (DeviceTensor(there.astype(np.float16), "NCHW", "NCHW", name),),
                    (name,),
                )
            )
            source = (name, 0)
        model.add(DeviceOp("out", "NetOutput", (source,), (), ()))
        model.write_json(self.model_path)

    append = staticmethod(lambda path, data: append(path, data))

    def golden_path(self, name: str, stamp: int = STAMP, below: str = "") -> str:
        return os.path.join(self.golden, below, "%s.0.%d.npy" % (name, stamp))

    def write_golden(self, *names: str, below: str = "") -> None:
        os.makedirs(os.path.join(self.golden, below), exist_ok=True)
        for name in names or tuple(self.values):
            np.save(self.golden_path(name, below=below), self.values[name])

    def files(self, step: int = 0, device: int = 0, stamp: int = STAMP) -> Dict[str, bytes]:
        """Path to content of each dump file of one step, below TARGET."""
        key = (step, device, stamp)
        scratch = os.path.join(self.folder, "scratch-%d-%d-%d" % key)
        if not os.path.isdir(scratch):
            self.model.write_tree(
                scratch, time=TIME, device=device, step=step, first_timestamp_us=stamp
            )
        found = {}
        for base, _, names in os.walk(scratch):
            for name in sorted(names):
                path = os.path.join(base, name)
                with open(path, "rb") as stream:
                    found[os.path.join(self.target, os.path.relpath(path, scratch))] = stream.read()
        return dict(sorted(found.items()))

    def put(self, files: Dict[str, bytes], chunk: int = 1 << 20) -> None:
        """Write files as a device does: appended in chunks, interleaved."""
        longest = max(len(data) for data in files.values())
        for offset in range(0, longest, chunk):
            for path, data in files.items():
                if offset < len(data) or offset == 0:
                    append(path, data[offset : offset + chunk])

    def watched_step(self, step: int) -> None:
        """Write a whole step and wait for its rows: the watcher has then met all that was written
        before.
        """
        self.put(self.files(step))
        self.until(lambda: self.count("verdict = 'pass' AND step = '%d'" % step) == 8)

    def command(
        self, *options: str, model: bool = True, name: str = "watch", out: str = ""
    ) -> List[str]:
        words = [
            sys.executable,
            "-m",
            "goldwatch",
            name,
            self.target,
            self.golden,
            "-o",
            out or self.out,
            "--jobs",
            "2",
        ]
        return words + (["-f", self.model_path] if model else []) + list(options)

    def compare_rows(self, model: bool = True, options: Any = ()) -> List[Any]:
        out = os.path.join(self.folder, "compared")
        done = run_here(
            self.command("--force", "--jobs", "1", *options, model=model, name="compare", out=out)
        )
        assert done.returncode in (0, 1, 3, 4), done.stderr
        return rows_of(out)

    def rows(self) -> List[Any]:
        return rows_of(self.out)

    def verdicts(self) -> Dict[str, str]:
        return {row["tensor"]: row["verdict"] for row in self.result()["rows"]}

    def reasons(self) -> Dict[str, str]:
        return {row["tensor"]: row["reason"] for row in self.result()["rows"]}

    def result(self) -> Dict[str, Any]:
        with open(os.path.join(self.out, "result.json"), encoding="utf-8") as stream:
            return json.load(stream)

    def tables(self) -> List[str]:
        return sorted(
            os.path.basename(path) for path in glob.glob(os.path.join(self.out, "*result_*.csv"))
        )

    def query(self, sql: str) -> List[Any]:
        connection = sqlite3.connect(
            "file:%s?mode=ro" % os.path.join(self.out, "run.sqlite"), uri=True, timeout=30
        )
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def count(self, where: str = "1") -> int:
        if not os.path.exists(os.path.join(self.out, "run.sqlite")):
            return 0
        try:
            return self.query("SELECT count(*) FROM row WHERE " + where)[0][0]
        except sqlite3.OperationalError:
            return 0


def rows_of(out: str) -> List[Any]:
    connection = sqlite3.connect(
        "file:%s?mode=ro" % os.path.join(out, "run.sqlite"), uri=True, timeout=30
    )
    try:
        names = [
            entry[1] for entry in connection.execute("PRAGMA table_info(row)") if entry[1] != "id"
        ]
        return sorted(
            connection.execute(
                "SELECT %s FROM row" % ", ".join('"%s"' % name for name in names)
            ).fetchall(),
            key=repr,
        )
    finally:
        connection.close()


def append(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab") as stream:
        stream.write(data)


class Watcher:
    """A running ``goldwatch watch``."""

    def __init__(self, command: List[str], until: Any, **options: Any) -> None:
        self.command = command
        self.until = until
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as this)
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, universal_newlines=True, **options
        )
        self.stdout = ""

    def signal(self, number: int = signal.SIGINT) -> None:
        self.process.send_signal(number)

    @property
    def stderr(self) -> str:
        """What it has said on stderr so far."""
        return os.pread(self._log.fileno(), 1 << 24, 0).decode()

    def until_said(self, text: str) -> None:
        """Wait for a text on stderr."""
        self.until(lambda: text in self.stderr)

    def until_watching(self) -> Watcher:
        """Wait until whatever is written is an arrival."""
        self.until_said("watching ")
        return self

    def wait(self, timeout: float = 60) -> int:
        try:
            self.stdout, _ = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.stdout, _ = self.process.communicate()
            raise AssertionError(
                "the watcher did not end\n%s\n%s" % (self.stdout, self.stderr)
            ) from None
        assert "Traceback" not in self.stderr, self.stderr
        return self.process.returncode


@pytest.fixture
def make_net(tmp_path, until):
    return lambda **options: Net(str(tmp_path), until, **options)


@pytest.fixture
def net(make_net):
    return make_net()


@pytest.fixture
def turn():
    """Goes on with a watch in this process, ``turn(turns, condition)``, until the condition
    holds.
    """

    def go_on(turns, condition):
        for _ in turns:
            if condition():
                return
        raise AssertionError("the watch ended")

    return go_on


@pytest.fixture
def at_end():
    """Tells whether a watch has ended."""

    def seek(watch):
        for _ in watch._seek_end():
            pass
        return watch._over

    return seek


@pytest.fixture
def watch_here():
    """Watch what is there already, in this process, to the end."""

    def run(net: Net, *options: str) -> Any:
        done = run_here(net.command("--until-idle", "0.1", "--jobs", "1", *options))
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


@pytest.fixture
def watch(until):
    """Start watchers; those that are left are killed."""
    started: List[Watcher] = []

    def start(net: Net, *options: str, **kind: Any) -> Watcher:
        env = kind.pop("env", None)
        started.append(
            Watcher(net.command(*options, **kind), until, **({"env": env} if env else {}))
        )
        return started[-1]

    yield start
    for watcher in started:
        if watcher.process.poll() is None:
            watcher.process.kill()
            watcher.process.communicate()
