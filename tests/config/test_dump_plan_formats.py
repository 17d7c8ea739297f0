from __future__ import annotations

import ast
import sys
import types

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goldwatch.base.errors import FormatError, UsageError
from goldwatch.config.check import Checker
from goldwatch.config.dump_plan import (
    DATA,
    DEBUG_MODES,
    EXCEPTION_SCENES,
    KERNEL_DATA,
    LEVELS,
    MODES,
    STATS,
    DumpPlan,
    ModelDump,
    PlanError,
    Skip,
)
from goldwatch.config.dump_plan_formats import CODE_FORMS, FORMS, NPU_FORMS, read_plan, write_plan
from goldwatch.config.models import Models
from goldwatch.schemas import load_schema

PATH_LETTERS = "abcXYZ019-=[];,.!@#%^&*()_+{}:?\\"
NAMES = st.text(
    st.characters(blacklist_categories=("Cs", "Cc", "Z"), blacklist_characters="\u2028\u2029,*?"),
    min_size=1,
    max_size=12,
)
LISTS = st.lists(NAMES, max_size=4, unique=True).map(tuple)
POSITIONS = st.lists(
    st.sampled_from(["input0", "output0", "input12", "output3"]),
    min_size=1,
    max_size=3,
    unique=True,
).map(tuple)
SKIPS = st.lists(st.builds(Skip, NAMES, POSITIONS), max_size=3).map(tuple)
PATHS = st.text(PATH_LETTERS, min_size=1, max_size=60).map(lambda text: "/" + text)


@st.composite
def steps(draw):
    parts = []
    for first, width in draw(
        st.lists(
            st.tuples(st.integers(0, 2**31 - 1000), st.integers(0, 900)), min_size=1, max_size=6
        )
    ):
        parts.append("%d-%d" % (first, first + width) if width else str(first))
    return "|".join(parts)


def optional(strategy):
    return st.none() | strategy


@st.composite
def acl_plans(draw):
    """Plans of every kind that acl.json knows."""
    kind = draw(st.sampled_from(["models", "single", "debug", "exception", "watcher"]))
    path = draw(PATHS)
    if kind == "exception":
        return DumpPlan(
            dump_path=draw(optional(st.just(path))), scene=draw(st.sampled_from(EXCEPTION_SCENES))
        )
    common = {
        "dump_path": path,
        "kernel_data": draw(
            st.lists(st.sampled_from(KERNEL_DATA), max_size=3, unique=True).map(tuple)
        ),
    }
    if kind == "debug":
        return DumpPlan(
            debug=True,
            op_switch=draw(st.sampled_from([None, False])),
            mode=draw(optional(st.just("all"))),
            **common,
        )
    if kind == "watcher":
        nodes = draw(LISTS.filter(bool))
        return DumpPlan(
            dump_path=path,
            scene="watcher",
            models=(ModelDump(layers=draw(LISTS), watch_nodes=nodes),),
        )
    common.update(
        mode=draw(optional(st.sampled_from(MODES))), data=draw(optional(st.sampled_from(DATA)))
    )
    if common["data"] == "stats":
        common["stats"] = draw(st.lists(st.sampled_from(STATS), max_size=4, unique=True).map(tuple))
    if kind == "single":
        return DumpPlan(
            models=(), op_switch=True, debug=draw(st.sampled_from([None, False])), **common
        )
    level = draw(optional(st.sampled_from(LEVELS).filter(lambda level: level != "kernel")))
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    if draw(st.booleans()):
        names = [None]
    models = []
    for name in names:
        extra = {}
        if level == "op":
            extra = {"skip_types": draw(SKIPS), "skip_ops": draw(SKIPS)}
            if name is not None:
                extra["op_ranges"] = draw(st.lists(st.tuples(NAMES, NAMES), max_size=2).map(tuple))
        models.append(ModelDump(name=name, layers=draw(LISTS), **extra))
    return DumpPlan(
        models=tuple(models),
        level=level,
        step=draw(optional(steps())),
        op_switch=draw(optional(st.booleans())),
        **common,
    )


