"""The module acl of the stand-in: error codes, gears, dumps."""

from __future__ import annotations

import host_models
import numpy as np
import pytest
from host_models import acl_json, compile_onnx, dump_names, host_module

from goldwatch.testing.host.host_config import HostConfig


@pytest.fixture
def om(tmp_path):
    return compile_onnx(host_models.conv_net(tmp_path / "net.onnx"), tmp_path / "net.om")


def begun(folder, *faults, **fields):
    acl, _ = host_module(folder, *faults, **fields)
    assert acl.init() == 0 and acl.rt.set_device(0) == 0
    return acl


def test_acl_functions_called_in_the_wrong_order_return_error_codes(tmp_path):
    acl, _ = host_module(tmp_path / "npu", devices=2)
    assert acl.finalize() == 100001 and acl.rt.set_device(0) == 100001
    assert acl.init() == 0 and acl.init() == 100002
    assert acl.rt.malloc(8, 0) == (0, 107002) and acl.mdl.load_from_file("x.om") == (0, 107002)
    assert acl.rt.set_device(2) == 107001 and "invalid device 2" in acl.get_recent_err_msg()
    assert (
        acl.rt.set_device(1) == 0
        and acl.rt.get_device_count() == (2, 0)
        and acl.get_soc_name() == "Ascend310P3"
    )
    assert acl.rt.reset_device(0) == 107001 and acl.rt.reset_device(1) == 0 and acl.finalize() == 0


def test_memory_of_the_device_is_bounded(tmp_path):
    acl = begun(tmp_path / "npu")
    address, code = acl.rt.malloc(8, 0)
    assert code == 0 and acl.rt.malloc(0, 0) == (0, 100000)
    data = acl.util.bytes_to_ptr(b"12345678")
    assert (
        acl.rt.memcpy(address, 8, data, 8, 1) == 0
        and acl.util.ptr_to_bytes(address, 8) == b"12345678"
    )
    assert acl.rt.memcpy(address, 4, data, 8, 1) == 107000  # more than there is room for
    assert acl.rt.memcpy(address, 64, data, 64, 1) == 107000  # beyond what was allocated
    assert acl.rt.free(address) == 0 and acl.rt.free(address) == 107000


def test_acl_init_checks_its_configuration(tmp_path):
    for text, code in (
        ("{", 100006),
        ('{"dump": {"dump_list": [{"model_name": "net"}], "dump_path": "/none"}}', 100009),
    ):
        (tmp_path / "acl.json").write_text(text)
        assert host_module(tmp_path / "npu")[0].init(str(tmp_path / "acl.json")) == code
    assert host_module(tmp_path / "npu")[0].init(str(tmp_path / "none.json")) == 100003
    (tmp_path / "acl.json").write_text("{}")
    assert host_module(tmp_path / "npu")[0].init(str(tmp_path / "acl.json")) == 0


def test_models_that_cannot_be_loaded_return_error_codes(tmp_path, om):
    assert begun(tmp_path / "npu").mdl.load_from_file(str(tmp_path / "none.om")) == (0, 145002)
    (tmp_path / "real.om").write_bytes(b"IMOD" + bytes(300))
    assert begun(tmp_path / "npu").mdl.load_from_file(str(tmp_path / "real.om")) == (0, 100012)
    other = begun(tmp_path / "npu", soc="Ascend910B1")
    assert (
        other.mdl.load_from_file(om) == (0, 507008) and "Ascend910B1" in other.get_recent_err_msg()
    )
    assert begun(tmp_path / "npu", "other-chip").mdl.load_from_file(om) == (0, 507008)


def test_the_model_description_gives_inputs_and_outputs(tmp_path, om):
    acl = begun(tmp_path / "npu")
    model, code = acl.mdl.load_from_file(om)
    desc = acl.mdl.create_desc()
    assert code == 0 and acl.mdl.get_desc(desc, 7) == 100011 and acl.mdl.get_desc(desc, model) == 0
    assert (acl.mdl.get_num_inputs(desc), acl.mdl.get_num_outputs(desc)) == (1, 1)
    assert acl.mdl.get_input_dims(desc, 0) == (
        {"name": "x", "dimCount": 4, "dims": [1, 3, 8, 8]},
        0,
    )
    assert acl.mdl.get_output_dims(desc, 0)[0]["dims"] == [1, 10]
    assert (
        acl.mdl.get_input_size_by_index(desc, 0) == 768
        and acl.mdl.get_output_size_by_index(desc, 0) == 40
    )
    assert acl.mdl.get_input_data_type(desc, 0) == 0 and acl.mdl.get_input_format(desc, 0) == 0
    assert acl.mdl.get_input_index_by_name(desc, "z")[1] == 100000
    assert acl.mdl.unload(model) == 0 and acl.mdl.unload(model) == 100011


def buffer(acl, data):
    address, code = acl.rt.malloc(len(data), 0)
    assert (
        code == 0
        and acl.rt.memcpy(address, len(data), acl.util.bytes_to_ptr(data), len(data), 1) == 0
    )
    return acl.create_data_buffer(address, len(data))


