"""Where ``config new`` writes."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

from goldwatch.cli.config_new import new
from goldwatch.errors import MissingPath

ARGS = ["--for", "acl", "--dump-path", "/anywhere", "--elsewhere", "-q"]


def test_a_dash_is_stdout(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(new, [*ARGS, "-o", "-"], standalone_mode=False)
    assert done.exception is None and '"dump_path": "/anywhere"' in done.output
    assert os.listdir(".") == []


def test_a_device_or_folder_is_never_replaced(tmp_path) -> None:
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    for path in (fifo, str(tmp_path)):
        done = CliRunner().invoke(new, [*ARGS, "-o", path], standalone_mode=False)
        assert isinstance(done.exception, MissingPath)
    with pytest.raises(OSError):
        os.rmdir(fifo)