@st.composite
def npu_plans(draw):
    """Plans of every kind that npu_bridge and npu_device know."""
    common = {
        "dump_path": draw(PATHS),
        "mode": draw(optional(st.sampled_from(MODES))),
        "data": draw(optional(st.sampled_from(DATA))),
    }
    if draw(st.booleans()):
        return DumpPlan(debug=True, debug_mode=draw(st.sampled_from(DEBUG_MODES)), **common)
    return DumpPlan(
        models=(ModelDump(layers=draw(LISTS)),),
        step=draw(optional(steps())),
        debug=draw(st.sampled_from([None, False])),
        **common,
    )


def assert_clean(text, name):
    report = Checker(Models([]), elsewhere=True).check(name, text.encode("utf-8"))
    assert report.errors == report.warnings == 0, [
        (f.rule, f.pointer, f.message) for f in report.findings
    ]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(acl_plans())
def test_acl_plans_pass_the_check_and_read_back(plan):
    text = write_plan(plan, "acl")
    assert_clean(text, "acl.json")
    assert read_plan(text.encode("utf-8"), "acl.json") == plan


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(npu_plans())
def test_npu_plans_pass_the_check_and_read_back_in_every_form(plan):
    for form in NPU_FORMS:
        text = write_plan(plan, form)
        name = "config.py" if form in CODE_FORMS else "config.json"
        assert_clean(text, name)
        assert read_plan(text.encode("utf-8"), name) == plan


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(acl_plans() | npu_plans())
def test_the_plan_form_reads_back_and_fits_its_schema(plan):
    text = write_plan(plan, "plan")
    assert read_plan(text.encode("utf-8"), "plan.json") == plan
    jsonschema.Draft7Validator(load_schema("plan")).validate(plan.to_document())


PLAN = DumpPlan(
    dump_path="/data/d",
    models=(ModelDump("m", ("a", "b")),),
    mode="all",
    step="0|5-9",
    data="stats",
)


def fake(monkeypatch, **modules):
    for name, content in modules.items():
        module = types.ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name.replace("__", "."), module)


class FakeDumpConfig:
    def __init__(
        self, enable_dump=False, dump_path=None, dump_step=None, dump_mode="output",
        enable_dump_debug=False, dump_debug_mode="all",
        dump_data="tensor", dump_layer=None,
    ):  # fmt: skip
        self.__dict__.update({key: value for key, value in locals().items() if key != "self"})


class FakeRunConfig:
    def __init__(self, dump_config=None):
        self.dump_config = dump_config


def run(text):
    namespace = {}
    exec(compile(text, "config.py", "exec"), namespace)
    return namespace


def fake_bridge(monkeypatch, dump_config=FakeDumpConfig):
    empty = {"__path__": []}
    classes = {"DumpConfig": dump_config, "NPURunConfig": FakeRunConfig}
    fake(
        monkeypatch,
        npu_bridge=empty,
        npu_bridge__estimator=empty,
        npu_bridge__estimator__npu=empty,
        npu_bridge__estimator__npu__npu_config=classes,
    )


def test_generated_estimator_code_runs(monkeypatch):
    fake_bridge(monkeypatch)
    config = run(write_plan(PLAN, "estimator"))["run_config"].dump_config
    assert (config.enable_dump, config.dump_path, config.dump_step) == (True, "/data/d", "0|5-9")
    assert (config.dump_mode, config.dump_data, config.dump_layer, config.enable_dump_debug) == (
        "all",
        "stats",
        "a b",
        False,
    )