@pytest.mark.parametrize(
    "inputs, code",
    [
        ([bytes(768)], 0),
        ([bytes(100)], 145000),
        ([bytes(2000)], 145000),
        ([bytes(768)] * 2, 145000),
    ],
)
def test_inputs_of_wrong_number_or_size_return_error_codes(tmp_path, om, inputs, code):
    acl = begun(tmp_path / "npu")
    model, _ = acl.mdl.load_from_file(om)
    given, wanted = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    for data in inputs:
        assert acl.mdl.add_dataset_buffer(given, buffer(acl, data)) == (given, 0)
    acl.mdl.add_dataset_buffer(wanted, buffer(acl, bytes(40)))
    assert acl.mdl.execute(model, given, wanted) == code
    assert acl.mdl.set_dynamic_batch_size(model, given, 1, 2) == 100019


def test_a_gear_must_be_set_before_execution(tmp_path):
    options = {"input_shape": "x:-1,3,8,8;y0:-1,10", "dynamic_batch_size": "1,2"}
    om = compile_onnx(
        host_models.dynamic_net(tmp_path / "dyn.onnx"), tmp_path / "dyn.om", **options
    )
    acl = begun(tmp_path / "npu")
    model, _ = acl.mdl.load_from_file(om)
    desc, given, wanted = acl.mdl.create_desc(), acl.mdl.create_dataset(), acl.mdl.create_dataset()
    acl.mdl.get_desc(desc, model)
    assert (
        acl.mdl.get_num_inputs(desc) == 3
        and acl.mdl.get_input_name_by_index(desc, 2) == "ascend_mbatch_shape_data"
    )
    assert acl.mdl.get_dynamic_batch(desc) == ({"batchCount": 2, "batch": [1, 2]}, 0)
    # The sizes are those of the largest gear.
    assert (
        acl.mdl.get_input_size_by_index(desc, 0) == 2 * 768
        and acl.mdl.get_output_size_by_index(desc, 0) == 80
    )
    for size in (768, 40, 4):
        acl.mdl.add_dataset_buffer(given, buffer(acl, bytes(size)))
    acl.mdl.add_dataset_buffer(wanted, buffer(acl, bytes(80)))
    assert acl.mdl.execute(model, given, wanted) == 145000  # no gear was told
    assert acl.mdl.set_dynamic_batch_size(model, given, 2, 3) == 145013
    assert (
        acl.mdl.set_dynamic_batch_size(model, given, 0, 1) == 100000
    )  # not the input that tells the gear
    assert acl.mdl.set_dynamic_hw_size(model, given, 2, 8, 8) == 100019
    assert (
        acl.mdl.set_dynamic_batch_size(model, given, 2, 1) == 0
        and acl.mdl.execute(model, given, wanted) == 0
    )
    assert acl.mdl.get_cur_output_dims(desc, 0)[0]["dims"] == [1, 10]


def run_with(tmp_path, om, config, *faults):
    acl, _ = host_module(tmp_path / "npu", *faults)
    assert acl.init(config) == 0 and acl.rt.set_device(0) == 0
    model, code = acl.mdl.load_from_file(om)
    assert code == 0
    given, wanted = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    acl.mdl.add_dataset_buffer(given, buffer(acl, np.full((1, 3, 8, 8), 0.5, np.float32).tobytes()))
    acl.mdl.add_dataset_buffer(wanted, buffer(acl, bytes(40)))
    assert acl.mdl.execute(model, given, wanted) == 0


def test_ops_are_dumped_as_the_configuration_says(tmp_path, om):
    run_with(tmp_path, om, acl_json(tmp_path / "acl.json", tmp_path / "all", "net"))
    types = [name.split(".")[0] for name in dump_names(tmp_path / "all")]
    assert sorted(types) == sorted(
        ["Cast", "Cast", "Conv2D", "MatMulV2", "MaxPoolV3", "SoftmaxV2"] + ["TransData"] * 4
    )
    run_with(
        tmp_path, om, acl_json(tmp_path / "acl.json", tmp_path / "some", "net", layer=["fc", "bn1"])
    )
    assert [name.split(".")[1] for name in dump_names(tmp_path / "some")] == ["conv1relu1", "fc"]
    run_with(tmp_path, om, acl_json(tmp_path / "acl.json", tmp_path / "none", "resnet50"))
    assert dump_names(tmp_path / "none") == []  # the configuration means another model
    run_with(
        tmp_path, om, acl_json(tmp_path / "acl.json", tmp_path / "stats", "net", dump_data="stats")
    )
    assert (
        all(name.endswith(".csv") for name in dump_names(tmp_path / "stats"))
        and len(dump_names(tmp_path / "stats")) == 10
    )


def test_each_execution_dumps_into_its_own_step_folder(tmp_path, om):
    for step, folders in ((None, ["0", "1", "2"]), ("1|2-5", ["1", "2"])):
        more = {} if step is None else {"dump_step": step}
        config = acl_json(tmp_path / "acl.json", tmp_path / ("dump%s" % step), "net", **more)
        host_models.run_ais_bench(
            tmp_path / "npu", "--model", om, "--loop", "2", "--acl_json_path", config
        )
        (place,) = (tmp_path / ("dump%s" % step)).glob("*/0/net/1")
        assert (
            sorted(entry.name for entry in place.iterdir()) == folders
        )  # the warm-up is the first run


def test_a_lost_dump_is_not_written(tmp_path, om):
    run_with(
        tmp_path, om, acl_json(tmp_path / "acl.json", tmp_path / "dump", "net"), "lost-dump=pool1"
    )
    names = dump_names(tmp_path / "dump")
    assert len(names) == 9 and not any(".pool1." in name for name in names)


def test_a_lost_dump_is_matched_by_the_name_of_its_file():
    (fault,) = HostConfig(faults=("lost-dump=conv/2",)).file_faults()
    assert fault.match == "conv_2"
