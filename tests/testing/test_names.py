"""Names, places and special files of the stand-in, against the documents."""

from __future__ import annotations

import os

import numpy as np
import pytest

from goldwatch.base.errors import UsageError
from goldwatch.base.naming import hash_digits, parse_dump_name, read_mapping
from goldwatch.dumps import DumpFile, DumpTree, probe
from goldwatch.dumps.write import TensorData
from goldwatch.model.read_model import load_model
from goldwatch.testing import (
    DeviceDump,
    DeviceModel,
    DeviceOp,
    DeviceTensor,
    DumpServer,
    Place,
    dump_name,
    overflow_record,
    statistics,
    write_files,
)

TIME = 1767323045000000


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"generation": "task"}, "Conv2D.res_a_b_c.7.1767323045000000"),
        ({}, "Conv2D.res_a_b_c.7.0.1767323045000000"),
        ({"stream_id": 12}, "Conv2D.res_a_b_c.7.12.1767323045000000"),
        ({"stream_id": 3, "stats": True}, "Conv2D.res_a_b_c.7.3.1767323045000000.csv"),
        (
            {"generation": "ffts+", "stream_id": 3, "context_id": 5, "thread_id": 1},
            "Conv2D.res_a_b_c.7.3.1767323045000000.4.5.1",
        ),
        (
            {
                "generation": "ffts+",
                "stream_id": 3,
                "context_id": 5,
                "thread_id": 1,
                "device_id": 2,
            },
            "Conv2D.res_a_b_c.7.3.1767323045000000.4.5.1.2",
        ),
    ],
)
def test_dump_names_of_every_generation_are_made_and_parsed(options, expected) -> None:
    name = dump_name("Conv2D", "res.a/b c", 7, TIME, **options)
    assert name == expected
    parsed = parse_dump_name(name)
    assert (parsed.op_type, parsed.op_name, parsed.task_id, parsed.timestamp_us) == (
        "Conv2D",
        "res_a_b_c",
        7,
        TIME,
    )
    assert parsed.device_id == options.get("device_id") and parsed.kind == (
        "stats" if options.get("stats") else "dump"
    )


def test_an_unknown_generation_is_refused() -> None:
    with pytest.raises(UsageError, match="generation"):
        dump_name("A", "b", 1, TIME, "7.0")


@pytest.mark.parametrize(
    "place, folder",
    [
        (Place(model="my.net v1"), "20260102030405/0/my_net_v1/1/0"),
        (
            Place("20250102030405", 3, "ge_default_20200808163719_121", 11, 42),
            "20250102030405/3/ge_default_20200808163719_121/11/42",
        ),
        (Place(device=1), "20260102030405/1"),
        (Place(None, 2, op="a/b"), "2/a_b"),
    ],
)
def test_folder_names_of_places_are_as_documented(place, folder) -> None:
    assert place.folder() == folder.replace("/", os.sep)


@pytest.mark.parametrize("generation", ["task", "stream", "ffts+"])
@pytest.mark.parametrize("version", [1, 2])
def test_trees_of_every_generation_are_read_back(tmp_path, model, generation, version) -> None:
    places = [
        (time, device, step)
        for time in ("20260102030405", "20260102030406")
        for device in (0, 1)
        for step in (9, 10)
    ]
    for time, device, step in places:
        model.write_tree(
            str(tmp_path),
            time,
            device,
            model_id=4,
            step=step,
            generation=generation,
            version=version,
        )
    tree = DumpTree(str(tmp_path))
    found = [
        (
            step_folder.place.device,
            step_folder.place.model,
            step_folder.place.model_id,
            step_folder.place.step,
        )
        for step_folder in tree.step_folders
    ]
    assert found == [
        ("0", "net", "4", "9"),
        ("0", "net", "4", "10"),
        ("1", "net", "4", "9"),
        ("1", "net", "4", "10"),
    ]
    assert {step_folder.place.time for step_folder in tree.step_folders} == {
        "20260102030406"
    } and len(tree.left) == 4
    for step_folder in tree.step_folders:
        assert len(step_folder.files) == len(model.dumped_ops())
        for op, entry in zip(model.dumped_ops(), step_folder.files):
            file = DumpFile.open(entry.path)
            assert file.version == version and file.op_name == op.name
            assert (file.tensor("output", 0).array() == op.outputs[0].stored()).all()