def test_generated_tf2_code_runs(monkeypatch):
    options = types.SimpleNamespace(dump_config=types.SimpleNamespace())
    fake(monkeypatch, npu_device={"global_options": lambda: options})
    run(write_plan(PLAN, "tf2"))
    assert options.dump_config.__dict__ == {
        "enable_dump": True, "dump_path": "/data/d", "dump_step": "0|5-9", "dump_mode": "all",
        "dump_data": "stats", "dump_layer": "a b",
    }  # fmt: skip


def test_generated_debug_code_runs(monkeypatch):
    fake_bridge(monkeypatch)
    config = run(
        write_plan(DumpPlan(dump_path="/d", debug=True, debug_mode="aicore_overflow"), "estimator")
    )["dump_config"]
    assert (config.enable_dump, config.enable_dump_debug, config.dump_debug_mode) == (
        False,
        True,
        "aicore_overflow",
    )


@pytest.mark.parametrize("form", CODE_FORMS)
@pytest.mark.parametrize("path", ['/a"b', "/a\\nb", "/a\nb", "/\u6570\U0001f600", "/a'b{}%s"])
def test_strings_survive_quoting_in_generated_code(form, path):
    plan = DumpPlan(dump_path=path, models=(ModelDump(),))
    text = write_plan(plan, form)
    assert path in [
        ast.literal_eval(node)
        for node in ast.walk(ast.parse(text))
        if type(node).__name__ in ("Str", "Constant")
    ]
    assert read_plan(text.encode("utf-8"), "config.py") == plan


@pytest.mark.parametrize(
    "plan",
    [
        DumpPlan(dump_path="/d", models=(ModelDump(),), op_switch=True),
        DumpPlan(dump_path="/d", models=(ModelDump(),), op_switch=False),
        DumpPlan(dump_path="/d", models=(ModelDump(),), data="stats", stats=("Max",)),
        DumpPlan(dump_path="/d", models=(ModelDump(),), level="op"),
        DumpPlan(dump_path="/d", scene="lite_exception"),
        DumpPlan(dump_path="/d", models=(ModelDump(watch_nodes=("a",)),)),
        DumpPlan(dump_path="/d", models=(ModelDump(skip_types=(Skip("Cast"),)),)),
        DumpPlan(dump_path="/d", models=(ModelDump(skip_ops=(Skip("a"),)),)),
        DumpPlan(dump_path="/d", models=(ModelDump("m", op_ranges=(("a", "b"),)),)),
        DumpPlan(dump_path="/d", models=(ModelDump(),), kernel_data=("all",)),
        DumpPlan(dump_path="/d"),
        DumpPlan(dump_path="/d", models=(ModelDump(layers=("a b",)),)),
        DumpPlan(dump_path="/d", models=(ModelDump(), ModelDump(layers=("a",)))),
        DumpPlan(dump_path="/d", models=(ModelDump(),), debug=True),
    ],
)
def test_npu_forms_refuse_fields_that_they_cannot_hold(plan):
    for form in NPU_FORMS:
        with pytest.raises(UsageError):
            write_plan(plan, form)


def test_a_refusal_names_the_field_and_no_option():
    with pytest.raises(PlanError) as caught:
        write_plan(DumpPlan(dump_path="/d", models=(ModelDump(),), level="op"), "tf2")
    assert caught.value.field == "level" and "--" not in str(caught.value) + caught.value.hint


def test_acl_json_refuses_an_overflow_kind():
    with pytest.raises(UsageError):
        write_plan(DumpPlan(dump_path="/d", debug=True, debug_mode="aicore_overflow"), "acl")


@pytest.mark.parametrize(
    "document",
    [
        [], 1, {"foo": 1}, {"models": {}}, {"models": [1]}, {"models": [{"layers": "a"}]},
        {"models": [{"op_ranges": [["a"]]}]},
        {"mode": "x"},
        {"stats": ["max"]}, {"debug": 1}, {"dump_path": 1, "models": None},
        {"models": [{"skip_ops": [{"positions": []}]}]},
    ],
)  # fmt: skip
def test_wrong_plan_files_are_refused(document):
    import json

    with pytest.raises(FormatError):
        read_plan(json.dumps(document).encode(), "plan.json")


