"""Ranks, graphs and tokens in each form of an FX dump's folders."""

from __future__ import annotations

import pytest

from goldwatch.base.errors import InputError
from goldwatch.base.naming import fx_file_name, parse_fx_name
from goldwatch.dumps.place import Place
from goldwatch.run.golden_files import FxFolders, FxPlace, fx_place


@pytest.mark.parametrize(
    ("folder", "place"),
    [
        ("/d/msprobe_fx_dump/worldsize8_global_rank3/graph_1/0", FxPlace("3", "graph_1", "0")),
        ("/d/worldsize1_global_rank0/graph_12/7", FxPlace("0", "graph_12", "7")),
        (
            "/d/data_dump/1/gm_20240125031118787351_dump",
            FxPlace(None, "gm_20240125031118787351_dump", "0"),
        ),
        ("/d/data_dump/8/graph_2", FxPlace(None, "graph_2", "7")),
        ("/d/gm_20240125031118787351_dump/3", FxPlace(None, "gm_20240125031118787351_dump", "2")),
        ("/d/anything", FxPlace()),
    ],
)
def test_rank_graph_and_token_are_read_from_fx_folders(folder, place):
    assert fx_place(folder) == place


def test_fx_file_names_are_parsed_and_composed():
    name = "cat-aten.cat.default.INPUT.0.2.20240125031118787351.npy"
    found = parse_fx_name(name)
    assert (found.node, found.target, found.op_name, found.index) == (
        "cat",
        "aten.cat.default",
        "cat-aten.cat.default.INPUT.0",
        2,
    )
    assert fx_file_name("cat", "aten.cat.default", "INPUT", (0, 2), "20240125031118787351") == name
    assert parse_fx_name("conv1.0.1600000000000000.npy") is None


def place(step="0", model="graph_1", device="0", time="20260102030405"):
    return Place(time, device, model, "1", step)


def test_a_place_takes_fx_data_of_its_token_graph_and_rank(tmp_path):
    folders = FxFolders(str(tmp_path))
    names = {folder: folders.add("/fx/" + folder) for folder in (
        "data_dump/1/gm_20240125000000_dump", "data_dump/2/gm_20240125000000_dump",
        "data_dump/1/gm_20240126000000_dump",
    )}  # fmt: skip
    assert folders.tokens == ["0", "1"]
    assert folders.of(place()) == names["data_dump/1/gm_20240125000000_dump"]
    assert folders.of(place("1", "graph_1_0")) == names["data_dump/2/gm_20240125000000_dump"]
    assert folders.of(place("0", "graph_2_0")) == names["data_dump/1/gm_20240126000000_dump"]
    assert (
        folders.of(place("1", "graph_2"))
        is folders.of(place("2"))
        is folders.of(place("0", "graph_3"))
        is None
    )


def test_the_rank_is_that_of_the_target_folder_or_else_the_device(tmp_path):
    folders = FxFolders(str(tmp_path))
    names = [folders.add("/fx/worldsize2_global_rank%d/graph_1/0" % rank) for rank in (0, 1)]
    assert [folders.of(place(device=device)) for device in ("0", "1", "2")] == [*names, None]
    (tmp_path / "worldsize2_global_rank1" / "20260102030405" / "0").mkdir(parents=True)
    assert folders.of(place()) == names[1]
    (tmp_path / "worldsize2_global_rank0" / "20260102030405" / "0").mkdir(parents=True)
    with pytest.raises(InputError, match="several ranks dumped device 0"):
        folders.of(place())
