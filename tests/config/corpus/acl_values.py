"""acl.json files of one setting each, and what the checker must say: (name, document or text,
expected findings, options).

``@DIR@`` stands for a folder that exists; a finding is (severity, rule, pointer). Sizes of dumps
are notes that no case lists.
"""

from acl_cases import E, N, W, at, d, dump, item

ENUMS = (
    [("mode-%s" % value, dump(dump_mode=value), []) for value in ("input", "output", "all")]
    + [
        ("data-tensor", dump(dump_data="tensor"), []),
        ("data-stats", dump(dump_data="stats"), []),
        ("op-switch-on", dump(dump_op_switch="on"), []),
        ("op-switch-off", dump(dump_op_switch="off"), []),
        ("op-switch-on-empty-list", dump(dump_op_switch="on", dump_list=[]), []),
        ("op-switch-on-no-list", dump("dump_list", dump_op_switch="on"), []),
        ("level-op", dump(dump_level="op"), []),
        ("level-kernel", dump(dump_level="kernel"), []),
        ("level-all", dump(dump_level="all"), []),
        ("debug-on", dump("dump_list", dump_debug="on"), []),
        ("debug-off", dump(dump_debug="off"), []),
        (
            "watcher",
            dump(dump_scene="watcher", dump_list=[{"layer": ["A"], "watcher_nodes": ["B"]}]),
            [],
        ),
        (
            "watcher-all-layers",
            dump(dump_scene="watcher", dump_mode="output", dump_list=[{"watcher_nodes": ["B"]}]),
            [],
        ),
        ("kernel-only", dump("dump_list", dump_kernel_data="printf,assert"), []),
    ]
    + [
        ("scene-%s" % value, dump("dump_list", dump_scene=value), [])
        for value in (
            "lite_exception",
            "aic_err_brief_dump",
            "aic_err_norm_dump",
            "aic_err_detail_dump",
        )
    ]
    + [
        (
            "scene-exceptions-off",
            {"dump": {"dump_scene": "lite_exception:disable"}},
            [(N, "exceptions-off", "/dump/dump_scene")],
        ),
        ("scene-without-path", {"dump": {"dump_scene": "lite_exception"}}, []),
    ]
    + [
        ("stats-%s" % value.replace(" ", "-"), dump(dump_data="stats", dump_stats=[value]), [])
        for value in ("Max", "Min", "Avg", "Nan", "Negative Inf", "Positive Inf", "L2norm")
    ]
    + [
        ("kernel-data-%s" % value, dump(dump_kernel_data=value), [])
        for value in ("all", "printf", "tensor", "assert", "timestamp")
    ]
)

BAD_VALUES = [
    (
        "%s-%s" % (field, value or "empty"),
        dump(**{field: value}),
        [d(E, "enum" if value else "empty-value", field)],
    )
    for field, values in (
        ("dump_mode", ("Output", "outputs", "")),
        ("dump_data", ("stat", "TENSOR", "")),
        ("dump_op_switch", ("ON", "true", "")),
        ("dump_level", ("kernal", "Op", "")),
        ("dump_debug", ("On", "")),
        ("dump_scene", ("lite-exception", "exception", "normal", "Watcher", "")),
        ("dump_kernel_data", ("all,", "printf, tensor", " all", "print", "")),
    )
    for value in values
]
BAD_VALUES = [
    (name, document, [d(E, "empty-value", "dump_kernel_data")])
    if name == "dump_kernel_data-all,"
    else (name, document, expected)
    for name, document, expected in BAD_VALUES
] + [
    ("stats-misspelt", dump(dump_data="stats", dump_stats=["max"]), [d(E, "enum", "dump_stats/0")]),
    (
        "stats-empty-word",
        dump(dump_data="stats", dump_stats=["Max", ""]),
        [d(E, "empty-value", "dump_stats/1")],
    ),
    ("stats-empty", dump(dump_data="stats", dump_stats=[]), [d(E, "empty-list", "dump_stats")]),
    (
        "stats-twice",
        dump(dump_data="stats", dump_stats=["Max", "Max"]),
        [d(W, "duplicate-value", "dump_stats/1")],
    ),
]

