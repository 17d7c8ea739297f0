"""Unmodified scripts under the launcher: which runs count, what the script sees, how it may end."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "..", "docs", "examples")
QUIET = "import numpy as np\nimport tensorflow as tf\ntf.logging.set_verbosity(tf.logging.ERROR)\n"

NUMBERS = (
    QUIET
    + """
x = tf.placeholder(tf.float32, [2], name="x")
v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
local = tf.get_local_variable("local", [2], initializer=tf.zeros_initializer())
resource = tf.get_variable("resource", [2], initializer=tf.ones_initializer(), use_resource=True)
bump = tf.assign_add(v, [1.0, 1.0], name="bump")
y = tf.add(x, v + resource, name="y")
dataset = tf.data.Dataset.range(3).make_initializable_iterator()
saver = tf.train.Saver()
with tf.Session() as session:
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    session.run(tf.tables_initializer())
    session.run(dataset.initializer)
    session.run(v.initializer)
    session.run([tf.is_variable_initialized(v), resource.is_initialized()])
    session.run(tf.report_uninitialized_variables())
    saver.restore(session, saver.save(session, "./saved"))
    session.run(bump)
    y.eval({x: [5.0, 5.0]})
    session.make_callable(y, [x])(np.array([7.0, 7.0], np.float32))
    session.make_callable(bump)()
    bump.op.run()
    session.run({"a": [y, (v,)]}, {x: [9.0, 9.0]})
"""
)


def test_only_the_users_own_runs_count(tf, golden, script):
    done = tf("dump", "-o", "g", "--steps", "0,1,2,3", "--", "python", script(NUMBERS))
    assert done.code == 4 and "run 3 was never reached: the script made 3 runs (0 to 2)" in done.err
    assert golden("g/0").one("x").tolist() == [5.0, 5.0]
    assert golden("g/1").one("y").tolist() == [9.0, 9.0]
    assert golden("g/2").one("y").tolist() == [13.0, 13.0]


SET_UP = (
    QUIET
    + """
from tensorflow.python.ops import boosted_trees_ops, lookup_ops, resources
x = tf.placeholder(tf.float32, [4], name="x")
v = tf.get_variable("v", [4])
r = tf.get_variable("r", [4], use_resource=True)
step = tf.train.get_or_create_global_step()
fed = tf.placeholder(tf.float32, [4], name="fed")
table = lookup_ops.HashTable(lookup_ops.KeyValueTensorInitializer([1, 2], [3, 4], tf.int64, tf.int64), -1)
everything = [tf.global_variables_initializer(), tf.local_variables_initializer(), tf.tables_initializer()]
boosted_trees_ops.TreeEnsemble("ensemble")
everything.append(resources.initialize_resources(resources.shared_resources()))
y = tf.multiply(x * v, r, name="y")
kept = tf.assign(v, y, name="kept")
with tf.control_dependencies([tf.assign_add(step, 1)]):
    counted = tf.identity(y, name="counted")
with tf.Session() as session:
    session.run(tf.group(*everything))
    for run in (v.assign(fed), r.assign(tf.reshape(fed, [4])), v.assign(fed).op):
        session.run(run, {fed: np.ones(4)})
    session.run([tf.assign_add(step, 1), step])
    session.run(step)
    session.run(r.assign(r * 0.5))
    session.run(v.assign(tf.random_normal([4])))
    for _ in range(3):
        session.run([y, step], {x: np.ones(4)})
    session.run(kept, {x: np.ones(4)})
    session.run({"a": counted}, {"x:0": np.ones(4)})
    session.run(r.read_value())
"""  # noqa: E501
)


def test_runs_are_listed_without_set_up_assignments_and_counters(tf, script, tmp_path):
    name = script(SET_UP)
    done = tf("dump", "--list-runs", "--format", "json", "--", "python", name)
    assert done.code == 0, done.err
    found = [
        (run["first"], run["last"], run["fetches"], run["feeds"]) for run in done.json()["runs"]
    ]
    assert found == [
        (0, 2, ["y:0", "global_step:0"], ["x:0"]),
        (3, 3, ["kept:0"], ["x:0"]),
        (4, 4, ["counted:0"], ["x:0"]),
        (5, 5, [found[-1][2][0]], []),
    ]
    shown = tf("dump", "--list-runs", "--", "python", name)
    assert shown.out.splitlines()[:3] == [
        "runs 0 to 2",
        "  fetches y:0, global_step:0",
        "  feeds   x:0",
    ]
    assert (
        not (tmp_path / "golden").exists()
        and tf("dump", "--list-runs", "-o", "g", "--", "python", name).code == 2
    )
    assert tf("dump", "--", "python", name).code == 2


def test_functions_whose_inner_ops_cannot_be_dumped_are_warned_of(tf, golden, script):
    text = (
        QUIET
        + """
