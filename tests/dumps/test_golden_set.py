from __future__ import annotations

import json
import os
from typing import Any, Callable

import numpy as np
import pytest

from goldwatch.base.errors import FormatError, MissingPath, NotComparable
from goldwatch.base.naming import mapping_line, sanitise_golden
from goldwatch.dumps import GoldenSet, TensorData, write_dump
from goldwatch.dumps.place import Place

Touch = Callable[[str], str]
T0, T1 = "1600000000000000", "1600000000000001"


def save(path: Any, array: Any) -> str:
    os.makedirs(os.path.dirname(str(path)), exist_ok=True)
    with open(str(path), "wb") as stream:
        np.save(stream, array)
    return str(path)


def test_golden_data_of_npy_files_are_found_by_op_and_output(tmp_path: Any) -> None:
    save(tmp_path / ("conv1.0.%s.npy" % T0), np.float32([1]))
    save(tmp_path / ("conv1.0.%s.npy" % T1), np.float32([2]))
    save(tmp_path / "below" / ("a_b.1.%s.npy" % T0), np.float32([3]))
    (tmp_path / "manifest.json").write_text("{}")
    golden = GoldenSet(str(tmp_path))
    assert (golden.kind, len(golden), golden.collisions, golden.unresolved) == ("npy", 2, [], [])
    entry = golden.find("conv1", 0)
    assert (
        entry is not None
        and entry.timestamp_us == int(T1)
        and golden.tensor(entry).array().tolist() == [2]
    )
    entry = golden.find("a/b", 1)
    assert entry is not None and entry.rel == os.path.join("below", "a_b.1.%s.npy" % T0)
    assert golden.load(entry)[1] is None
    assert (
        golden.find("a/b", 0) is None
        and golden.find("conv1", 0, "input") is None
        and golden.find("absent", 0) is None
    )
    assert "golden: 2 tensors of 2 ops" in golden.notes


@pytest.mark.parametrize("suffix", ["pb", "quant"])
@pytest.mark.parametrize("version", [1, 2])
def test_golden_data_of_dump_containers_are_found_by_op_and_output(
    tmp_path: Any, suffix: str, version: int
) -> None:
    path = str(tmp_path / ("conv1.1.%s.%s" % (T0, suffix)))
    write_dump(
        path, [], [TensorData(np.float32([[1, 2]]), format="RESERVED", address=9)], version=version
    )
    golden = GoldenSet(str(tmp_path))
    entry = golden.find("conv1", 1)
    assert golden.kind == "container" and entry is not None
    tensor, address = golden.load(entry)
    assert tensor.array().tolist() == [[1, 2]] and tensor.format == "RESERVED" and address == 9


def test_a_golden_container_without_the_output_is_not_comparable(tmp_path: Any) -> None:
    write_dump(str(tmp_path / ("a.0.%s.pb" % T0)), [np.float32([1])])
    write_dump(str(tmp_path / ("b.2.%s.pb" % T0)), [], [np.float32([1]), np.float32([2])])
    golden = GoldenSet(str(tmp_path))
    for name, index in (("a", 0), ("b", 2)):
        entry = golden.find(name, index)
        assert entry is not None
        with pytest.raises(NotComparable):
            golden.tensor(entry)


