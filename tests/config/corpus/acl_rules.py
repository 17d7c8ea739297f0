"""acl.json files whose settings must fit each other, their file, a CANN version or a model; as in
acl_values.py.
"""

from acl_cases import MANY, E, N, W, at, d, dump, item

EXCLUSIONS = [
    (
        "debug-with-op-switch",
        dump("dump_list", dump_debug="on", dump_op_switch="on"),
        [d(E, "debug-with-op-switch", "dump_op_switch")],
    ),
    ("debug-with-list", dump(dump_debug="on"), [d(E, "debug-with-list", "dump_list")]),
    (
        "debug-with-mode",
        dump("dump_list", dump_debug="on", dump_mode="input"),
        [d(N, "mode-forced", "dump_mode")],
    ),
    (
        "debug-with-empty-list",
        dump(dump_debug="on", dump_list=[]),
        [d(W, "idle-list", "dump_list")],
    ),
    (
        "scene-with-empty-list",
        dump(dump_scene="lite_exception", dump_list=[]),
        [d(W, "idle-list", "dump_list")],
    ),
    ("scene-with-list", dump(dump_scene="lite_exception"), [d(E, "scene-with-list", "dump_list")]),
    (
        "scene-with-debug",
        dump("dump_list", dump_scene="aic_err_norm_dump", dump_debug="on"),
        [d(E, "scene-with-debug", "dump_debug")],
    ),
    (
        "scene-with-op-switch",
        dump("dump_list", dump_scene="aic_err_brief_dump", dump_op_switch="on"),
        [d(E, "scene-with-op-switch", "dump_op_switch")],
    ),
    (
        "scene-with-mode",
        dump("dump_list", dump_scene="lite_exception", dump_mode="all"),
        [d(W, "idle-in-scene", "dump_mode")],
    ),
    (
        "watcher-with-debug",
        dump(dump_scene="watcher", dump_debug="on", dump_list=[{"watcher_nodes": ["B"]}]),
        [d(E, "scene-with-debug", "dump_debug"), d(E, "debug-with-list", "dump_list")],
    ),
    (
        "watcher-with-op-switch",
        dump(dump_scene="watcher", dump_op_switch="on", dump_list=[{"watcher_nodes": ["B"]}]),
        [d(E, "scene-with-op-switch", "dump_op_switch")],
    ),
    (
        "watcher-mode",
        dump(dump_scene="watcher", dump_mode="all", dump_list=[{"watcher_nodes": ["B"]}]),
        [d(E, "watcher-mode", "dump_mode")],
    ),
    (
        "watcher-no-list",
        dump("dump_list", dump_scene="watcher"),
        [(E, "watcher-without-nodes", "/dump")],
    ),
    (
        "watcher-empty-list",
        dump(dump_scene="watcher", dump_list=[]),
        [d(E, "watcher-without-nodes", "dump_list")],
    ),
    (
        "watcher-no-nodes",
        dump(dump_scene="watcher", dump_list=[{"layer": ["A"]}]),
        [d(E, "watcher-without-nodes", "dump_list/0")],
    ),
    (
        "watcher-empty-nodes",
        dump(dump_scene="watcher", dump_list=[{"watcher_nodes": []}]),
        [at(E, "watcher-without-nodes", "watcher_nodes")],
    ),
    (
        "watcher-with-model",
        dump(dump_scene="watcher", dump_list=[{"model_name": "m", "watcher_nodes": ["B"]}]),
        [at(E, "watcher-with-model", "model_name")],
    ),
    (
        "nodes-without-watcher",
        item(watcher_nodes=["B"]),
        [at(E, "nodes-without-watcher", "watcher_nodes")],
    ),
    ("empty-nodes-without-watcher", item(watcher_nodes=[]), [at(W, "empty-list", "watcher_nodes")]),
    ("stats-without-data", dump(dump_stats=["Max"]), [d(E, "stats-without-data", "dump_stats")]),
    (
        "stats-with-tensor",
        dump(dump_data="tensor", dump_stats=["Max"]),
        [d(E, "stats-without-data", "dump_stats")],
    ),
    (
        "blacklist",
        dump(
            dump_level="op",
            dump_list=[{"optype_blacklist": [{"name": "Cast", "pos": ["input0", "output12"]}]}],
        ),
        [],
    ),
    (
        "blacklist-level",
        item(optype_blacklist=[{"name": "Cast", "pos": ["input0"]}]),
        [at(E, "blacklist-level", "optype_blacklist")],
    ),
    (
        "blacklist-level-all",
        dump(
            dump_level="all", dump_list=[{"opname_blacklist": [{"name": "a", "pos": ["input0"]}]}]
        ),
        [at(E, "blacklist-level", "opname_blacklist")],
    ),
    (
        "blacklist-101",
        dump(dump_level="op", dump_list=[{"opname_blacklist": MANY}]),
        [at(E, "too-many-entries", "opname_blacklist")],
    ),
    ("blacklist-100", dump(dump_level="op", dump_list=[{"opname_blacklist": MANY[:100]}]), []),
    ("blacklist-empty", item(optype_blacklist=[]), [at(W, "empty-list", "optype_blacklist")]),
    (
        "blacklist-no-name",
        dump(dump_level="op", dump_list=[{"opname_blacklist": [{"pos": ["input0"]}]}]),
        [at(W, "blacklist-name", "opname_blacklist/0")],
    ),
    (
        "blacklist-no-pos",
        dump(dump_level="op", dump_list=[{"opname_blacklist": [{"name": "a"}]}]),
        [at(W, "blacklist-position", "opname_blacklist/0")],
    ),
    (
        "blacklist-empty-pos",
        dump(dump_level="op", dump_list=[{"opname_blacklist": [{"name": "a", "pos": []}]}]),
        [at(W, "blacklist-position", "opname_blacklist/0/pos")],
    ),
    (
        "blacklist-bad-pos",
        dump(
            dump_level="op",
            dump_list=[{"opname_blacklist": [{"name": "a", "pos": ["in0", "output", "input0"]}]}],
        ),
        [
            at(W, "blacklist-position", "opname_blacklist/0/pos/0"),
            at(W, "blacklist-position", "opname_blacklist/0/pos/1"),
        ],
    ),
    (
        "range",
        dump(
            dump_level="op",
            dump_list=[{"model_name": "m", "opname_range": [{"begin": "a", "end": "b"}]}],
        ),
        [],
    ),
    (
        "range-level",
        item(model_name="m", opname_range=[{"begin": "a", "end": "b"}]),
        [at(E, "range-level", "opname_range")],
    ),
    (
        "range-no-model",
        dump(dump_level="op", dump_list=[{"opname_range": [{"begin": "a", "end": "b"}]}]),
        [d(E, "range-without-model", "dump_list/0")],
    ),
    (
        "range-empty-model",
        dump(
            dump_level="op",
            dump_list=[{"model_name": "", "opname_range": [{"begin": "a", "end": "b"}]}],
        ),
        [at(E, "empty-value", "model_name")],
    ),
    (
        "range-no-end",
        dump(dump_level="op", dump_list=[{"model_name": "m", "opname_range": [{"begin": "a"}]}]),
        [at(E, "missing-field", "opname_range/0")],
    ),
    (
        "range-empty-begin",
        dump(
            dump_level="op",
            dump_list=[{"model_name": "m", "opname_range": [{"begin": "", "end": "b"}]}],
        ),
        [at(E, "empty-value", "opname_range/0/begin")],
    ),
    ("range-empty", item(opname_range=[]), [at(W, "empty-list", "opname_range")]),
    (
        "kernel-with-model",
        dump(dump_level="kernel", dump_list=[{"model_name": "m"}]),
        [at(W, "kernel-level", "model_name")],
    ),
    (
        "exception-ignores-list-rules",
        dump(dump_scene="lite_exception", dump_list=[{"layer": []}]),
        [d(E, "scene-with-list", "dump_list")],
    ),
]