def test_a_run_of_single_ops_has_neither_model_nor_step(tmp_path) -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    new = DeviceDump(
        Place(device=3).folder(),
        dump_name("Add", "add1", 1, TIME),
        [values],
        [values + 1],
        op_name="add1",
    )
    old = DeviceDump(
        Place(None, 3, op="add1").folder(),
        dump_name("Add", "add1", 1, TIME, "task"),
        [values],
        [values + 1],
    )
    for number, dump in enumerate((new, old)):
        DumpServer(str(tmp_path / str(number)), [dump]).run()
        (step_folder,) = DumpTree(str(tmp_path / str(number))).step_folders
        assert (step_folder.place.device, step_folder.place.model, step_folder.place.step) == (
            "3",
            None,
            None,
        )
        assert (
            DumpFile.open(step_folder.files[0].path).tensor("output", 0).array() == values + 1
        ).all()


def test_an_overflow_record_is_written_and_recognised(tmp_path) -> None:
    dump = overflow_record(Place(model="net"), 77, TIME, data=b"\x01\x02")
    assert dump.name == "Opdebug.Node_OpDebug.77.0.1767323045000000"
    assert (
        overflow_record(Place(model="net"), 77, TIME, None).name
        == "Opdebug.Node_OpDebug.77.1767323045000000"
    )
    assert parse_dump_name(dump.name).kind == "overflow"
    (path,) = write_files(str(tmp_path), [dump])
    assert probe(path).state == "complete"
    assert bytes(DumpFile.open(path).tensor("output", 0).array()) == b"\x01\x02" + b"\0" * 2046
    (step_folder,) = DumpTree(str(tmp_path)).without_dumps
    assert len(step_folder.overflow) == 1


def test_a_statistics_file_is_written_and_recognised(tmp_path) -> None:
    name = dump_name("Conv2D", "conv1", 1, TIME, stats=True)
    row = ("Output", 0, 3840, "DT_FLOAT16", "NC1HWC0", "2x2x6x5x16", 1.5, -1.5, 0.25, 1920, 0, 0, 0)
    (path,) = write_files(str(tmp_path), [statistics(Place(model="net").folder(), name, [row])])
    with open(path) as stream:
        lines = stream.read().splitlines()
    assert lines[0].split(",") == (
        "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg "
        "Value,Count,Nan Count,Negative Inf Count,"
        "Positive Inf Count"
    ).split(",")
    assert lines[1:] == ["Output,0,3840,DT_FLOAT16,NC1HWC0,2x2x6x5x16,1.5,-1.5,0.25,1920,0,0,0"]
    assert parse_dump_name(os.path.basename(path)).kind == "stats"


@pytest.mark.parametrize("length, hashed", [(255, False), (256, True), (300, True)])
def test_names_of_up_to_255_bytes_are_not_hashed(tmp_path, length, hashed) -> None:
    name = dump_name("Conv2D", "n" * (length - len("Conv2D..1.0.1767323045000000")), 1, TIME)
    dump = DeviceDump("0", name, [], [np.zeros(3, np.float32)])
    assert len(name) == length
    (path,) = write_files(str(tmp_path), [dump])
    assert os.path.basename(path) == (hash_digits(name) if hashed else name)
    assert os.path.exists(str(tmp_path / "0" / "mapping.csv")) == hashed
    if hashed:
        assert read_mapping(str(tmp_path / "0" / "mapping.csv")) == {hash_digits(name): name}
    with pytest.raises(FileExistsError):
        write_files(str(tmp_path), [dump])


def test_buffers_and_spaces_follow_the_tensors(tmp_path) -> None:
    dump = DeviceDump(
        "0",
        "Conv2D.a.1.0.1767323045000000",
        [np.ones(2, np.float16)],
        [np.zeros(1, np.int64)],
        [b"buffer"],
        [b"space"],
    )
    (path,) = write_files(str(tmp_path), [dump])
    file = DumpFile.open(path)
    assert probe(path).state == "complete" and dump.content().endswith(b"\0" * 8 + b"bufferspace")
    assert [region.size_bytes for region in file.buffers + file.spaces] == [6, 5]


