"""Small ONNX networks on a stand-in of a device that computes in float16, compared by the
command.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil

import numpy as np
import onnx_models as build
from in_process import run_here
from onnx_device import on_device, write_model

from goldwatch.testing.device_dump import write_files


class OnnxRun:
    """A network in a folder of its own: model, golden data with their manifest, the device's
    dumps.
    """

    def __init__(self, folder):
        self.folder = str(folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def prepare(self, proto, feeds, fused=(), fault=None, device_feeds=None, mode="all"):
        """Write model, om json, dumps and golden data; return the device's model."""
        build.save(pathlib.Path(self.folder) / "m.onnx", proto)
        words = []
        for name, values in feeds.items():
            np.save(self.path(name + ".npy"), values)
            words += ["--input", "%s=%s.npy" % (name, name)]
        made = self.dump(feeds if device_feeds is None else device_feeds, fused, fault, mode)
        shape = ";".join(
            "%s:%s" % (name, ",".join(str(size) for size in values.shape))
            for name, values in feeds.items()
        )
        command = "atc --model=m.onnx --framework=5 --input_shape=%s --input_fp16_nodes=%s" % (
            shape,
            ";".join(feeds),
        )
        write_model(made, self.path("net.json"), command)
        done = run_here(
            [
                "goldwatch",
                "golden",
                "onnx",
                "dump",
                "m.onnx",
                *words,
                "-f",
                "net.json",
                "--all",
                "-o",
                "golden",
            ],
            self.folder,
        )
        assert done.returncode == 0, done.stderr
        return made

    def dump(self, feeds, fused=(), fault=None, mode="all"):
        """Run the device once more."""
        made = on_device(self.path("m.onnx"), feeds, fused, fault)
        shutil.rmtree(self.path("dump"), ignore_errors=True)
        write_files(self.path("dump"), [dump.only(mode) for dump in made.dumps()])
        return made

    def compare(self, *options, force=True):
        """Return (exit code, result.json, all that was said)."""
        words = [
            "goldwatch",
            "compare",
            "dump",
            "golden",
            "-f",
            "net.json",
            "-o",
            "out",
            "--jobs",
            "1",
            *(["--force"] if force else []),
        ]
        done = run_here([*words, *options], self.folder)
        assert "Traceback" not in done.stderr, done.stderr
        text = " ".join((done.stdout + done.stderr).split())
        if not os.path.exists(self.path("out", "result.json")):
            return done.returncode, None, text
        with open(self.path("out", "result.json"), encoding="utf-8") as stream:
            return done.returncode, json.load(stream), text


def float16_values(shape, seed=4):
    """Values that float16 holds."""
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float16).astype(np.float32)