from tensorflow.python.framework import function
@function.Defun(tf.float32)
def swish(x):
    return x * tf.sigmoid(x)
x = tf.placeholder(tf.float32, [4], name="x")
with tf.Session() as session:
    session.run(tf.add(swish(x, name="call"), 1.0, name="y"), {x: np.ones(4)})
"""
    )
    done = tf("dump", "-o", "g", "--", "python", script(text))
    assert (
        done.code == 0
        and "functions are called (call), and their inner ops cannot be dumped" in done.err
    )
    assert any("functions are called" in note for note in golden("g").manifest["notes"])


@pytest.mark.parametrize(
    "first", [True, False], ids=["imported before the fork", "imported in the child"]
)
def test_runs_in_other_processes_of_the_script_are_reported(tf, script, first):
    lines = ["import multiprocessing", "def infer(queue):", "    import tensorflow as tf"]
    lines += [
        "    with tf.Session() as session:",
        "        queue.put(float(session.run(tf.constant(1.0) + 1.0)))",
    ]
    lines += [
        "queue = multiprocessing.Queue()",
        "child = multiprocessing.Process(target=infer, args=(queue,))",
    ]
    lines += ["child.start()", "print(queue.get())", "child.join()"]
    done = tf(
        "dump", "-o", "g", "--", "python", script("\n".join(["import tensorflow"] * first + lines))
    )
    assert (
        done.code == 4 and "2.0" in done.out and "started other programs or processes" in done.err
    )


def test_the_first_op_with_values_not_finite_is_named(tf, golden, script):
    text = (
        QUIET
        + """
x = tf.placeholder(tf.float32, [4], name="x")
mask = tf.constant([0.0, -np.inf, 0.0, 0.0], name="mask")
soft = tf.nn.softmax(x + mask, name="soft")
big = tf.multiply(soft * 1e38, FACTOR, name="big")
y = tf.subtract(big, big, name="y")
with tf.Session() as session:
    session.run(y, {x: np.ones(4)})
"""
    )
    done = tf("dump", "-o", "g", "--", "python", script(text.replace("FACTOR", "30.0")))
    assert done.code == 0, done.err
    first = golden("g").manifest["not_finite"]["first"]
    assert (first["tensor"], first["inf"], first["nan"]) == (
        "big:0",
        3,
        0,
    ) and "the golden run itself comes to NaN or infinite values" in done.err
    done = tf("dump", "-o", "m", "--", "python", script(text.replace("FACTOR", "1.0")))
    assert (
        done.code == 0
        and golden("m").manifest["not_finite"]["first"] is None
        and "itself comes to" not in done.err
    )


SEES = (
    """
import json, os, sys
import helper
before = "tensorflow" in sys.modules
"""
    + QUIET
    + """
seen = {"argv": sys.argv, "path": sys.path[0], "name": __name__, "file": __file__, "cwd": os.getcwd(), "before": before}
seen["main"] = sys.modules["__main__"].__dict__ is globals()
seen["pythonpath"] = os.environ.get("PYTHONPATH")
seen["spec"] = __spec__
json.dump(seen, open("seen.json", "w"))
def main(argv):
    with tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1)) as session:
        print("RESULT", session.run(tf.add(1.0, 2.0, name="y")))
if __name__ == "__main__":
    tf.app.run(main, sys.argv[:1])
