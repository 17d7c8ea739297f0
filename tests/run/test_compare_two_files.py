"""Two single files compared: one table with their tensors."""

from __future__ import annotations

import csv
import json
import os
import re

import numpy as np
import pytest
from in_process import run_here

from goldwatch.base.errors import Interrupted
from goldwatch.base.manifest import write_manifest
from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.run.compare_two_files import compare_files
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.store.store import RunStore
from goldwatch.tensors.dtypes import dtype_by_name


def goldwatch(folder, *words):
    return run_here(["goldwatch", *words], folder)


def tensor(array, layout="NCHW"):
    return TensorData(
        array.tobytes(), dtype_by_name(array.dtype.name), layout, array.shape, array.shape
    )


def test_two_npy_files_are_compared(tmp_path):
    golden = np.random.RandomState(0).standard_normal((1, 8, 6, 5)).astype(np.float32)
    np.save(str(tmp_path / "golden.npy"), golden)
    np.save(str(tmp_path / "good.npy"), golden.astype(np.float16))
    np.save(str(tmp_path / "bad.npy"), (golden * 2).astype(np.float16))
    np.save(str(tmp_path / "flat.npy"), golden.reshape(-1))
    for name, code in (("good", 0), ("bad", 1), ("flat", 3)):
        done = goldwatch(
            tmp_path, "compare", name + ".npy", "golden.npy", "-o", name, "--format", "json"
        )
        assert done.returncode == code, done.stderr
        document = json.loads(done.stdout)
        assert [row["tensor"] for row in document["rows"]] == [name + ":output:0"]
        (table,) = (tmp_path / name).glob("result_*.csv")
        with open(str(table), newline="") as stream:
            assert len(list(csv.reader(stream))) == 2
        assert document["rows"][0]["target_file"] == str(tmp_path / (name + ".npy"))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize("order", [(0, 2, 3, 1), (0, 2, 1), (0, 2, 3, 4, 1), (0, 3, 1, 2)])
@pytest.mark.parametrize("is_right", [True, False])
def test_an_array_with_its_channels_elsewhere_is_compared_in_goldens_order(
    tmp_path, order, dtype, is_right
):
    golden = (np.random.RandomState(0).standard_normal((1, 8, 6, 5, 3)[: len(order)]) * 9).astype(
        dtype
    )
    np.save(str(tmp_path / "golden.npy"), golden)
    made = golden.transpose(order) if is_right else -golden.transpose(order)
    np.save(str(tmp_path / "made.npy"), made if dtype != "int32" else np.asfortranarray(made))
    for words in (["made.npy", "golden.npy"], [".", ".", "--outputs", "golden=made.npy"]):
        if words[0] == ".":
            os.makedirs(str(tmp_path / "data"), exist_ok=True)
            np.save(str(tmp_path / "data" / "golden.0.1767323045000000.npy"), golden)
            words[1] = "data"
        out = "out%d" % len(words)
        done = goldwatch(tmp_path, "compare", *words, "-o", out, "--format", "json")
        (row,) = json.loads(done.stdout)["rows"]
        assert (done.returncode, row["verdict"]) == ((0, "pass") if is_right else (1, "fail"))
        assert "%s are in another order than golden's" % list(made.shape) in row["reason"]


def test_an_array_in_an_order_that_is_no_other_place_of_the_channels_is_not_compared(tmp_path):
    golden = np.random.RandomState(0).standard_normal((2, 8, 6, 5)).astype(np.float32)
    np.save(str(tmp_path / "golden.npy"), golden)
    np.save(str(tmp_path / "made.npy"), golden.transpose(1, 0, 2, 3))
    done = goldwatch(tmp_path, "compare", "made.npy", "golden.npy", "-o", "out")
    assert done.returncode == 3 and "in another shape" in " ".join(done.stdout.split())


