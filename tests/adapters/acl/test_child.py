"""The child process that runs an om through pyACL, with the stand-in's module acl and with faulty
ones.
"""

from __future__ import annotations

import ctypes
import sys

import host_models
import numpy as np
import pytest
from host_models import compile_onnx, golden, host_module

from goldwatch.adapters.acl import runner as front
from goldwatch.adapters.acl.child import work
from goldwatch.adapters.acl.error_codes import explained
from goldwatch.base.errors import EnvironmentProblem, InputError, UsageError


class Listener:
    def __init__(self):
        self.messages = {}

    def send(self, **messages):
        self.messages.update(messages)


@pytest.fixture
def acl(tmp_path, monkeypatch):
    module, _ = host_module(tmp_path / "npu")
    monkeypatch.setitem(sys.modules, "acl", module)
    return module


@pytest.fixture
def job(tmp_path):
    om = compile_onnx(host_models.conv_net(tmp_path / "net.onnx"), tmp_path / "net.om")
    np.random.RandomState(0).rand(1, 3, 8, 8).astype(np.float32).tofile(str(tmp_path / "x.bin"))
    (tmp_path / "out").mkdir()
    given = front._parser().parse_args(
        ["--model", om, "--input", str(tmp_path / "x.bin"), "--output", str(tmp_path / "out")]
    )
    return front.job_of(given)


def test_outputs_are_written_as_npy_files_in_their_shapes(acl, job, tmp_path):
    listener = Listener()
    assert work(job, listener) == 0
    assert listener.messages["result"] == {
        "outputs": [str(tmp_path / "out" / "output_0.npy")],
        "soc": "Ascend310P3",
    }
    x = np.fromfile(str(tmp_path / "x.bin"), np.float32).reshape(1, 3, 8, 8)
    made = np.load(str(tmp_path / "out" / "output_0.npy"))
    assert made.shape == (1, 10) and np.allclose(
        made, golden(tmp_path / "net.onnx", {"x": x})[0], atol=2e-3
    )
    # Everything was given back: the same process may begin anew.
    assert acl.init() == 0 and acl.rt.set_device(0) == 0


def test_om_runs_on_zeros_when_no_input_files_are_given(acl, job, tmp_path):
    assert work({**job, "inputs": []}, Listener()) == 0
    zeros = golden(tmp_path / "net.onnx", {"x": np.zeros((1, 3, 8, 8), np.float32)})[0]
    assert np.allclose(np.load(str(tmp_path / "out" / "output_0.npy")), zeros, atol=2e-3)


def test_pyacl_without_the_functions_for_bytes_gives_the_same_output(acl, job, tmp_path):
    work(job, Listener())
    new = np.load(str(tmp_path / "out" / "output_0.npy"))
    (tmp_path / "out" / "output_0.npy").unlink()
    kept = []

    def numpy_to_ptr(array):
        kept.append(array)
        return array.ctypes.data

    def ptr_to_numpy(address, shape, kind):
        return np.frombuffer(ctypes.string_at(address, shape[0]), np.uint8)

    acl.util.numpy_to_ptr, acl.util.ptr_to_numpy = numpy_to_ptr, ptr_to_numpy
    del acl.util.bytes_to_ptr, acl.util.ptr_to_bytes
    del acl.get_recent_err_msg, acl.get_soc_name, acl.rt.get_run_mode
    work(job, Listener())
    assert np.array_equal(np.load(str(tmp_path / "out" / "output_0.npy")), new)


@pytest.mark.parametrize(
    "change, kind, said",
    [
        (
            {"device": 3},
            EnvironmentProblem,
            r"set_device failed with 107001 \(ACL_ERROR_RT_INVALID_DEVICEID\): there is no "
            r"such device",
        ),
        (
            {"config": "/none.json"},
            EnvironmentProblem,
            r"acl.init failed with 100003 \(ACL_ERROR_INVALID_FILE\)",
        ),
        (
            {"model": "/none.om"},
            EnvironmentProblem,
            r"acl.mdl.load_from_file failed with 145002 \(ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID\)",
        ),
        ({"inputs": ["a.bin", "b.bin"]}, InputError, "2 input files, the om has 1 inputs: x"),
        ({"shape": {"z": [1, 2]}}, InputError, "the om has no input z"),
    ],
)
def test_a_job_that_cannot_run_names_what_is_wrong_and_hints(acl, job, change, kind, said):
    with pytest.raises(kind, match=said) as caught:
        work({**job, **change}, Listener())
    assert caught.value.hint