LISTS = [
    ("named", item(model_name="m"), []),
    ("named-layers", item(model_name="m", layer=["a", "b"]), []),
    ("two-models", dump(dump_list=[{"model_name": "m"}, {"model_name": "n", "layer": ["a"]}]), []),
    ("path-alone", dump("dump_list"), [(E, "nothing-dumped", "/dump")]),
    ("path-and-mode", dump("dump_list", dump_mode="all"), [(E, "nothing-dumped", "/dump")]),
    ("empty-list", dump(dump_list=[]), [d(E, "nothing-dumped", "dump_list")]),
    (
        "empty-list-off",
        dump(dump_list=[], dump_op_switch="off"),
        [d(E, "nothing-dumped", "dump_list")],
    ),
    (
        "all-off",
        dump("dump_list", dump_op_switch="off", dump_debug="off"),
        [d(W, "all-switches-off", "dump_op_switch")],
    ),
    (
        "debug-off-alone",
        dump("dump_list", dump_debug="off"),
        [d(W, "all-switches-off", "dump_debug")],
    ),
    ("empty-model-name", item(model_name=""), [at(E, "empty-value", "model_name")]),
    (
        "empty-model-name-on",
        dump(dump_op_switch="on", dump_list=[{"model_name": ""}]),
        [at(W, "empty-value", "model_name")],
    ),
    ("empty-layer", item(model_name="m", layer=[]), [at(E, "empty-list", "layer")]),
    (
        "empty-layer-on",
        dump(dump_op_switch="on", dump_list=[{"layer": []}]),
        [at(W, "empty-list", "layer")],
    ),
    (
        "duplicate-model",
        dump(dump_list=[{"model_name": "m", "layer": ["a"]}, {"model_name": "m", "layer": ["b"]}]),
        [d(E, "duplicate-model", "dump_list/1/model_name")],
    ),
    (
        "triple-model",
        dump(dump_list=[{"model_name": "m"}] * 3),
        [
            d(E, "duplicate-model", "dump_list/1/model_name"),
            d(E, "duplicate-model", "dump_list/2/model_name"),
        ],
    ),
    (
        "shadowed",
        dump(dump_list=[{"model_name": "m", "layer": ["a"]}, {}]),
        [at(W, "shadowed-model", "model_name")],
    ),
    ("nameless-twice", dump(dump_list=[{}, {}]), [d(W, "duplicate-model", "dump_list/1")]),
    (
        "nameless-differ",
        dump(dump_list=[{"layer": ["a"]}, {"layer": ["b"]}]),
        [d(E, "duplicate-model", "dump_list/1")],
    ),
    ("duplicate-layer", item(layer=["a", "b", "a"]), [at(W, "duplicate-layer", "layer/2")]),
    ("blank-layer", item(layer=[" a"]), [at(W, "blank-in-name", "layer/0")]),
    ("suffix-of-model", item(model_name="resnet50.om"), [at(W, "model-suffix", "model_name")]),
    ("blank-model", item(model_name="m "), [at(W, "blank-in-name", "model_name")]),
]