def test_a_golden_file_that_is_not_there_is_said_to_be_missing_with_those_that_fit(tmp_path):
    made = np.random.RandomState(0).standard_normal((1, 8, 6, 5)).astype(np.float32)
    np.save(str(tmp_path / "made.npy"), made.transpose(0, 2, 3, 1))
    os.makedirs(str(tmp_path / "golden"))
    tensors = []
    for op, array, value in (("head", made, "y"), ("up", made, "u"), ("stem", made[:, :4], "s")):
        name = "%s.0.1767323045000%03d.npy" % (op, 900 - ord(op[0]))
        np.save(str(tmp_path / "golden" / name), array)
        tensors.append({"file": name, "op": op, "original_name": op, "output_index": 0,
                        "value": value})  # fmt: skip
    write_manifest(str(tmp_path / "golden"), {"tensors": tensors, "complete": True})
    for asked, first in (("y.0.*.npy", "head"), ("u.npy", "up"), ("up.0.1.npy", "up")):
        done = goldwatch(tmp_path, "compare", "made.npy", "golden/" + asked, "-o", "out")
        assert done.returncode == 4 and "GOLDEN: golden/%s does not" % asked in done.stderr
        fits = re.findall(r"golden/(\w+)\.0\.\d+\.npy", done.stderr.partition("hint: ")[2])
        assert sorted(fits) == ["head", "up"] and fits[0] == first, done.stderr
    done = goldwatch(tmp_path, "compare", "made.npy", "golden", "-o", "out")
    assert re.search(r"goldwatch compare made.npy golden/(head|up)\.0\.", done.stderr), done.stderr
    done = goldwatch(tmp_path, "compare", "made.npy", "gone", "-o", "out")
    assert done.returncode == 4 and "GOLDEN: gone does not exist" in done.stderr
    words = [".", "golden", "--outputs", "y=made.npy", "-o", "out"]
    done = goldwatch(tmp_path, "compare", *words)
    assert done.returncode == 0 and "head:output:0" in done.stdout, done.stdout


def test_a_file_without_a_known_type_is_shown_without_one(tmp_path):
    np.save(str(tmp_path / "golden.npy"), np.arange(1, 50, dtype=np.float32))
    np.save(str(tmp_path / "bad.npy"), np.arange(1, 50, dtype=np.float32) * 2)
    done = goldwatch(tmp_path, "compare", "bad.npy", "golden.npy", "-o", "out")
    assert (
        done.returncode == 1 and "suspect 1: bad, score" in done.stdout and "()" not in done.stdout
    )


def test_an_array_against_golden_data_tells_of_the_exported_model(tmp_path):
    golden = np.random.RandomState(0).standard_normal((1, 8, 6, 5)).astype(np.float32)
    (tmp_path / "golden").mkdir()
    np.save(str(tmp_path / "golden" / "relu.0.1600000000000000.npy"), golden)
    write_manifest(
        str(tmp_path / "golden"),
        {"backend": "onnxruntime", "tensors": [], "original": {"model": {"path": "/m/net.onnx"}}},
    )
    np.save(str(tmp_path / "right.npy"), golden)
    np.save(str(tmp_path / "wrong.npy"), golden * 1.25)
    for name, code, said in (
        ("right", 0, "within limits: if the training framework computed it of the same input, the"),
        ("wrong", 1, "wrong.npy is not what onnxruntime computes of net.onnx"),
    ):
        words = ("compare", name + ".npy", "golden/relu.0.1600000000000000.npy", "-o", name)
        done = goldwatch(tmp_path, *words)
        assert done.returncode == code and said in done.stdout, done.stdout
        assert "suspect" not in done.stdout and "operator was not computed" not in done.stdout
    assert "; the target is the golden x 1.25." in done.stdout
    next_command = "next: goldwatch compare-op wrong.npy golden/relu.0.1600000000000000.npy"
    assert next_command in done.stdout
    # A report made later of the store says the same.
    assert goldwatch(tmp_path, "report", "wrong", "--markdown", "wrong.md").returncode == 0
    assert "is not what onnxruntime computes" in (tmp_path / "wrong.md").read_text()


def test_a_pattern_in_two_files_is_explained_without_blaming_the_network(tmp_path):
    golden = np.random.RandomState(0).standard_normal((1, 8, 6, 5)).astype(np.float32)
    np.save(str(tmp_path / "golden.npy"), golden)
    np.save(str(tmp_path / "scaled.npy"), (golden * 1.1).astype(np.float16))
    np.save(
        str(tmp_path / "other.npy"),
        np.random.RandomState(1).standard_normal((1, 8, 6, 5)).astype(np.float16),
    )
    for name, said in (
        ("scaled", "the target is the golden x 1.1"),
        ("other", "the values have nothing to do with the golden ones"),
    ):
        done = goldwatch(
            tmp_path, "compare", name + ".npy", "golden.npy", "-o", name, "--format", "json"
        )
        summary = json.loads(done.stdout)["summary"]
        assert said in summary["suspects"][0]["explanations"][0]["sentence"], summary
        assert "very first" not in done.stdout and "no operator need be wrong" not in done.stdout
        # Nothing is known of what fed it, so nothing is said of how far that was off.
        told = goldwatch(tmp_path, "compare", name + ".npy", "golden.npy", "-o", name).stdout
        assert "its inputs by" not in told and "what feeds it is not known" in told