def test_a_batch_is_refused_for_an_om_without_dynamic_batch(acl, job):
    with pytest.raises(EnvironmentProblem, match="get_input_index_by_name failed with 100000"):
        work({**job, "batch": 2}, Listener())


def test_an_input_of_another_size_is_refused_with_both_sizes(acl, job, tmp_path):
    (tmp_path / "x.bin").write_bytes(bytes(100))
    with pytest.raises(InputError, match=r"x.bin has 100 bytes, the om wants 768 \(1,3,8,8\)"):
        work(job, Listener())


def test_an_output_of_unknown_size_needs_output_bytes(acl, job, tmp_path):
    om = compile_onnx(
        host_models.dynamic_net(tmp_path / "dyn.onnx"),
        tmp_path / "dyn.om",
        input_shape="x:-1,3,-1,-1;y0:-1,10",
    )
    shape = {"x": [2, 3, 5, 7], "y0": [2, 10]}
    with pytest.raises(InputError, match="does not tell how large its output 0 is"):
        work({**job, "model": om, "inputs": [], "shape": shape}, Listener())
    assert (
        work({**job, "model": om, "inputs": [], "shape": shape, "output_bytes": [4096]}, Listener())
        == 0
    )
    assert np.load(str(tmp_path / "out" / "output_0.npy")).shape == (2, 10)


def test_a_missing_acl_module_and_failing_acl_functions_are_named(acl, job, monkeypatch):
    monkeypatch.setattr(acl.mdl, "create_dataset", lambda: 0)
    with pytest.raises(EnvironmentProblem, match="acl.mdl.create_dataset made nothing"):
        work(job, Listener())
    monkeypatch.setattr(acl.mdl, "execute", lambda *arguments: 424242)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "acl", acl)
    monkeypatch.setattr(acl.mdl, "execute", lambda *arguments: 424242)
    with pytest.raises(
        EnvironmentProblem,
        match="acl.mdl.execute failed with 424242: a code that the public headers do not have",
    ):
        work(job, Listener())
    monkeypatch.delattr(acl.mdl, "load_from_file")
    with pytest.raises(
        EnvironmentProblem, match="this version of pyACL has no acl.mdl.load_from_file"
    ):
        work(job, Listener())
    monkeypatch.setitem(sys.modules, "acl", None)
    with pytest.raises(EnvironmentProblem, match="the module acl cannot be imported"):
        work(job, Listener())


def test_a_failure_of_finalize_is_reported_but_hides_no_earlier_one(acl, job, monkeypatch):
    monkeypatch.setattr(acl, "finalize", lambda: 507019)
    with pytest.raises(
        EnvironmentProblem,
        match=r"acl.finalize failed with 507019 \(ACL_ERROR_RT_AICPU_DATADUMP_RSP_ERR\)",
    ):
        work(job, Listener())
    monkeypatch.setattr(acl.mdl, "execute", lambda *arguments: 507011)
    acl.rt.reset_device(0)
    monkeypatch.setattr(acl, "init", lambda *arguments: 0)
    with pytest.raises(EnvironmentProblem, match="acl.mdl.execute failed with 507011"):
        work(job, Listener())


def test_acl_error_codes_are_explained_by_name_and_hint():
    assert (
        explained(507015).name == "ACL_ERROR_RT_AICORE_EXCEPTION"
        and "npu-smi" in explained(107001).hint
    )
    assert explained(145000).words == "a parameter, such as the size of an input, is wrong"
    assert explained(1).name == "" and explained(1).hint


def test_runner_options_that_are_no_numbers_are_refused(tmp_path):
    for words in (["--dymHW", "8,x"], ["--dymShape", "x:1,n"], ["--outputSize", "much"]):
        with pytest.raises(UsageError, match="holds no number"):
            front.run(["--model", "m.om", "--output", str(tmp_path), *words])