def test_dumps_of_another_device_serve_as_golden_data(tmp_path: Any, touch: Touch) -> None:
    old, new = (
        tmp_path / time / "0" / "m" / "1" / "0" for time in ("20230101000000", "20230102000000")
    )
    touch(str(old / ("Conv2D.conv1.1.2." + T0)))
    os.makedirs(str(new))
    write_dump(
        str(new / ("Conv2D.conv1.1.2." + T0)),
        [np.int8([1])],
        [np.int8([2]), TensorData(np.int8([3]), address=4)],
    )
    golden = GoldenSet(str(tmp_path))
    assert (golden.kind, len(golden), len(golden.tree.step_folders), len(golden.tree.left)) == (
        "npu",
        1,
        1,
        1,
    )
    for io, index, value, address in (
        ("input", 0, 1, None),
        ("output", 0, 2, None),
        ("output", 1, 3, 4),
    ):
        entry = golden.find("conv1", index, io)
        assert entry is not None
        tensor, found = golden.load(entry)
        assert (tensor.array().tolist(), found) == ([value], address)
    entry = golden.find("conv1", 5)
    assert entry is not None
    with pytest.raises(NotComparable, match="has no output 5"):
        golden.tensor(entry)
    dump = golden.dumps.find("conv1")
    assert dump is not None and dump.rel.startswith("20230102000000")


def test_mixed_and_empty_golden_folders_are_recognised(tmp_path: Any, touch: Touch) -> None:
    assert GoldenSet(str(tmp_path)).kind == "empty"
    touch(str(tmp_path / ("a.0.%s.npy" % T0)))
    touch(str(tmp_path / ("A.a.1.2." + T0)))
    assert GoldenSet(str(tmp_path)).kind == "mixed"
    with pytest.raises(MissingPath):
        GoldenSet(str(tmp_path / "absent"))


def test_a_golden_name_with_letters_outside_the_rule_is_noted_with_the_right_one(
    tmp_path: Any, touch: Touch
) -> None:
    for name in ("block_(0)", "b$é", "conv 1"):
        touch(str(tmp_path / ("%s.0.%s.npy" % (name, T0))))
    touch(str(tmp_path / "notes (1).npy"))
    assert GoldenSet(str(tmp_path)).notes == [
        "3 files have the name of golden data but for letters outside A-Z a-z 0-9 _ - in the "
        "op's name: "
        "rename b$é.0.%s.npy to b__.0.%s.npy, and the others likewise" % (T0, T0)
    ]


def test_colliding_golden_names_are_reported_and_the_newest_is_taken(
    tmp_path: Any, touch: Touch
) -> None:
    for name in ("bn.1", "bn_1", "other"):
        touch(str(tmp_path / ("%s.0.%s.npy" % (name, T0))))
    touch(str(tmp_path / ("bn_1.0.%s.npy" % T1)))
    golden = GoldenSet(str(tmp_path))
    (collision,) = golden.collisions
    assert (collision.key, collision.index, collision.op_names) == ("bn_1", 0, ("bn.1", "bn_1"))
    assert collision.files[0] == "bn.1.0.%s.npy" % T0
    entries = [golden.find(name, 0) for name in ("bn.1", "bn_1", "bn/1")]
    assert [entry.rel for entry in entries if entry] == [
        "bn.1.0.%s.npy" % T0,
        "bn_1.0.%s.npy" % T1,
        "bn_1.0.%s.npy" % T1,
    ]


def test_hash_names_are_resolved_when_their_mapping_arrives(tmp_path: Any, touch: Touch) -> None:
    long_name = "%s.0.%s.npy" % ("x" * 300, T0)
    golden = GoldenSet(str(tmp_path))
    path = save(tmp_path / "123.npy", np.float32([5]))
    assert not golden.add(path) and not golden.add(path) and golden.unresolved == ["123.npy"]
    mapping = str(tmp_path / "mapping.csv")
    with open(mapping, "w", encoding="utf-8") as stream:
        stream.write(mapping_line("77", "parked-1.0.%s" % T0))
    assert not golden.add(mapping)
    with open(mapping, "a", encoding="utf-8") as stream:
        stream.write(mapping_line("123", long_name))
    assert golden.add(mapping) and golden.unresolved == []
    entry = golden.find("x" * 300, 0)
    assert entry is not None and golden.tensor(entry).array().tolist() == [5]
    # The mapping is there before the file: a key with suffix, a name without.
    with open(mapping, "a", encoding="utf-8") as stream:
        stream.write(mapping_line("88.npy", "op-parked-2.0." + T0))
    assert (
        golden.add(save(tmp_path / "88.npy", np.float32([6])))
        and golden.find("op-parked-2", 0) is not None
    )
    assert not golden.add(str(tmp_path / "88.npy"))
    again = GoldenSet(str(tmp_path))
    assert (
        len(again) == 2
        and again.find("x" * 300, 0) is not None
        and again.find("op-parked-2", 0) is not None
    )