@pytest.mark.parametrize(
    "document, whose",
    [
        (
            {"common_dump_settings": {"path": "/x"}, "e2e_dump_settings": {"enable": True}},
            "MindSpore's",
        ),
        ({"task": "statistics", "dump_path": "/x", "level": "L1"}, "msprobe's"),
    ],
)
def test_another_tools_configuration_is_refused_by_its_name(document, whose):
    import json

    with pytest.raises(FormatError, match="this is %s own dump configuration" % whose):
        read_plan(json.dumps(document).encode(), "acl.json")


def test_every_form_can_be_written():
    assert set(FORMS) == {"acl", "plan"} | set(NPU_FORMS)


OPTION = "npu.global_options().dump_config.%s = %s\n"


def option_lines(**options):
    return "".join(OPTION % pair for pair in options.items())


def test_a_run_needs_exactly_one_dump_path_in_a_script():
    both = "if a:\n    " + "    ".join(
        option_lines(enable_dump=True, dump_path="'/d'").splitlines(True)
    )
    both += "if b:\n    " + "    ".join(
        option_lines(enable_dump_debug=True, dump_path="'/d'", dump_debug_mode="'all'").splitlines(
            True
        )
    )
    plan = read_plan(both.encode(), "train.py", exact=False)
    assert plan.dump_path == "/d" and plan.models == (ModelDump(),) and plan.debug is None
    with pytest.raises(FormatError, match="enable_dump_debug is computed"):
        read_plan(both.encode(), "train.py")
    text = option_lines(
        enable_dump="args.dump", dump_path="'/d'", dump_step="args.step", dump_mode="'all'"
    )
    plan = read_plan(text.encode(), "train.py", exact=False)
    assert (plan.dump_path, plan.models, plan.step, plan.mode) == (
        "/d",
        (ModelDump(),),
        None,
        "all",
    )


def test_a_run_takes_a_script_whose_several_configurations_agree_on_dump_path():
    calls = (
        "NPURunConfig(dump_config=DumpConfig(True, '/d', "
        "dump_mode='all'))\nNPURunConfig(dump_config=DumpConfig(True, '/d'%s))\n"
    )
    plan = read_plan((calls % "").encode(), "train.py", exact=False)
    assert plan.dump_path == "/d" and plan.mode is None
    off = calls.replace("(True, '/d'%s)", "(dump_path='/other')")
    assert read_plan(off.encode(), "train.py", exact=False).mode == "all"
    for text in (calls.replace("'/d'%s", "'/e'"), calls.replace("'/d'%s", "path"), "print(1)\n"):
        with pytest.raises(FormatError) as caught:
            read_plan(text.encode(), "train.py", exact=False)
        assert "goldwatch watch" in caught.value.hint


def test_torchairs_defaults_are_in_the_plan():
    plan = read_plan(
        b"import torchair\nc.dump_config.enable_dump = True\nc.dump_config.dump_layer = 'a b'\n",
        "infer.py",
    )
    assert (plan.dump_path, plan.mode, plan.models) == (
        "./",
        "all",
        (ModelDump(layers=("a", "b")),),
    )


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("net.json", b'{"name": "net", "graph": [{"name": "g", "op": []}]}', "json of a model"),
        ("fusion_switch.cfg", b'{"Switch": {"GraphFusion": {"ALL": "off"}}}', "list of fusions"),
        ("x.npy", b"\x93NUMPY\x01\x00", "npy file"),
    ],
)
def test_a_file_of_another_kind_is_called_what_it_is(tmp_path, name, content, what):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FormatError, match="this is .*%s.*, no configuration" % what) as raised:
        read_plan(content, str(path))
    assert "give the acl.json" in raised.value.hint