"""  # noqa: E501
)


def test_the_script_sees_arguments_paths_and_modules_as_without_goldwatch(tf, golden, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "helper.py").write_text("")
    (tmp_path / "sub" / "s.py").write_text(SEES)
    done = tf(
        "dump",
        "-o",
        "g",
        "--",
        "python",
        "-u",
        "sub/s.py",
        "--flag",
        "-o",
        "x y",
        env={"PYTHONPATH": "/nowhere"},
    )
    assert done.code == 0, done.err
    import json

    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["argv"] == ["sub/s.py", "--flag", "-o", "x y"]
    assert seen["path"] == os.path.realpath(str(tmp_path / "sub")) and seen[
        "cwd"
    ] == os.path.realpath(str(tmp_path))
    assert (
        seen["name"] == "__main__"
        and seen["main"]
        and seen["file"] == "sub/s.py"
        and seen["spec"] is None
    )
    assert seen["before"] is False and seen["pythonpath"] == "/nowhere"
    assert "RESULT 3.0" in done.out
    assert float(golden("g").one("y")) == 3.0
    assert sorted(os.listdir(str(tmp_path))) == ["g", "seen.json", "sub"]


def test_python_m_and_python_c_are_dumped_with_json_output(tf, golden, tmp_path):
    (tmp_path / "mod.py").write_text(
        QUIET
        + "import sys\nprint('SAYS', sys.argv[1:])\ntf.Session().run(tf.add(1.0, 2.0, name='y'))\n"
    )
    done = tf("dump", "-o", "g", "--format", "json", "--", "python", "-m", "mod", "a")
    assert done.code == 0, done.err
    document = done.json()
    assert document["golden"][0]["run"] == 0 and document["tensorflow"].startswith("1.15")
    assert "SAYS ['a']" in done.err
    again = tf("dump", "-o", "g", "--", "python", "-m", "mod")
    assert again.code == 2 and "--force" in again.err
    forced = tf(
        "dump",
        "-o",
        "g",
        "--force",
        "--",
        "python",
        "-c",
        "import tensorflow as tf; tf.Session().run(tf.add(1.0, 4.0, name='z'))",
    )
    assert forced.code == 0 and golden("g").ops == {"z", "z/x", "z/y"}


FAILS = QUIET + "import sys\ntf.Session().run(tf.add(1.0, 2.0, name='y'))\n%s\n"


@pytest.mark.parametrize(
    "end, program, text",
    [
        ("sys.exit(3)", {"exit_code": 3, "signal": None}, "exit code 3"),
        ("raise ValueError('mine')", {"exit_code": 1, "signal": None}, "exit code 1"),
        ("import os; os.kill(os.getpid(), 9)", {"exit_code": None, "signal": "SIGKILL"}, "SIGKILL"),
    ],
)
def test_golden_data_of_a_failing_script_is_kept_with_its_end_in_the_manifest(
    tf, golden, script, end, program, text
):
    done = tf("dump", "-o", "g", "--", "python", script(FAILS % end))
    assert done.code == 5 and text in done.err and "golden data of run 0" in done.err
    assert golden("g").manifest["program"] == program and golden("g").one("y") == 3.0
    assert golden("g").manifest["complete"] is (program["signal"] is None)
    if "mine" in end:
        trace = done.err[done.err.index("Traceback") :]
        assert (
            'File "script.py", line 6' in trace
            and "child.py" not in trace
            and "ValueError: mine" in trace
        )


def test_a_script_that_fails_before_any_run_exits_with_5_and_can_be_repeated(tf, golden, script):
    done = tf("dump", "-o", "g", "--", "python", script("raise SystemExit(3)\n"))
    assert done.code == 5 and "exit code 3" in done.err and "no golden data" in done.err
    manifest = golden("g").manifest
    assert manifest["program"] == {"exit_code": 3, "signal": None}
    assert (
        manifest["tensors"] == []
        and manifest["complete"] is False
        and manifest["backend_version"].startswith("1.15")
    )
    # Nothing is lost, so the next try needs no --force; and with --force a failure leaves alone
    # what is there.
    assert tf("dump", "-o", "g", "--", "python", script(FAILS % "")).code == 0
    assert (
        tf("dump", "-o", "g", "--force", "--", "python", script("raise SystemExit(3)\n")).code == 5
    )
    assert golden("g").manifest["program"]["exit_code"] == 0 and golden("g").one("y") == 3.0


RAISES = (
    QUIET
    + """
x = tf.placeholder(tf.int32, [], name="x")
first = tf.add(x, 1, name="first")
y = tf.div(first, x, name="y")
with tf.Session() as session:
    for value in (0, 4):
        try:
            print(session.run(y, {x: value}))
        except tf.errors.InvalidArgumentError:
            print("caught")
