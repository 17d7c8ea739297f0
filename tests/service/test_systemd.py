"""The example of a systemd unit: its form, and the command in it."""

from __future__ import annotations

import configparser
import os
import shlex
import shutil
import subprocess

import click

from goldwatch.cli import goldwatch

UNIT = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "examples", "goldwatch.service"
)


def unit():
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str
    with open(UNIT, encoding="utf-8") as stream:
        parser.read_file(stream)
    return parser


def test_the_command_of_the_systemd_unit_is_valid():
    program, name, *words = shlex.split(unit()["Service"]["ExecStart"])
    assert os.path.basename(program) == "goldwatch" and name == "serve"
    given = goldwatch.get_command(click.Context(goldwatch), name).make_context(name, words).params
    assert given["public_url"] and given["token_file"] and given["listen"].startswith("127.0.0.1:")


def test_the_systemd_unit_keeps_jobs_and_counts_a_stop_as_success():
    service = unit()["Service"]
    assert (
        service["KillMode"] == "process"
        and service["Restart"] == "on-failure"
        and service["NoNewPrivileges"] == "yes"
    )
    assert set(unit().sections()) == {"Unit", "Service", "Install"}


def test_systemd_analyze_finds_no_fault_in_the_unit(tmp_path):
    """Where there is systemd; elsewhere there is nothing that could tell."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    with open(UNIT, encoding="utf-8") as stream:
        text = stream.read().replace("/opt/goldwatch/bin/goldwatch", shutil.which("true"))
    path = tmp_path / "goldwatch.service"
    path.write_text(text.replace("User=goldwatch\nGroup=goldwatch\n", ""))
    done = subprocess.run(
        [analyze, "verify", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )
    assert done.returncode == 0 and "Unknown" not in done.stdout, done.stdout