KEYS = [
    ("no-dump", {"profiler": {"switch": "on"}}, [(W, "no-dump-section", "")]),
    ("empty-object", {}, [(W, "no-dump-section", "")]),
    ("empty-dump", {"dump": {}}, [(W, "empty-dump-section", "/dump")]),
    ("other-sections", dict(dump(), profiler={}, max_opqueue_num="10"), []),
    ("unknown-section", dict(dump(), foo=1), [(W, "unknown-key", "/foo")]),
    ("wrapped", {"acl": dump()}, [(E, "no-dump-section", "/acl/dump")]),
    ("wrapped-twice", {"a": [{"b": dump()}]}, [(E, "no-dump-section", "/a/0/b/dump")]),
    (
        "wrapped-in-another-section",
        {"profiler": dump()},
        [(E, "no-dump-section", "/profiler/dump")],
    ),
    ("wrapped-fields", {"acl": dump()["dump"]}, [(E, "no-dump-section", "/acl")]),
    (
        "wrapped-npu",
        {"npu": {"enable_dump": True, "dump_path": "@DIR@"}},
        [(E, "no-dump-section", "/npu")],
    ),
    (
        "wrapped-off",
        {"acl": {"dump_op_switch": "off"}},
        [(W, "no-dump-section", "")],
    ),
    (
        "capital-dump",
        {"Dump": dump()["dump"]},
        [(E, "no-dump-section", ""), (W, "unknown-key", "/Dump")],
    ),
    (
        "dump-config-section",
        {"dump_config": dump()["dump"]},
        [(E, "no-dump-section", ""), (W, "unknown-key", "/dump_config")],
    ),
    (
        "list-misspelt",
        dump("dump_list", dump_lists=[{}], dump_op_switch="off"),
        [d(E, "all-switches-off", "dump_op_switch"), d(W, "unknown-key", "dump_lists")],
    ),
    (
        "list-unwrapped",
        dump("dump_list", model_name="m", dump_op_switch="off"),
        [d(E, "all-switches-off", "dump_op_switch"), d(W, "unknown-key", "model_name")],
    ),
    (
        "switch-off-with-others",
        dump("dump_list", foo=1, dump_mode="all", dump_op_switch="off"),
        [d(W, "all-switches-off", "dump_op_switch"), d(W, "unknown-key", "foo")],
    ),
    ("dump-layer", dump(dump_layer="a b"), [d(W, "unknown-key", "dump_layer")]),
    ("layer-commas", item(layer=["conv1,pool1"]), [at(W, "layer-separator", "layer/0")]),
    ("layer-pattern", item(layer=["conv*"]), [at(W, "layer-pattern", "layer/0")]),
    ("misspelt-key", dump(dump_mod="all"), [d(W, "unknown-key", "dump_mod")]),
    ("misspelt-layers", item(layers=["a"]), [at(W, "unknown-key", "layers")]),
    ("device", dump(dump_deviceid="0"), [d(W, "unknown-key", "dump_deviceid")]),
    ("enable", dump(enable="on"), [d(W, "unknown-key", "enable")]),
    ("status", dump(dump_status="on"), [d(W, "unknown-key", "dump_status")]),
    ("nested-dump", dump(dump={"dump_mode": "all"}), [d(W, "unknown-key", "dump")]),
    ("model-name-outside", dump(model_name="m"), [d(W, "unknown-key", "model_name")]),
    ("mode-inside-item", item(dump_mode="all"), [at(W, "unknown-key", "dump_mode")]),
    (
        "unknown-in-blacklist",
        dump(
            dump_level="op",
            dump_list=[{"opname_blacklist": [{"name": "a", "pos": ["input0"], "position": 1}]}],
        ),
        [at(W, "unknown-key", "opname_blacklist/0/position")],
    ),
    ("slash-in-key", dump(**{"a/b~c": 1}), [d(W, "unknown-key", "a~1b~0c")]),
    (
        "dump-fields-outside",
        {"dump_path": "@DIR@", "dump_list": []},
        [
            (E, "no-dump-section", ""),
            (W, "unknown-key", "/dump_path"),
            (W, "unknown-key", "/dump_list"),
        ],
    ),
    (
        "duplicate-key",
        '{"dump": {"dump_path": "@DIR@", "dump_path": "@DIR@", "dump_list": [{}]}}',
        [d(W, "duplicate-key", "dump_path")],
    ),
    (
        "duplicate-section",
        '{"dump": {}, "dump": {"dump_path": "@DIR@", "dump_list": [{}]}}',
        [(W, "duplicate-key", "/dump")],
    ),
]

