"""``dump_session`` and ``DumpHook`` in a user's own script."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def v1():
    import tensorflow.compat.v1 as module

    module.logging.set_verbosity(module.logging.ERROR)
    module.reset_default_graph()
    return module


def test_dump_session_saves_the_runs_of_its_session_only(v1, tmp_path, read_golden):
    from goldwatch.adapters.tensorflow import dump_session, golden_config

    x = v1.placeholder(v1.float32, [2], name="x")
    v = v1.get_variable("v", [2])
    y = v1.add(x, v, name="y")
    with v1.Session(config=golden_config()) as session, v1.Session() as other:
        session.run(v1.global_variables_initializer())
        other.run(v1.global_variables_initializer())
        with dump_session(session, str(tmp_path / "a")) as result:
            other.run(y, {x: [7, 7]})
            own = session.run(y, {x: [1, 2]})
            session.run(y, {x: [3, 4]})
        with dump_session(session, str(tmp_path / "b"), steps=[0, 2]):
            for value in range(4):
                session.run(y, {x: [value, value]})
        with dump_session(other, str(tmp_path / "c"), run_index=1):
            other.run(y, {x: [1, 1]})
            other.run(y, {x: [2, 2]})
    assert read_golden(tmp_path / "a").one("y").tobytes() == own.tobytes()
    assert result.done[0]["saved"] == result.done[0]["dumps"] == 4
    assert read_golden(tmp_path / "b" / "2").one("x").tolist() == [2, 2]
    assert "off" in read_golden(tmp_path / "a").manifest["optimiser"]
    assert "grappler fused" in read_golden(tmp_path / "c").manifest["optimiser"]


def test_dump_session_refuses_what_it_cannot_save(v1, tmp_path):
    from goldwatch.adapters.tensorflow import dump_session
    from goldwatch.base.errors import InputError, UsageError

    y = v1.add(1.0, 2.0, name="y")
    bad = v1.div(1, v1.placeholder(v1.int32, [], name="zero"), name="bad")
    with v1.Session() as session:
        with pytest.raises(InputError, match="never reached"), dump_session(
            session, str(tmp_path / "a"), run_index=1
        ):
            session.run(y)
        caught = pytest.raises(v1.errors.InvalidArgumentError)
        with pytest.raises(InputError, match="raised InvalidArgumentError"), dump_session(
            session, str(tmp_path / "a")
        ), caught:
            session.run(bad, {"zero:0": 0})
        with pytest.raises(ZeroDivisionError), dump_session(session, str(tmp_path / "a")):
            raise ZeroDivisionError
        with dump_session(session, str(tmp_path / "a")):
            session.run(y)
        with pytest.raises(UsageError, match="already holds"), dump_session(
            session, str(tmp_path / "a")
        ):
            pass
        with dump_session(session, str(tmp_path / "a"), force=True):
            session.run(y)
        with pytest.raises(UsageError), dump_session(session, str(tmp_path / "x"), run_index=-1):
            pass


def test_xla_clusters_in_a_users_session_are_warned_of(v1, tmp_path, read_golden):
    """golden_config cannot keep a jit scope of the graph from being compiled; ops that are missing
    are never missing silently.
    """
    from goldwatch.adapters.tensorflow import DumpHook, dump_session, golden_config
    from tensorflow.contrib.compiler import jit

    step = v1.train.get_or_create_global_step()
    x = v1.placeholder(v1.float32, [4], name="x")
    with jit.experimental_jit_scope():
        y = v1.tanh(v1.multiply(v1.add(x, 1.0), 2.0), name="y")
    warned = pytest.warns(UserWarning, match=r"a: XLA compiled ops into clusters \(cluster")
    with v1.Session(config=golden_config()) as session, warned, dump_session(
        session, str(tmp_path / "a")
    ) as result:
        session.run(y, {x: np.ones(4)})
    (note,) = read_golden(tmp_path / "a").manifest["notes"]
    assert "XLA compiled" in note and result.done[0]["notes"] == [note]
    hook, warned = DumpHook(str(tmp_path / "h")), pytest.warns(UserWarning, match="h: XLA compiled")
    with warned, v1.train.MonitoredTrainingSession(hooks=[hook], config=golden_config()) as session:
        session.run([y, step], {x: np.ones(4)})


def test_dump_hook_saves_the_runs_of_an_estimator(v1, tmp_path, read_golden):
    from goldwatch.adapters.tensorflow import DumpHook, golden_config

    def model_fn(features, labels, mode):
        return v1.estimator.EstimatorSpec(mode, predictions=v1.layers.dense(features, 2, name="fc"))

    def train_fn(features, labels, mode):
        v1.layers.dense(features, 2, name="fc")
        return v1.estimator.EstimatorSpec(
            mode,
            loss=v1.constant(0.0),
            train_op=v1.assign_add(v1.train.get_or_create_global_step(), 1),
        )

    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    config = v1.estimator.RunConfig(session_config=golden_config())
    folder = str(tmp_path / "model")
    train = v1.estimator.Estimator(train_fn, folder, config)
    train.train(
        lambda: v1.data.Dataset.from_tensors((data, data)),
        steps=1,
        hooks=[DumpHook(str(tmp_path / "t"))],
    )
    hook = DumpHook(str(tmp_path / "p"), steps=[0, 1])
    predict = v1.estimator.Estimator(model_fn, folder, config)
    own = list(
        predict.predict(lambda: v1.data.Dataset.from_tensor_slices(data).batch(2), hooks=[hook])
    )
    assert (
        read_golden(tmp_path / "p" / "1").one("fc/BiasAdd").tobytes() == np.stack(own[2:]).tobytes()
    )
    assert [entry["run"] for entry in hook.result.done] == [0, 1]
    assert (
        "fc/kernel" in read_golden(tmp_path / "t").ops
        or "fc/BiasAdd" not in read_golden(tmp_path / "t").ops
    )


def test_dump_hook_saves_the_runs_of_a_monitored_session(v1, tmp_path, read_golden):
    from goldwatch.adapters.tensorflow import DumpHook, dump_session, golden_config
    from goldwatch.base.errors import InputError

    step = v1.train.get_or_create_global_step()
    y = v1.add(v1.assign_add(step, 1), 10, name="y")
    hook = DumpHook(str(tmp_path / "h"), run_index=1)
    with v1.train.MonitoredTrainingSession(hooks=[hook], config=golden_config()) as session:
        session.run(y)
        session.run(y)
        with dump_session(session, str(tmp_path / "s")):
            session.run(y)
    assert (
        int(read_golden(tmp_path / "h").one("y")) == 12
        and int(read_golden(tmp_path / "s").one("y")) == 13
    )
    never = [DumpHook(str(tmp_path / "n"), run_index=5)]
    with pytest.raises(InputError, match="never reached"), v1.train.MonitoredTrainingSession(
        hooks=never
    ) as session:
        session.run(y)


def test_training_under_tensorflow_2_is_refused(v1, tmp_path, monkeypatch):
    """What the version decides is all that is pretended: the graphs and the runs are real."""
    from goldwatch.adapters.tensorflow import dump_session, recorder
    from goldwatch.base.errors import InputError

    monkeypatch.setattr(recorder, "tensorflow_version", lambda: "2.21.0")
    x = v1.placeholder(v1.float32, [2], name="x")
    loss = v1.reduce_sum(x * v1.get_variable("v", [2]), name="loss")
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        with pytest.raises(InputError, match="gradient graph"), dump_session(
            session, str(tmp_path / "a")
        ):
            session.run([loss, train], {x: [1, 2]})
        with dump_session(session, str(tmp_path / "b")):
            session.run(loss, {x: [1, 2]})
    assert not (tmp_path / "a").exists() and (tmp_path / "b" / "manifest.json").exists()


REGISTRY = """
import json
import tensorflow
from tensorflow.core.framework import op_def_pb2
from tensorflow.python import pywrap_tensorflow as module
ops = op_def_pb2.OpList.FromString(module.TF_GetBuffer(module.TF_GetAllOpList())).op
plain = [op for op in ops if not any(arg.number_attr or arg.type_list_attr for arg in op.output_arg)]
print("OPS" + json.dumps({op.name: [arg.type % 100 for arg in op.output_arg] for op in plain}))
"""  # noqa: E501


def test_the_table_of_op_types_agrees_with_tensorflow():
    """Every output that is always a string, a resource or a variant has a reason, and no other
    output has one.
    """
    from goldwatch.adapters.tensorflow.golden_rules import fixed_kind

    # A process of its own: modules that other tests load lazily register ops of their own.
    out = subprocess.run(
        [sys.executable, "-c", REGISTRY],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    ).stdout.decode()
    ops = json.loads(out[out.index("OPS") + 3 :])
    strings_resources_variants = (7, 20, 21)
    for name, types in ops.items():
        if not name.startswith(("Stack", "Iterator")):
            expected = [kind in strings_resources_variants for kind in types]
            assert [
                fixed_kind(name, slot) is not None for slot in range(len(types))
            ] == expected, name
    assert len(ops) > 1000
