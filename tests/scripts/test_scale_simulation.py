"""The simulation of a large run, against the formulas of docs/design/scale.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SCRIPT = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "scale_simulation"
)


def simulated(*options):
    words = [sys.executable, SCRIPT, "--format", "json", *options]
    return json.loads(
        subprocess.run(words, stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    )


@pytest.mark.parametrize(
    "options",
    [
        [],
        [
            "--devices",
            "3",
            "--steps",
            "7",
            "--ops",
            "11",
            "--megabytes",
            "0.5",
            "--rows",
            "3",
            "--cores",
            "2",
            "--golden-of-each-device",
        ],
        [
            "--devices",
            "17",
            "--merge",
            "90000",
            "--disk",
            "0.5",
            "--link",
            "1",
            "--kernel",
            "0.1",
            "--pair-ms",
            "2",
            "--store",
            "500",
        ],
    ],
)
def test_simulated_seconds_follow_from_the_formulas(options):
    document = simulated(*options)
    given, found = document["given"], document["found"]
    devices, steps, ops, size = (
        given["devices"],
        given["steps"],
        given["ops"],
        given["megabytes"] * 10**6,
    )
    hosts = devices // given["per_host"] + bool(devices % given["per_host"])
    # The busiest host, pair by pair.
    reads = compares = stores = 0.0
    for device in range(min(devices, given["per_host"])):
        for _ in range(steps):
            reads += ops * size / (given["disk"] * 10**9)
            if given["golden_of_each_device"] or device == 0:
                reads += ops * size / (given["disk"] * 10**9)
            compares += (
                ops * (size / (given["kernel"] * 10**9) + given["pair_ms"] / 1000) / given["cores"]
            )
            stores += ops * given["rows"] / given["store"]
    merges = devices * steps * ops * given["rows"] / given["merge"]
    assert found["hosts"] == hosts and found["pairs"] == devices * steps * ops
    assert found["host_read_s"] == pytest.approx(reads) and found[
        "host_compare_s"
    ] == pytest.approx(compares)
    assert found["host_store_s"] == pytest.approx(stores) and found["merge_s"] == pytest.approx(
        merges
    )
    assert found["total_s"] == pytest.approx(max(reads, compares, stores, merges))
    sets = devices if given["golden_of_each_device"] else hosts
    assert found["one_link_s"] == pytest.approx(
        (devices + sets) * steps * ops * size / (given["link"] * 10**9)
    )
    assert found["scheduler_s"] == pytest.approx(devices * steps * given["task_ms"] / 1000)


def test_the_page_shows_what_the_simulation_prints():
    text = subprocess.run(
        [sys.executable, SCRIPT], stdout=subprocess.PIPE, universal_newlines=True, check=True
    ).stdout
    with open(
        os.path.join(os.path.dirname(SCRIPT), "..", "docs", "design", "scale.md"), encoding="utf-8"
    ) as stream:
        assert "```text\n%s```\n" % text in stream.read()


def test_rates_of_this_machine_can_be_measured():
    given = simulated("--measure")["given"]
    assert all(given[name] > 0 for name in ("kernel", "store", "merge"))


def test_a_rate_of_zero_is_refused():
    done = subprocess.run(
        [sys.executable, SCRIPT, "--disk", "0"], stderr=subprocess.PIPE, universal_newlines=True
    )
    assert done.returncode == 2 and "more than 0" in done.stderr