TEXTS = [
    ("empty-file", "", [(W, "empty-file", "")]),
    ("blank-file", " \n", [(E, "json-syntax", "")]),
    ("bom", '\ufeff{"dump": {"dump_path": "@DIR@", "dump_list": [{}]}}', [(W, "bom", "")]),
    ("comment", '{\n// no\n"dump": {}}', [(E, "json-comment", "")]),
    ("block-comment", '{"dump": /* no */ {}}', [(E, "json-comment", "")]),
    ("hash-comment", '# no\n{"dump": {}}', [(E, "json-comment", "")]),
    ("trailing-comma", '{"dump": {},}', [(E, "json-trailing-comma", "")]),
    ("trailing-comma-list", '{"dump": {"dump_list": [{},]}}', [(E, "json-trailing-comma", "")]),
    ("single-quotes", "{'dump': {}}", [(E, "json-syntax", "")]),
    ("python-word", '{"dump": None}', [(E, "json-syntax", "")]),
    ("nan", '{"dump": NaN}', [(E, "json-syntax", "")]),
    ("huge-number", '{"dump": 1e999}', [(E, "json-syntax", "")]),
    ("long-number", '{"dump": {"dump_step": %s}}' % ("9" * 5000), [(E, "json-syntax", "")]),
    ("unclosed", '{"dump": {', [(E, "json-syntax", "")]),
    ("text-behind", '{"dump": {}} x', [(E, "json-syntax", "")]),
    ("control-character", '{"dump": {"dump_path": "a\tb"}}', [(E, "json-syntax", "")]),
    ("half-surrogate", '{"dump": {"dump_path": "\\ud800"}}', [(E, "json-syntax", "")]),
    ("too-deep", "[" * 11 + "]" * 11, [(E, "file-too-deep", "")]),
    ("too-deep-braces-in-string", '{"a": "' + "{" * 10 + '"}', [(E, "file-too-deep", "")]),
    ("deep-enough", dict(dump(), foo=[[[[[[[[[[]]]]]]]]]]), [(W, "unknown-key", "/foo")]),
]