"""
)


def test_a_run_that_raises_is_not_used(tf, golden, script, tmp_path):
    name = script(RAISES)
    done = tf("dump", "-o", "g", "--", "python", name)
    assert (
        done.code == 4 and "run 0 raised InvalidArgumentError" in done.err and "caught" in done.out
    )
    assert not os.path.exists(str(tmp_path / "g"))
    assert tf("dump", "-o", "g", "--run-index", "1", "--", "python", name).code == 0
    assert int(golden("g").one("y")) == 1


def test_a_script_without_runs_is_refused_and_leaves_nothing(tf, script, tmp_path):
    eager = script("import tensorflow as tf\ntf.enable_eager_execution()\nprint(tf.add(1, 2))\n")
    done = tf("dump", "-o", "g", "--", "python", eager)
    assert done.code == 4 and "the script made no run" in done.err and "eager" in done.err
    assert os.listdir(str(tmp_path)) == ["script.py"]


FEEDS = (
    QUIET
    + """
x = tf.placeholder(tf.float32, [4], name="in.put")
parts = tf.split(x, 2, name="scope/sp")
total = tf.add(parts[0], parts[1], name="total")
uninitialised = tf.get_variable("cold", [2])
with tf.device("/cpu:1"):
    far = tf.multiply(total, 2.0, name="far")
near = tf.add(far, 1.0, name="near")
hot = tf.is_variable_initialized(uninitialised)
with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
    session.run([near, parts[0], hot], {x: [1, 2, 3, 4], parts[1]: [10, 20]})
"""
)


def test_feeds_devices_and_skipped_values_are_in_the_manifest(tf, golden, script):
    assert tf("dump", "-o", "g", "--", "python", script(FEEDS)).code == 0
    found = golden("g")
    assert found.one("scope/sp", 0).tolist() == [1, 2] and found.one("scope/sp", 1).tolist() == [
        10,
        20,
    ]
    assert found.one("total").tolist() == [11, 22] and found.one("near").tolist() == [23, 45]
    reasons = found.reasons()
    assert "fed" in reasons["scope/sp:1"]
    assert "not initialised" in reasons["cold:0"]
    assert any("copy" in reason for reason in reasons.values())
    assert {e["device"][-5:] for e in found.tensors} == {"CPU:0", "CPU:1"}
    assert found.manifest["dumps"] == len(found.tensors) + len(reasons)


def test_op_names_that_are_too_long_for_files_are_saved(tf, golden, script):
    text = (
        QUIET + "x = tf.placeholder(tf.float32, [1], name='x')\ny = tf.add(x, 1., name='L' * 300)\n"
    )
    text += (
        "z = tf.add(y, 1., name='S' * 260 + '/z')\nw = tf.add(z, 1., "
        "name='w')\ntf.Session().run(w, {x: [1]})\n"
    )
    assert tf("dump", "-o", "g", "--", "python", script(text)).code == 0
    found = golden("g")
    assert [found.one(op).tolist() for op in ("x", "L" * 300, "S" * 260 + "/z", "w")] == [
        [1],
        [2],
        [3],
        [4],
    ]


KERAS = (
    QUIET
    + """
tf.set_random_seed(1)
layers = [tf.keras.layers.Dense(5, activation="relu", input_shape=(4,), name="d1"), tf.keras.layers.Dense(2, name="d2")]
model = tf.keras.Sequential(layers)
model.compile("sgd", "mse")
x = np.random.RandomState(0).rand(8, 4).astype(np.float32)
np.save("own.npy", model.predict(x, batch_size=8))
model.fit(x, np.zeros((8, 2), np.float32), epochs=1, batch_size=4, verbose=0)
"""  # noqa: E501
)


def test_keras_runs_on_tensorflow_1_are_saved(tf, golden, script, tmp_path):
    done = tf("dump", "-o", "g", "--steps", "0,1,2", "--", "python", script(KERAS))
    assert done.code == 0, done.err
    assert golden("g/0").one("d2/BiasAdd").tobytes() == np.load(str(tmp_path / "own.npy")).tobytes()
    assert any(
        e["type"] == "ResourceApplyGradientDescent" or "Grad" in e["type"]
        for e in golden("g/2").tensors
    )


MONITORED = (
    QUIET
    + """
