"""The size of several entries of dump_list together, against a plain count, and that of a training,
against its dump.
"""

from __future__ import annotations

import glob
import json
import os
import struct
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from in_process import run_here

import goldwatch.config.models
from goldwatch.config.bytes_per_step import HEADER_BYTES
from goldwatch.config.check import check_file
from goldwatch.config.dump_size_rules import acl_size
from goldwatch.config.models import load_models
from goldwatch.dumps.dump_file import DumpFile

NAMES = ["op%d" % number for number in range(12)]
DESC = {"dtype": "DT_FLOAT", "shape": {"dim": [4]}}


def model(folder, count):
    ops = [
        {"name": "op%d" % number, "type": "Relu", "id": number, "output_desc": [DESC]}
        for number in range(count)
    ]
    path = folder / "model.json"
    path.write_text(json.dumps({"name": "net", "graph": [{"name": "net", "op": ops}]}))
    return str(path)


names = st.sampled_from(NAMES + ["nothing"])
entries = st.fixed_dictionaries(
    {},
    optional={
        "layer": st.lists(names, max_size=4),
        "opname_range": st.lists(st.fixed_dictionaries({"begin": names, "end": names}), max_size=3),
    },
)


def dumped(entry):
    """Return the numbers of the ops that one entry dumps, op by op."""
    chosen = [name for name in NAMES if not entry.get("layer") or name in entry["layer"]]
    if entry.get("opname_range"):
        known = [pair for pair in entry["opname_range"] if "nothing" not in pair.values()]
        inside = [range(int(pair["begin"][2:]), int(pair["end"][2:]) + 1) for pair in known]
        chosen = [name for name in chosen if any(int(name[2:]) in numbers for numbers in inside)]
    return set(chosen)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(dump_list=st.lists(entries, max_size=4))
def test_ops_of_several_dump_list_entries_are_counted_once(tmp_path_factory, dump_list):
    models = load_models([model(tmp_path_factory.mktemp("m"), len(NAMES))])
    size = acl_size({"dump": {"dump_list": dump_list}}, models)
    assert size.ops == len(set().union(*(dumped(entry) for entry in dump_list)))


def test_many_dump_list_entries_do_not_search_the_model_each(tmp_path, folder, monkeypatch):
    om = model(tmp_path, 5000)
    path = tmp_path / "acl.json"
    for entry in ({"layer": ["op5"]}, {}, {"opname_range": [{"begin": "op5", "end": "op4990"}]}):
        path.write_text(
            json.dumps(
                {"dump": {"dump_path": folder, "dump_level": "op", "dump_list": [entry] * 5000}}
            )
        )
        looked_at = []
        monkeypatch.setattr(goldwatch.config.models, "no_dump_reason", looked_at.append)
        check_file(str(path), [om])
        # A walk through the model for every entry would look at 25 million ops.
        assert len(looked_at) < 4 * 5000, entry


@pytest.mark.parametrize("form", ["acl", "estimator", "session", "tf2", "npu-json"])
def test_new_and_check_estimate_what_the_models_of_a_training_dump(form, tmp_path):
    """Settings of TensorFlow dump all graphs, an acl.json the one that it names."""
    run_here([sys.executable, "-m", "goldwatch.testing", "train", "run"], tmp_path)
    payload, tensors = 0, 0
    pattern = "*_11" if form == "acl" else "*"
    for path in glob.glob(str(tmp_path / "run/dump/*/0" / pattern / "*/1/*")):
        dump = DumpFile.open(path)
        with open(path, "rb") as stream:
            (header,) = struct.unpack("<Q", stream.read(8))
        payload += os.path.getsize(path) - 8 - header
        tensors += len(dump.inputs) + len(dump.outputs)
    expected = payload + HEADER_BYTES * tensors
    words = ["--om", "run/graphs", "--devices", "4", "--elsewhere"]
    new = ["goldwatch", "config", "new", "--for", form, "--mode", "all", "--step", "0-2"]
    name = "made.json" if form in ("acl", "npu-json") else "made.py"
    written = run_here([*new, *words, "--dump-path", "/data", "-o", name], tmp_path)
    checked = run_here(["goldwatch", "config", "check", name, *words], tmp_path)
    for text in (written.stderr, checked.stdout):
        assert "about %.1f KiB per device and step (" % (expected / 1024) in text, text
        assert "4 devices, 3 steps: %.1f KiB" % (12 * expected / 1024) in text