def test_a_broken_mapping_is_noted(tmp_path: Any, touch: Touch) -> None:
    golden = GoldenSet(str(tmp_path))
    golden.add(touch(str(tmp_path / "1.npy")))
    (tmp_path / "mapping.csv").write_text("1,a.0.1.npy\n1,b.0.1.npy\n")
    assert not golden.add(str(tmp_path / "mapping.csv"))
    assert any(
        "mapping.csv cannot be used" in note for note in golden.notes
    ) and golden.unresolved == ["1.npy"]


def test_golden_files_that_appear_later_are_added(tmp_path: Any, touch: Touch) -> None:
    golden = GoldenSet(str(tmp_path))
    path = save(tmp_path / "new" / ("a.0.%s.npy" % T0), np.float32([1]))
    assert golden.add(path) and not golden.add(path)
    assert not golden.add(touch(str(tmp_path / "manifest.json")))
    assert golden.add(touch(str(tmp_path / ("A.a.1.2." + T0))))
    entry = golden.find("a", 0)
    assert entry is not None and entry.rel == os.path.join("new", "a.0.%s.npy" % T0)


def test_npy_is_preferred_among_files_of_the_same_time(tmp_path: Any, touch: Touch) -> None:
    for suffix in ("pb", "npy", "quant"):
        touch(str(tmp_path / ("a.0.%s.%s" % (T0, suffix))))
    entry = GoldenSet(str(tmp_path)).find("a", 0)
    assert entry is not None and entry.path.endswith(".npy")


def test_a_damaged_golden_file_is_an_error_of_that_file_only(tmp_path: Any, touch: Touch) -> None:
    touch(str(tmp_path / ("a.0.%s.npy" % T0)))
    golden = GoldenSet(str(tmp_path))
    entry = golden.find("a", 0)
    assert entry is not None
    with pytest.raises(FormatError):
        golden.tensor(entry)


def test_the_nearest_golden_names_are_suggested(tmp_path: Any, touch: Touch) -> None:
    for number in range(30):
        touch(str(tmp_path / ("layer%d_conv.0.%s.npy" % (number, T0))))
    golden = GoldenSet(str(tmp_path))
    assert golden.nearest("layer7/cnov")[0] == "layer7_conv"
    assert golden.nearest("nothing like it at all, by any means") == []
    assert len(golden.nearest("layer_conv", 5)) == 5


def test_golden_dumps_of_several_steps_and_devices_pair_by_place(tmp_path: Any) -> None:
    for device, step in ((0, 9), (0, 10), (1, 9)):
        folder = (
            tmp_path
            / "20260102030405"
            / str(device)
            / "ge_default_20260102030405_1"
            / "1"
            / str(step)
        )
        folder.mkdir(parents=True)
        write_dump(str(folder / ("Relu.a.1.1.%s" % T0)), [], [np.float32([device, step])])
    golden = GoldenSet(str(tmp_path))

    def values(device: str, step: str, model: str = "ge_default_20210908070605_1") -> Any:
        entry = golden.find("a", 0, "output", Place("20210908070605", device, model, "7", step))
        return None if entry is None else golden.tensor(entry).array().tolist()

    assert golden.dumps.several_places
    assert [values("0", "9"), values("0", "10"), values("1", "9")] == [[0, 9], [0, 10], [1, 9]]
    assert values("1", "10") is None and values("0", "1") is None and values("2", "9") is None
    # All are of one model: its name need not agree.
    assert values("0", "10", "net") == [0, 10]
    for step_folder in golden.tree.step_folders:
        for dump in step_folder.files:
            assert step_folder.place.device == "1" or golden.discard(dump.path)
    assert not golden.dumps.several_places and values("5", "77") == [1, 9]
    assert golden.find("a", 0) is not None