step = tf.train.get_or_create_global_step()
v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
y = tf.add(v, tf.to_float(tf.assign_add(step, 1)), name="y")
class Hook(tf.train.SessionRunHook):
    def after_create_session(self, session, coordinator): session.run(v)
    def before_run(self, context): context.session.run(v)
    def end(self, session): session.run(v)
with tf.Session() as plain:
    plain.run(tf.add(1.0, 2.0, name="plain"))
options = dict(checkpoint_dir="model", save_checkpoint_steps=1, hooks=[Hook(), tf.train.StopAtStepHook(3)])
with tf.train.MonitoredTrainingSession(**options) as session:
    while not session.should_stop():
        session.run(y)
"""  # noqa: E501
)


def test_runs_of_a_monitored_session_count_without_its_set_up(tf, golden, script):
    name = script(MONITORED)
    done = tf("dump", "-o", "g", "--steps", "0,1,3,4", "--", "python", name)
    assert "run 4 was never reached: the script made 4 runs (0 to 3)" in done.err and done.code == 4
    assert float(golden("g/0").one("plain")) == 3.0
    assert golden("g/1").one("y").tolist() == [2, 2] and golden("g/3").one("y").tolist() == [4, 4]
    assert golden("g/1").manifest["run"]["kind"] == "MonitoredSession"


def test_an_estimators_training_evaluation_and_prediction_runs_count(tf, golden):
    """Three steps of training, two of evaluation, two of prediction: nothing else counts."""
    done = tf(
        "dump",
        "-o",
        "g",
        "--estimator",
        "--steps",
        "0,2,3,5,6",
        "--",
        "python",
        os.path.join(EXAMPLES, "tf_estimator.py"),
    )
    assert done.code == 0, done.err
    train, evaluate, predict, last = golden("g/2"), golden("g/3"), golden("g/5"), golden("g/6")
    assert "prob" in predict.ops and predict.one("prob").shape == (8, 3)
    assert {"conv1/Conv2D", "conv1/BiasAdd", "conv1/Relu", "fc/MatMul", "fc/BiasAdd"}.issubset(
        predict.ops
    )
    assert any(op.startswith("gradients/") for op in train.ops) and not any(
        op.startswith("gradients/") for op in evaluate.ops
    )
    images = np.random.RandomState(0).rand(16, 64).astype(np.float32)
    assert predict.one("IteratorGetNext").tobytes() == images[:8].tobytes()
    assert last.one("IteratorGetNext").tobytes() == images[8:].tobytes()
    assert "predictions 16" in done.out
    relu = np.maximum(predict.one("conv1/BiasAdd"), 0)
    assert predict.one("conv1/Relu").tobytes() == relu.tobytes()


EVALUATES = (
    QUIET
    + """