TYPES = [
    ("type-%s-%s" % (field, type(value).__name__), dump(**{field: value}), [d(E, "type", field)])
    for field in (
        "dump_path",
        "dump_mode",
        "dump_op_switch",
        "dump_step",
        "dump_data",
        "dump_level",
        "dump_debug",
        "dump_scene",
        "dump_kernel_data",
    )
    for value in (0, True, None, ["x"])
] + [
    ("type-stats", dump(dump_data="stats", dump_stats="Max"), [d(E, "type", "dump_stats")]),
    ("type-stats-item", dump(dump_data="stats", dump_stats=[1]), [d(E, "type", "dump_stats/0")]),
    ("type-list", dump(dump_list={}), [d(E, "type", "dump_list")]),
    ("type-list-null", dump(dump_list=None), [d(E, "type", "dump_list")]),
    ("type-list-item", dump(dump_list=["m"]), [d(E, "type", "dump_list/0")]),
    ("type-model-name", item(model_name=1), [at(E, "type", "model_name")]),
    ("type-layer", item(layer="conv1"), [at(E, "type", "layer")]),
    ("type-layer-item", item(layer=["a", 1]), [at(E, "type", "layer/1")]),
    (
        "type-watcher-nodes",
        dump(dump_scene="watcher", dump_list=[{"watcher_nodes": "a"}]),
        [at(E, "type", "watcher_nodes")],
    ),
    (
        "type-blacklist",
        dump(dump_level="op", dump_list=[{"optype_blacklist": {}}]),
        [at(E, "type", "optype_blacklist")],
    ),
    (
        "type-blacklist-item",
        dump(dump_level="op", dump_list=[{"opname_blacklist": ["a"]}]),
        [at(E, "type", "opname_blacklist/0")],
    ),
    (
        "type-blacklist-name",
        dump(dump_level="op", dump_list=[{"opname_blacklist": [{"name": 1, "pos": ["input0"]}]}]),
        [at(E, "type", "opname_blacklist/0/name")],
    ),
    (
        "type-blacklist-pos",
        dump(dump_level="op", dump_list=[{"opname_blacklist": [{"name": "a", "pos": "input0"}]}]),
        [at(E, "type", "opname_blacklist/0/pos")],
    ),
    (
        "type-blacklist-pos-item",
        dump(dump_level="op", dump_list=[{"opname_blacklist": [{"name": "a", "pos": [0]}]}]),
        [at(E, "type", "opname_blacklist/0/pos/0")],
    ),
    (
        "type-range",
        dump(dump_level="op", dump_list=[{"model_name": "m", "opname_range": {}}]),
        [at(E, "type", "opname_range")],
    ),
    (
        "type-range-begin",
        dump(
            dump_level="op",
            dump_list=[{"model_name": "m", "opname_range": [{"begin": 1, "end": "b"}]}],
        ),
        [at(E, "type", "opname_range/0/begin")],
    ),
    ("type-dump", {"dump": []}, [(E, "type", "/dump")]),
    ("type-dump-null", {"dump": None}, [(E, "type", "/dump")]),
    ("type-document", "[]", [(E, "type", "")]),
]

STEPS = [
    (
        "step-%s" % (text or "empty"),
        dump(dump_step=text),
        [d(severity, rule, "dump_step")] if rule else [],
    )
    for text, severity, rule in (
        ("", "", ""),
        ("0", "", ""),
        ("001", "", ""),
        ("0|5-10", "", ""),
        ("2147483647", "", ""),
        ("5-5", W, "step-equal"),
        ("2147483648", W, "step-too-large"),
        ("99999999999999999999999999", W, "step-too-large"),
        ("10-5", E, "step-reversed"),
        ("5|", E, "step-syntax"),
        ("|5", E, "step-syntax"),
        ("5||10", E, "step-syntax"),
        ("5-", E, "step-syntax"),
        ("-5", E, "step-syntax"),
        ("1-2-3", E, "step-syntax"),
        ("1, 2", E, "step-syntax"),
        (" 1", E, "step-syntax"),
        ("1\n", E, "step-syntax"),
        ("+1", E, "step-syntax"),
        ("\u0665", E, "step-syntax"),
    )
] + [
    ("step-100", dump(dump_step="|".join(str(i) for i in range(100))), []),
    (
        "step-101",
        dump(dump_step="|".join(str(i) for i in range(101))),
        [d(E, "step-too-many", "dump_step")],
    ),
    (
        "step-single-op",
        dump("dump_list", dump_op_switch="on", dump_step="1"),
        [d(E, "step-without-model", "dump_step")],
    ),
    (
        "step-single-op-empty-list",
        dump(dump_list=[], dump_op_switch="on", dump_step="1"),
        [d(E, "step-without-model", "dump_step")],
    ),
    ("step-single-op-and-model", dump(dump_op_switch="on", dump_step="1"), []),
    (
        "step-unchecked-in-exception",
        dump("dump_list", dump_scene="lite_exception", dump_step="5-1"),
        [d(W, "idle-in-scene", "dump_step")],
    ),
]