VERSIONS = [
    (
        "since-%s-%s" % (rule[0], version),
        document,
        [(W, "newer-than-cann", rule[1])] if rule[2] else [],
        {"cann": version},
    )
    for document, field, cases in (
        (dump(dump_step="1"), "/dump/dump_step", (("5.1", 1), ("20.2", 1), ("6.0.1", 0))),
        (
            dump(dump_data="stats"),
            "/dump/dump_data",
            (("8.0.RC1", 1), ("8.0.RC2", 0), ("7.0.0", 1)),
        ),
        (
            dump(dump_level="op"),
            "/dump/dump_level",
            (("8.0.RC2", 1), ("8.0.RC3.alpha003", 0), ("8.0.RC3", 0), ("8.0.0", 0)),
        ),
        (dump("dump_list", dump_debug="on"), "/dump/dump_debug", (("20.1", 1), ("5.0.2", 0))),
        (
            dump(dump_data="stats", dump_stats=["Max"]),
            "/dump/dump_stats",
            (("8.3.RC1", 1), ("8.5.0", 0)),
        ),
        (dump(dump_kernel_data="all"), "/dump/dump_kernel_data", (("8.5.0", 1), ("9.0.0", 0))),
        (
            dump("dump_list", dump_scene="lite_exception"),
            "/dump/dump_scene",
            (("7.0.0", 1), ("8.0.RC1", 0)),
        ),
        (
            dump("dump_list", dump_scene="aic_err_norm_dump"),
            "/dump/dump_scene",
            (("8.0.0", 1), ("8.5", 0)),
        ),
        (
            dump(dump_scene="watcher", dump_list=[{"watcher_nodes": ["B"]}]),
            "/dump/dump_scene",
            (("8.1.RC1", 0),),
        ),
        (dump(), "", (("20.0", 0), ("9.9", 0))),
    )
    for version, warned in cases
    for rule in [(field.rpartition("/")[2] or "plain", field, warned)]
] + [
    (
        "since-watcher-nodes",
        dump(dump_scene="watcher", dump_list=[{"watcher_nodes": ["B"]}]),
        [d(W, "newer-than-cann", "dump_scene"), at(W, "newer-than-cann", "watcher_nodes")],
        {"cann": "8.0.RC3"},
    ),
    (
        "since-range",
        dump(
            dump_level="op",
            dump_list=[{"model_name": "m", "opname_range": [{"begin": "a", "end": "b"}]}],
        ),
        [at(W, "newer-than-cann", "opname_range")],
        {"cann": "8.1"},
    ),
]