dense = [tf.keras.layers.Dense(4, activation="relu", input_shape=(3,)), tf.keras.layers.Dense(1)]
model = tf.keras.Sequential(dense)
model.compile("adam", "mse")
estimator = tf.keras.estimator.model_to_estimator(model, model_dir="model")
pairs = lambda: tf.data.Dataset.from_tensor_slices((np.ones((8, 3), np.float32), np.ones((8, 1), np.float32))).repeat().batch(4)
tf.estimator.train_and_evaluate(estimator, tf.estimator.TrainSpec(pairs, max_steps=3), tf.estimator.EvalSpec(pairs, steps=2))
tf.Session(graph=tf.Graph())
"""  # noqa: E501
)


def test_evaluations_within_a_training_count_as_runs(tf, golden, script):
    done = tf("dump", "-o", "g", "--steps", "2,4,7,8", "--", "python", script(EVALUATES))
    assert (
        done.code == 4
        and "runs 7, 8 were never reached: the script made 5 runs (0 to 4)" in done.err
    )
    assert any("Grad" in e["type"] for e in golden("g/2").tensors) and not any(
        "Grad" in e["type"] for e in golden("g/4").tensors
    )


def test_three_thousand_tensors_are_converted_in_one_pass(tmp_path, cpu_seconds):
    import tensorflow.compat.v1 as v1
    from goldwatch.adapters.tensorflow.debug_run_to_golden import convert
    from goldwatch.adapters.tensorflow.recorder import golden_config, watch_options

    graph = v1.Graph()
    with graph.as_default():
        net = x = v1.placeholder(v1.float32, [4, 64], name="x")
        for number in range(1500):
            net = v1.add(
                net, v1.constant(0.5, name="scope%d/c" % number), name="scope%d/add" % number
            )
    root = str(tmp_path / "debug")
    with v1.Session(graph=graph, config=golden_config()) as session:
        session.run(net, {x: np.ones((4, 64))}, options=watch_options(None, graph, root))
    # It takes two seconds; a look through the whole debug folder for every tensor takes minutes.
    with cpu_seconds(40):
        told = []
        out = str(tmp_path / "out")
        progress = lambda number, total: told.append((number, total))  # noqa: E731
        done = convert(root, out, "1.15", {}, False, {}, progress=progress)
    assert done["saved"] == done["dumps"] == 3001
    assert told == [(number, 3001) for number in range(1, 3002)]


def test_an_empty_dump_of_a_tensor_over_2_gb_is_refused_and_others_are_saved(tmp_path):
    """A tensor over 2 GB leaves an empty file; the others are saved."""
    import tensorflow.compat.v1 as v1
    from goldwatch.adapters.tensorflow.debug_run_to_golden import convert
    from goldwatch.adapters.tensorflow.recorder import golden_config, watch_options

    graph = v1.Graph()
    with graph.as_default():
        y = v1.add(v1.constant([1.0], name="a"), v1.constant([2.0], name="b"), name="y")
    root = str(tmp_path / "debug")
    with v1.Session(graph=graph, config=golden_config()) as session:
        session.run(y, options=watch_options(None, graph, root))
    for folder, _, files in os.walk(root):
        for name in files:
            if name.startswith("a_0_"):
                open(os.path.join(folder, name), "w").close()
            elif name.startswith("b_0_"):
                with open(os.path.join(folder, name), "r+b") as stream:
                    stream.truncate(20)
    done = convert(root, str(tmp_path / "g"), "1.15", {}, False, {})
    assert (done["saved"], done["skipped"], done["refused"], done["dumps"]) == (1, 0, 2, 3)
    assert "2 GB" in done["refusals"][0]["reason"] or "2 GB" in done["refusals"][1]["reason"]


def test_ctrl_c_in_a_graphs_constructor_shows_no_traceback(tf, script):
    """As Ctrl-C within the constructor leaves it."""
    unmade = (
        "from tensorflow.python.framework import "
        "c_api_util\nc_api_util.ScopedTFGraph.__new__(c_api_util.ScopedTFGraph)\n"
    )
    done = tf(
        "dump",
        "-o",
        "g",
        "--",
        "python",
        script(QUIET + unmade + "tf.Session().run(tf.add(1.0, 2.0, name='y'))\n"),
    )
    assert done.code == 0 and "ScopedTFGraph" not in done.err and "Traceback" not in done.err


def test_ctrl_c_within_tensorflows_c_code_shows_no_traceback(tf, script):
    """As Ctrl-C within a function of TensorFlow's C code leaves it."""
    end = (
        "try:\n    raise KeyboardInterrupt\nexcept KeyboardInterrupt as error:\n    raise "
        "SystemError('an error is set') from error\n"
    )
    done = tf("dump", "-o", "g", "--", "python", script(QUIET + end))
    assert done.code == 130 and "interrupted" in done.err and "Traceback" not in done.err


def test_an_interrupted_dump_keeps_finished_runs_and_exits_with_130(
    script, tmp_path, run_tf, until
):
    import subprocess
    import sys

    name = script(
        QUIET + "import time\ntf.Session().run(tf.add(1.0, 2.0, name='y'))\nopen('ready', "
        "'w').close()\ntime.sleep(60)\n"
    )
    command = [
        sys.executable,
        "-m",
        "goldwatch",
        "golden",
        "tf",
        "dump",
        "-o",
        "g",
        "--",
        "python",
        name,
    ]
    child = subprocess.Popen(
        command, cwd=str(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until((tmp_path / "ready").exists)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=30) == 130
    assert (tmp_path / "g" / "manifest.json").exists()
    assert not [entry for entry in os.listdir(str(tmp_path)) if entry.startswith(".goldwatch")]