def parked(folder: Any, originals: Any) -> None:
    """Golden files of one value each of ops that share a sanitised name, as `golden … dump` parks
    them; the n-th holds n.
    """
    lines, tensors = "", []
    for number, name in enumerate(originals, 1):
        save(folder / ("%d.npy" % number), np.float32([number]))
        listed = "%s-parked-%d.0.%d" % (sanitise_golden(name), number, 1600000000000000 + number)
        lines += mapping_line("%d.npy" % number, listed + ".npy")
        tensors.append({"file": "%d.npy" % number, "original_name": name, "output_index": 0})
    (folder / "mapping.csv").write_text(lines)
    (folder / "manifest.json").write_text(json.dumps({"tensors": tensors}))


def value(golden: GoldenSet, name: str) -> Any:
    entry = golden.find(name, 0)
    return None if entry is None else golden.tensor(entry).array().tolist()[0]


def test_clashing_names_pair_by_the_manifest(tmp_path: Any) -> None:
    names = ["blk/a_b", "blk_a/b", "blk.a.b"]
    parked(tmp_path, names)
    golden = GoldenSet(str(tmp_path))
    assert [value(golden, name) for name in names] == [1, 2, 3]
    assert (
        golden.collisions == []
        and len(golden) == 3
        and "golden: 3 tensors of 3 ops" in golden.notes
    )
    # What the device writes of each of them is the same name, and a fourth op is none of them.
    assert value(
        golden, "blk_a_b"
    ) is None and "blk.a.b, blk/a_b, blk_a/b" in golden.no_match_reason("blk_a_b", 0)
    assert value(golden, "blk/a.b") is None and "none is it" in golden.no_match_reason("blk/a.b", 0)
    assert golden.runs("blk/a_b", 0) == 1 and golden.no_match_reason("other", 0) == ""


def test_names_outside_ascii_pair_by_what_the_device_writes(tmp_path: Any) -> None:
    parked(tmp_path, ["\u5377\u79ef/1", "\u6c60\u5316/1"])
    golden = GoldenSet(str(tmp_path))
    for number, name in enumerate(["\u5377\u79ef", "\u6c60\u5316"], 1):
        assert value(golden, name + "/1") == value(golden, name + "_1") == number


def test_layers_of_one_name_are_never_mistaken_for_one_another(tmp_path: Any) -> None:
    parked(tmp_path, ["dup", "dup"])
    golden = GoldenSet(str(tmp_path))
    assert value(
        golden, "dup"
    ) is None and "2 ops of the original model are called dup" in golden.no_match_reason("dup", 0)


def test_parked_files_are_used_once_their_manifest_arrives(tmp_path: Any) -> None:
    parked(tmp_path, ["a/b", "a.b"])
    text = (tmp_path / "manifest.json").read_text()
    (tmp_path / "manifest.json").unlink()
    golden = GoldenSet(str(tmp_path))
    assert (
        value(golden, "a/b") is None
        and "parked" in golden.no_match_reason("a/b", 0)
        and "manifest.json" in golden.no_match_reason("a/b", 0)
    )
    (tmp_path / "manifest.json").write_text(text)
    before = golden.revision
    assert golden.add(str(tmp_path / "manifest.json")) and golden.revision > before
    assert (value(golden, "a/b"), value(golden, "a.b"), golden.no_match_reason("a.c", 0)) == (
        1,
        2,
        "",
    )
    assert (
        not golden.add(str(tmp_path / "manifest.json"))
        and golden.discard(str(tmp_path / "1.npy"))
        and value(golden, "a/b") is None
    )