def test_the_first_op_of_two_dump_folders_with_equal_inputs_is_blamed(tmp_path):
    random = np.random.RandomState(0)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    feed, second = (random.standard_normal((1, 8, 6, 5)).astype(np.float16) for _ in range(2))
    for folder, stamp in (("a", 1234567890123456), ("b", 1234567890123956)):
        made = [tensor(random.standard_normal((1, 8, 6, 5)).astype(np.float16))]
        write_dump(
            str(tmp_path / folder / ("Relu.x.1.2.%d" % stamp)), inputs=[tensor(feed)], outputs=made
        )
        write_dump(
            str(tmp_path / folder / ("Relu.y.2.2.%d" % (stamp + 1))),
            inputs=[tensor(second)],
            outputs=[tensor(second)],
        )
    done = goldwatch(tmp_path, "compare", "a", "b", "-o", "out")
    assert done.returncode == 1 and "suspect 1: x (Relu)" in done.stdout
    assert (
        "very first" not in done.stdout and "no operator need be wrong" not in done.stdout
    ), done.stdout


@pytest.mark.parametrize(
    "limit",
    [
        "MaxAbsoluteError=0",
        "MaxAbsoluteError<=0",
        "RelativeEuclideanDistance=0",
        "CosineSimilarity=1",
        "type=*:CosineSimilarity>=1",
    ],
)
def test_only_different_values_fail_a_limit_of_zero(tmp_path, limit):
    random = np.random.RandomState(0)
    feed, made = (random.standard_normal((1, 8, 6, 5)).astype(np.float16) for _ in range(2))
    other = made.copy()
    other[0, 3, 2, 1] += np.float16(0.25)
    for folder, stamp, output in (("a", 1234567890123456, other), ("b", 1234567890123956, made)):
        (tmp_path / folder).mkdir()
        write_dump(
            str(tmp_path / folder / ("Tanh.x.1.2.%d" % stamp)),
            inputs=[tensor(feed)],
            outputs=[tensor(feed)],
        )
        write_dump(
            str(tmp_path / folder / ("Mul.y.2.2.%d" % (stamp + 1))),
            inputs=[tensor(feed)],
            outputs=[tensor(output)],
        )
    done = goldwatch(
        tmp_path, "compare", "a", "b", "-o", "out", "--limit", limit, "--format", "json"
    )
    document = json.loads(done.stdout)
    assert {row["tensor"]: row["verdict"] for row in document["rows"]} == {
        "x:input:0": "pass", "x:output:0": "pass", "y:input:0": "pass", "y:output:0": "fail"
    }  # fmt: skip
    assert document["summary"]["first_divergence"]["op"] == "y" and "other-input" not in done.stdout
    done = goldwatch(tmp_path, "compare", "b", "b", "-o", "same", "--limit", limit)
    assert done.returncode == 0, done.stdout


def test_equal_tensors_outside_a_users_limit_accuse_no_operator(tmp_path):
    (tmp_path / "mine" / "algorithm").mkdir(parents=True)
    (tmp_path / "mine" / "algorithm" / "alg_Far.py").write_text(
        "def compare(left, right, args):\n    return abs(left - right).max(), ''\n"
    )
    array = np.random.RandomState(0).standard_normal((1, 8, 6, 5)).astype(np.float16)
    (tmp_path / "a").mkdir()
    write_dump(
        str(tmp_path / "a" / "Tanh.x.1.2.1234567890123456"),
        inputs=[tensor(array)],
        outputs=[tensor(array)],
    )
    write_dump(
        str(tmp_path / "a" / "Relu.y.2.2.1234567890123457"),
        inputs=[tensor(array)],
        outputs=[tensor(array)],
    )
    for limit in ("Far>0.5", "op=y:Far>=1"):
        done = goldwatch(
            tmp_path,
            "compare",
            "a",
            "a",
            "-o",
            "out",
            "--force",
            "--custom",
            "mine",
            "--limit",
            limit,
        )
        assert done.returncode == 1 and "suspect" not in done.stdout and " 0 %" not in done.stdout
        assert "fed with other data" not in done.stdout and "its own" not in done.stdout


