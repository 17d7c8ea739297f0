"""``scripts/verdict_trial``, short: tensors whose truth is known are judged right."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from goldwatch.judging.limits import Limit, Limits

SCRIPT = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "scripts", "verdict_trial")


def trial(*arguments):
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )


def test_healthy_tensors_pass_and_broken_ones_fail():
    result = trial("--tensors", "300", "--seed", "11", "--misses")
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert "| **all healthy ones** | **300** | **0 fail** |" in result.stdout
    assert "| **all broken ones** | **300** | **0 pass** |" in result.stdout


def test_healthy_tensors_have_no_finding_in_detail():
    result = trial("--findings", "100", "--seed", "11", "--misses")
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert "| **all** | **100** | **0** |" in result.stdout


def test_the_trial_of_findings_fails_when_findings_are_disabled(monkeypatch):
    monkeypatch.syspath_prepend(os.path.dirname(SCRIPT))
    from trials import detail_trial

    for module in ("metrics.patterns.region_patterns", "metrics.patterns.difference"):
        monkeypatch.setattr("goldwatch.%s.BY_CHANCE" % module, 2.0)
    found = detail_trial.run(200, 2)
    assert detail_trial.claimed(found) > 0 and list(detail_trial.misses(found))


def test_the_trial_of_tensors_fails_with_a_loose_limit(monkeypatch):
    monkeypatch.syspath_prepend(os.path.dirname(SCRIPT))
    from trials import tensor_trial

    found = tensor_trial.run(100, 1, Limits((Limit("CosineSimilarity", ">", 0.9),)))
    assert tensor_trial.wrong(found, "broken") > 20


def test_planted_faults_are_found_and_healthy_networks_pass():
    result = trial(
        "--networks",
        "--seeds",
        "7000",
        "--nets",
        "mobilenet,transformer",
        "--faults",
        "5",
        "--jobs",
        "1",
        "--misses",
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert (
        "| float16 | 2 | 0 | 0 |" in result.stdout
        and "| float16 sums | 2 | 0 | 0 |" in result.stdout
    )
    assert "| **all** | 20 |" in result.stdout


def test_the_trial_of_networks_fails_when_suspects_are_disabled(monkeypatch):
    monkeypatch.syspath_prepend(os.path.dirname(SCRIPT))
    from trials import network_trial

    monkeypatch.setattr("goldwatch.judging.diagnosis.own_error.estimate.SUSPECT_SCORE", 60.0)
    found = network_trial.run_all([7000], 4, 1, ["float16"], ["transformer"])
    assert network_trial.figures(found)["first"] < 0.9


@pytest.mark.parametrize("arguments", [(), ("--tensors", "x")])
def test_wrong_trial_options_exit_with_2(arguments):
    assert trial(*arguments).returncode == 2