def test_input_addresses_are_those_of_the_producers_outputs(model) -> None:
    dumps = list(model.dumps(first_address=0x1000))
    seen = {}
    for op, dump in zip(model.dumped_ops(), dumps):
        for source, tensor in zip(op.inputs, dump.inputs):
            assert tensor.address == seen.get(source, tensor.address)
        for index, tensor in enumerate(dump.outputs):
            assert tensor.address % 512 == 0 and tensor.address not in seen.values()
            seen[op.name, index] = tensor.address
    assert all(tensor.address == 0 for dump in model.dumps() for tensor in dump.outputs)


def test_omitting_a_tensor_of_raw_bytes_needs_its_shape() -> None:
    raw = TensorData(b"\0" * 4, "float16")
    with pytest.raises(UsageError, match="shape"):
        DeviceDump("0", "A.b.1.2", [raw]).without("input:0")
    left = DeviceDump("0", "A.b.1.2", [TensorData(b"\0" * 4, "float16", shape=(2,))]).without(
        "input:0"
    )
    assert (
        left.inputs[0].size_bytes == 4
        and len(left.content())
        == len(DeviceDump("0", "A.b.1.2", [np.zeros(2, "f2")]).content()) - 4
    )
    for wrong in ("input:1", "output:0", "space:0", "input", "input:-1"):
        with pytest.raises(UsageError):
            left.without(wrong)


def test_dumps_can_be_limited_to_inputs_or_outputs() -> None:
    dump = DeviceDump("0", "A.b.1.2", [np.zeros(2)], [np.ones(3)])
    assert (len(dump.only("input").inputs), len(dump.only("input").outputs)) == (1, 0)
    assert (len(dump.only("output").inputs), len(dump.only("output").outputs)) == (0, 1)
    assert dump.only("all") == dump


def test_stored_shapes_are_known_without_computing() -> None:
    for shape, layout, origin, dtype in (
        ((2, 19, 6, 5), "NC1HWC0", "NCHW", "f2"),
        ((2, 40, 6, 5), "NC1HWC0", "NCHW", "i1"),
        ((18, 35), "FRACTAL_NZ", "ND", "f2"),
        ((4, 18, 35), "FRACTAL_NZ", "ND", "f4"),
        ((33, 17, 3, 3), "FRACTAL_Z", "NCHW", "f2"),
        ((), "ND", "ND", "f4"),
        ((0, 3), "ND", "ND", "f4"),
    ):
        tensor = DeviceTensor(np.zeros(shape, dtype), layout, origin)
        assert tensor.stored_shape() == tensor.stored().shape


def test_json_and_text_of_a_graph_load_as_the_same_graph(tmp_path, model) -> None:
    model.add(
        DeviceOp(
            'odd "name"\\ with\nbreaks é',
            "IteratorV2",
            (("op/1", 0),),
            (DeviceTensor(np.zeros((), np.float32)),),
            ("a", "b"),
        )
    )
    from_json = load_model(model.write_json(str(tmp_path / "net.json")))
    from_text = load_model(model.write_ge_text(str(tmp_path / "ge_proto_00000000_Build.txt")))
    assert from_json.ops == from_text.ops and len(from_json.ops) == len(model.ops)
    assert from_json.name == "net" and from_text.graph_names == ("net",)


def test_output_returns_the_tensor_of_an_op() -> None:
    model = DeviceModel("net")
    op = model.add(DeviceOp("a", "Add", (), (DeviceTensor(np.zeros(1)), DeviceTensor(np.ones(2)))))
    assert model.output("a", 1) is op.outputs[1]


@pytest.mark.parametrize(
    "dtype", ["uint16", "uint32", "uint64", "complex64", "complex128", "float64", "bool"]
)
def test_the_json_names_every_element_type(tmp_path, dtype) -> None:
    model = DeviceModel("net")
    model.add(DeviceOp("a", "Add", (), (DeviceTensor(np.ones(3, dtype), "ND", "ND", "a"),)))
    graph = load_model(model.write_json(str(tmp_path / "model.json")))
    assert graph.ops[0].output_descs[0].size_bytes == 3 * np.dtype(dtype).itemsize