PATHS = [
    ("path-missing", dump("dump_path"), [(E, "dump-path-missing", "/dump")]),
    ("path-empty", dump(dump_path=""), [d(E, "empty-value", "dump_path")]),
    (
        "path-not-found",
        dump(dump_path="/no/such/folder"),
        [d(E, "dump-path-not-found", "dump_path")],
    ),
    ("path-a-file", dump(dump_path="@DIR@/file"), [d(E, "dump-path-not-directory", "dump_path")]),
    (
        "path-through-a-file",
        dump(dump_path="@DIR@/file/x"),
        [d(E, "dump-path-not-found", "dump_path")],
    ),
    ("path-home", dump(dump_path="$HOME/output"), [d(E, "dump-path-variable", "dump_path")]),
    ("path-braces", dump(dump_path="/data/${USER}/d"), [d(E, "dump-path-variable", "dump_path")]),
    ("path-tilde", dump(dump_path="~/output"), [d(E, "dump-path-variable", "dump_path")]),
    (
        "path-tilde-inside",
        dump(dump_path="@DIR@/a~"),
        [d(E, "dump-path-characters", "dump_path"), d(E, "dump-path-not-found", "dump_path")],
    ),
    ("path-blank", dump(dump_path="@DIR@/a b"), [d(E, "dump-path-characters", "dump_path")]),
    (
        "path-chinese",
        dump(dump_path="@DIR@/\u6570\u636e"),
        [d(E, "dump-path-characters", "dump_path"), d(E, "dump-path-not-found", "dump_path")],
    ),
    (
        "path-pipe",
        dump(dump_path="@DIR@/a|b"),
        [d(E, "dump-path-characters", "dump_path"), d(E, "dump-path-not-found", "dump_path")],
    ),
    ("path-nul", dump(dump_path="/data/\u0000"), [d(E, "dump-path-characters", "dump_path")] * 2),
    ("path-long", dump(dump_path="/" + "a" * 512), [d(E, "path-too-long", "dump_path")]),
    ("path-relative", dump(dump_path="sub"), [d(N, "dump-path-relative", "dump_path")]),
    (
        "path-relative-missing",
        dump(dump_path="nothing"),
        [d(N, "dump-path-relative", "dump_path"), d(E, "dump-path-not-found", "dump_path")],
    ),
    ("path-ip", dump(dump_path="192.168.0.1:/data/dump"), [d(N, "dump-path-remote", "dump_path")]),
    ("path-ip-no-rest", dump(dump_path="192.168.0.1:"), [d(E, "dump-path-remote", "dump_path")]),
    (
        "path-ip-bad-rest",
        dump(dump_path="192.168.0.1:/a b"),
        [d(E, "dump-path-characters", "dump_path")],
    ),
    (
        "path-no-ip",
        dump(dump_path="256.1.1.1:/data"),
        [d(N, "dump-path-relative", "dump_path"), d(E, "dump-path-not-found", "dump_path")],
    ),
    ("path-symlink", dump(dump_path="@DIR@/link"), []),
    ("path-dangling", dump(dump_path="@DIR@/dangling"), [d(E, "dump-path-not-found", "dump_path")]),
    ("path-stale", dump(dump_path="@DIR@/stale"), [d(N, "stale-dumps", "dump_path")]),
    ("path-undated", dump(dump_path="@DIR@/undated"), []),
    (
        "path-two-times",
        dump(dump_path="@DIR@/two"),
        [d(N, "stale-dumps", "dump_path"), d(N, "several-time-folders", "dump_path")],
    ),
    (
        "path-exception",
        dump("dump_list", dump_scene="lite_exception", dump_path="/no/such"),
        [d(W, "dump-path-not-found", "dump_path")],
    ),
    (
        "path-elsewhere",
        dump(dump_path="/no/such/folder"),
        [d(N, "dump-path-not-found", "dump_path")],
        {"elsewhere": True},
    ),
    (
        "path-elsewhere-file",
        dump(dump_path="@DIR@/file"),
        [d(N, "dump-path-not-directory", "dump_path")],
        {"elsewhere": True},
    ),
    (
        "path-elsewhere-blank",
        dump(dump_path="@DIR@/a b"),
        [d(E, "dump-path-characters", "dump_path")],
        {"elsewhere": True},
    ),
    (
        "path-elsewhere-home",
        dump(dump_path="$HOME/output"),
        [d(E, "dump-path-variable", "dump_path")],
        {"elsewhere": True},
    ),
]

CASES = ENUMS + BAD_VALUES + TYPES + STEPS + PATHS