def test_two_dump_files_pair_by_kind_and_index(tmp_path):
    random = np.random.RandomState(0)
    arrays = [random.standard_normal((1, 4, 3, 3)).astype(np.float16) for _ in range(3)]
    write_dump(
        str(tmp_path / "Add.add.1.2.1234567890123456"),
        inputs=[tensor(arrays[0]), tensor(arrays[1])],
        outputs=[tensor(arrays[2])],
    )
    write_dump(
        str(tmp_path / "Add.add.1.2.1234567890123457"),
        inputs=[tensor(arrays[0])],
        outputs=[tensor(arrays[2] + 1)],
    )
    names = ["Add.add.1.2.1234567890123456", "Add.add.1.2.1234567890123457"]
    done = goldwatch(tmp_path, "compare", *names, "-o", "out", "--format", "json")
    rows = {row["tensor"]: row["verdict"] for row in json.loads(done.stdout)["rows"]}
    assert (
        rows == {"add:input:0": "pass", "add:input:1": "not_compared", "add:output:0": "fail"}
        and done.returncode == 1
    )


def test_a_dump_file_is_compared_with_its_golden_file(tmp_path):
    array = np.random.RandomState(0).standard_normal((1, 4, 3, 3)).astype(np.float16)
    write_dump(
        str(tmp_path / "Add.add.1.2.1234567890123456"),
        inputs=[tensor(array + 1)],
        outputs=[tensor(array)],
    )
    np.save(str(tmp_path / "add.0.1234567890123456.npy"), array.astype(np.float32))
    done = goldwatch(
        tmp_path,
        "compare",
        "Add.add.1.2.1234567890123456",
        "add.0.1234567890123456.npy",
        "-o",
        "out",
    )
    assert done.returncode == 0 and "add:output:0" in done.stdout, done.stderr


def test_options_for_folders_are_refused_for_two_files(tmp_path):
    np.save(str(tmp_path / "a.npy"), np.ones(3))
    done = goldwatch(tmp_path, "compare", "a.npy", "a.npy", "-o", "out", "--time", "all")
    assert done.returncode == 2 and "folders" in done.stderr
    (tmp_path / "model.json").write_text("{}")
    done = goldwatch(
        tmp_path, "compare", "a.npy", "a.npy", "-f", "model.json", "--check-addresses", "-o", "out"
    )
    assert done.returncode == 2 and "a check of addresses" in done.stderr
    done = goldwatch(tmp_path, "compare", "a.npy", str(tmp_path), "-o", "out")
    assert done.returncode == 4 and "folder" in done.stderr


class TestTheSameCommandAgain:
    """It goes on in OUT, as the comparison of folders does."""

    TWO = ("Add.add.1.2.1234567890123456", "Add.add.1.2.1234567890123457")

    @pytest.fixture
    def compared(self, tmp_path):
        def compare(**options):
            found = []
            paths = (str(tmp_path / name) for name in (*self.TWO, "out"))
            result = compare_files(
                ComparisonOptions(*paths, **options),
                on_progress=lambda progress: found.append(progress.pairs),
            )
            return [row.tensor for row in result.rows()], max(found)

        self.write(tmp_path, 2)
        return compare

    def write(self, tmp_path, inputs, names=TWO, factor=1):
        array = np.arange(1, 37, dtype=np.float16).reshape((1, 4, 3, 3)) * factor
        for name in names:
            write_dump(
                str(tmp_path / "new"), inputs=[tensor(array)] * inputs, outputs=[tensor(array)]
            )
            os.replace(str(tmp_path / "new"), str(tmp_path / name))

    def test_unchanged_tensors_are_not_compared_again(self, tmp_path, compared):
        names = ["add:input:0", "add:input:1", "add:output:0"]
        assert compared() == (names, 3) and compared() == (names, 0)
        self.write(tmp_path, 2, names=self.TWO[1:], factor=2)
        assert compared() == (names, 3)
        with RunStore.open(str(tmp_path / "out")) as store:
            assert store.counted.all() == {"fail": 3}

    def test_a_tensor_that_is_gone_has_no_row(self, tmp_path, compared):
        compared()
        self.write(tmp_path, 1)
        assert compared() == (["add:input:0", "add:output:0"], 2)

    def test_another_model_file_makes_all_tensors_be_compared_again(self, tmp_path, compared):
        """It tells the tensors' layouts."""
        model = tmp_path / "model.json"
        for number in (1, 2):
            model.write_text(
                json.dumps({"name": "net%d" % number, "graph": [{"name": "net", "op": []}]})
            )
            assert compared(model=str(model))[1] == 3
        assert compared(model=str(model))[1] == 0

    def test_ctrl_c_keeps_the_rows_that_were_compared(self, tmp_path, compared):
        def interrupted(progress):
            if progress.pairs_done:
                raise KeyboardInterrupt

        paths = (str(tmp_path / name) for name in (*self.TWO, "out"))
        with pytest.raises(Interrupted, match="^interrupted: 3 rows are stored in .*out$"):
            compare_files(ComparisonOptions(*paths), on_progress=interrupted)
        assert compared()[1] == 0