MODEL = [
    ("model-known", item(model_name="net", layer=["fused_conv", "pool"]), [], {"om": True}),
    ("model-graph-name", item(model_name="net_graph"), [], {"om": True}),
    (
        "model-file-name",
        item(model_name="file"),
        [at(N, "model-file-name", "model_name")],
        {"om": True},
    ),
    (
        "model-both-names",
        dump(dump_list=[{"model_name": "net"}, {"model_name": "file"}]),
        [
            at(W, "model-named-twice", "model_name"),
            (N, "model-file-name", "/dump/dump_list/1/model_name"),
        ],
        {"om": True},
    ),
    (
        "model-unknown",
        item(model_name="nett"),
        [at(W, "unknown-model", "model_name")],
        {"om": True},
    ),
    (
        "model-unknown-layers",
        item(model_name="resnet", layer=["poll"]),
        [at(W, "unknown-model", "model_name"), at(E, "unknown-layer", "layer/0")],
        {"om": True},
    ),
    (
        "model-among-others",
        dump(dump_list=[{"model_name": "net"}, {"model_name": "b", "layer": ["x"]}]),
        [(W, "unknown-model", "/dump/dump_list/1/model_name")],
        {"om": True},
    ),
    (
        "om-name",
        item(model_name="resnet", layer=["pool"]),
        [],
        {"om": True, "om_names": ["models/resnet.om"]},
    ),
    (
        "om-name-own",
        item(model_name="net", layer=["pool"]),
        [],
        {"om": True, "om_names": ["resnet"]},
    ),
    (
        "om-name-other",
        item(model_name="nett"),
        [at(E, "unknown-model", "model_name")],
        {"om": True, "om_names": ["resnet"]},
    ),
    (
        "om-name-other-and-an-unknown-layer",
        item(model_name="nett", layer=["konv"]),
        [at(E, "unknown-model", "model_name"), at(E, "unknown-layer", "layer/0")],
        {"om": True, "om_names": ["resnet"]},
    ),
    (
        "om-name-no-json",
        item(model_name="file"),
        [at(E, "unknown-model", "model_name")],
        {"om": True, "om_names": ["resnet"]},
    ),
    ("model-everything", dump(), [], {"om": True}),
    (
        "layer-unknown",
        item(model_name="net", layer=["fused_konv"]),
        [at(E, "unknown-layer", "layer/0")],
        {"om": True},
    ),
    (
        "layer-unknown-nameless",
        item(layer=["pool", "nothing"]),
        [at(E, "unknown-layer", "layer/1")],
        {"om": True},
    ),
    (
        "layer-original",
        item(model_name="net", layer=["relu1"]),
        [at(N, "fused-layer", "layer/0")],
        {"om": True},
    ),
    (
        "layer-data",
        item(model_name="net", layer=["input"]),
        [at(E, "never-dumps", "layer/0")],
        {"om": True},
    ),
    (
        "layer-const",
        item(model_name="net", layer=["weights"]),
        [at(E, "never-dumps", "layer/0")],
        {"om": True},
    ),
    (
        "layer-netoutput",
        item(model_name="net", layer=["Node_Output"]),
        [at(E, "never-dumps", "layer/0")],
        {"om": True},
    ),
    (
        "watcher-original",
        dump(dump_scene="watcher", dump_list=[{"watcher_nodes": ["relu1"]}]),
        [at(E, "unknown-layer", "watcher_nodes/0")],
        {"om": True},
    ),
    (
        "blacklist-unknown-type",
        dump(
            dump_level="op", dump_list=[{"optype_blacklist": [{"name": "Kast", "pos": ["input0"]}]}]
        ),
        [at(W, "unknown-blacklist-name", "optype_blacklist/0/name")],
        {"om": True},
    ),
    (
        "blacklist-position-too-high",
        dump(
            dump_level="op",
            dump_list=[
                {"optype_blacklist": [{"name": "Conv2D", "pos": ["input1", "input2", "output1"]}]}
            ],
        ),
        [
            at(W, "unknown-position", "optype_blacklist/0/pos/1"),
            at(W, "unknown-position", "optype_blacklist/0/pos/2"),
        ],
        {"om": True},
    ),
    (
        "blacklist-original",
        dump(
            dump_level="op",
            dump_list=[{"opname_blacklist": [{"name": "relu1", "pos": ["input0"]}]}],
        ),
        [at(W, "unknown-blacklist-name", "opname_blacklist/0/name")],
        {"om": True},
    ),
    (
        "range-known",
        dump(
            dump_level="op",
            dump_list=[
                {"model_name": "net", "opname_range": [{"begin": "fused_conv", "end": "pool"}]}
            ],
        ),
        [],
        {"om": True},
    ),
    (
        "range-reversed",
        dump(
            dump_level="op",
            dump_list=[
                {"model_name": "net", "opname_range": [{"begin": "pool", "end": "fused_conv"}]}
            ],
        ),
        [at(E, "range-reversed", "opname_range/0")],
        {"om": True},
    ),
    (
        "range-data",
        dump(
            dump_level="op",
            dump_list=[{"model_name": "net", "opname_range": [{"begin": "input", "end": "pool"}]}],
        ),
        [at(E, "never-dumps", "opname_range/0/begin")],
        {"om": True},
    ),
    (
        "range-unknown",
        dump(
            dump_level="op",
            dump_list=[{"model_name": "net", "opname_range": [{"begin": "x", "end": "pool"}]}],
        ),
        [at(E, "unknown-layer", "opname_range/0/begin")],
        {"om": True},
    ),
    (
        "msprobe",
        {"task": "tensor", "dump_path": "./x", "level": "L1", "tensor": {"list": []}},
        [("warning", "other-tool", "/task")],
    ),
    (
        "mindspore",
        {
            "common_dump_settings": {"path": "/x", "dump_mode": 0},
            "e2e_dump_settings": {"enable": True},
        },
        [("warning", "other-tool", "/common_dump_settings")],
    ),
    (
        "task-in-an-acl-json",
        {"dump": {"dump_path": "@DIR@", "dump_list": [{}]}, "task": "x"},
        [("warning", "unknown-key", "/task")],
    ),
]

CASES = EXCLUSIONS + LISTS + KEYS + TEXTS + VERSIONS + MODEL
