"""npu settings as JSON and as Python, and what the checker must say: (name, document or script,
expected findings, options).
"""

E, W, N = "error", "warning", "note"


def npu(*drop, **fields):
    settings = {"enable_dump": True, "dump_path": "@DIR@"}
    settings.update(fields)
    return {key: value for key, value in settings.items() if key not in drop}


def debug(**fields):
    return npu("enable_dump", enable_dump_debug=True, **fields)


JSON_CASES = (
    [
        ("plain", npu(), []),
        (
            "full",
            npu(
                dump_step="0|5-9",
                dump_mode="all",
                enable_dump_debug=False,
                dump_debug_mode="all",
                dump_data="stats",
                dump_layer="a b",
            ),
            [],
        ),
        ("nulls", npu(dump_step=None, dump_layer=None), []),
        ("debug", debug(), []),
        ("unknown", npu(dump_pth="x"), [(W, "unknown-key", "/dump_pth")]),
        ("both", npu(enable_dump_debug=True), [(E, "dump-with-debug", "/enable_dump_debug")]),
        ("no-path", npu("dump_path"), [(E, "dump-path-missing", "")]),
        ("null-path", npu(dump_path=None), [(E, "dump-path-missing", "/dump_path")]),
        ("debug-no-path", {"enable_dump_debug": True}, [(E, "dump-path-missing", "")]),
        ("path-empty", npu(dump_path=""), [(E, "empty-value", "/dump_path")]),
        ("path-not-found", npu(dump_path="/no/such"), [(E, "dump-path-not-found", "/dump_path")]),
        ("path-file", npu(dump_path="@DIR@/file"), [(E, "dump-path-not-directory", "/dump_path")]),
        ("path-blank", npu(dump_path="@DIR@/a b"), []),
        ("path-home", npu(dump_path="$HOME/x"), [(E, "dump-path-variable", "/dump_path")]),
        (
            "path-elsewhere",
            npu(dump_path="/no/such"),
            [(N, "dump-path-not-found", "/dump_path")],
            {"elsewhere": True},
        ),
        (
            "off",
            {"enable_dump": False, "dump_path": "@DIR@"},
            [(W, "all-switches-off", "/enable_dump")],
        ),
        ("forgotten", {"dump_path": "@DIR@", "dump_mode": "all"}, [(E, "all-switches-off", "")]),
        (
            "misspelt-switch",
            npu("enable_dump", enable_dumps=True),
            [(E, "all-switches-off", ""), (W, "unknown-key", "/enable_dumps")],
        ),
        (
            "misspelt-switch-off",
            npu(enable_dump=False, enable_dumps=False),
            [(W, "all-switches-off", "/enable_dump"), (W, "unknown-key", "/enable_dumps")],
        ),
        (
            "enable",
            npu("enable_dump", enable=True),
            [(E, "all-switches-off", ""), (W, "unknown-key", "/enable")],
        ),
        ("others", npu(quant_dumpable="1", enable_exception_dump=1), []),
        (
            "other-values",
            npu(quant_dumpable="2", enable_exception_dump=3),
            [(W, "enum", "/quant_dumpable"), (W, "enum", "/enable_exception_dump")],
        ),
        (
            "other-types",
            npu(quant_dumpable=1, enable_exception_dump="1"),
            [(E, "type", "/quant_dumpable"), (E, "type", "/enable_exception_dump")],
        ),
        (
            "exceptions-only",
            {"enable_exception_dump": 1, "dump_path": "@DIR@", "enable_dump": False},
            [],
        ),
        ("layer-pattern", npu(dump_layer="a conv*"), [(W, "layer-pattern", "/dump_layer")]),
        ("type-enable", npu(enable_dump="True"), [(E, "type", "/enable_dump")]),
        ("type-enable-number", npu(enable_dump=1), [(E, "type", "/enable_dump")]),
        ("type-step", npu(dump_step=5), [(E, "type", "/dump_step")]),
        ("type-layer", npu(dump_layer=["a"]), [(E, "type", "/dump_layer")]),
        ("layer-commas", npu(dump_layer="a,b"), [(W, "layer-separator", "/dump_layer")]),
        ("layer-twice", npu(dump_layer="a b a"), [(W, "duplicate-layer", "/dump_layer")]),
        ("layer-empty", npu(dump_layer=" "), [(W, "empty-value", "/dump_layer")]),
        (
            "aicore",
            debug(dump_debug_mode="aicore_overflow"),
            [(N, "debug-mode-product", "/dump_debug_mode")],
        ),
        (
            "atomic",
            debug(dump_debug_mode="atomic_overflow"),
            [(N, "debug-mode-product", "/dump_debug_mode")],
        ),
        ("layer-in-debug", debug(dump_layer="a"), [(N, "idle-setting", "/dump_layer")]),
        (
            "since",
            npu(dump_data="tensor", dump_layer="a"),
            [(W, "newer-than-cann", "/dump_data"), (W, "newer-than-cann", "/dump_layer")],
            {"cann": "20.2"},
        ),
        ("since-old-enough", npu(dump_data="tensor"), [], {"cann": "5.1.RC1"}),
        ("model-layer", npu(dump_layer="pool fused_conv"), [], {"om": True}),
        (
            "model-layer-unknown",
            npu(dump_layer="pool poll"),
            [(E, "unknown-layer", "/dump_layer")],
            {"om": True},
        ),
        (
            "model-layer-data",
            npu(dump_layer="input"),
            [(E, "never-dumps", "/dump_layer")],
            {"om": True},
        ),
        (
            "model-layer-original",
            npu(dump_layer="bn1"),
            [(N, "fused-layer", "/dump_layer")],
            {"om": True},
        ),
        (
            "duplicate-key",
            '{"enable_dump": true, "enable_dump": true, "dump_path": "@DIR@"}',
            [(W, "duplicate-key", "/enable_dump")],
        ),
    ]
    + [
        (
            "mode-%s" % value,
            npu(dump_mode=value),
            [] if good else [(E, "enum" if value else "empty-value", "/dump_mode")],
        )
        for value, good in (("input", 1), ("output", 1), ("all", 1), ("Output", 0), ("", 0))
    ]
    + [
        (
            "debug-mode-%s" % value,
            debug(dump_debug_mode=value),
            [] if good else [(E, "enum", "/dump_debug_mode")],
        )
        for value, good in (("all", 1), ("aicore", 0))
    ]
    + [
        ("data-%s" % value, npu(dump_data=value), [] if good else [(E, "enum", "/dump_data")])
        for value, good in (("tensor", 1), ("stats", 1), ("stat", 0))
    ]
    + [
        ("step-%s" % text, npu(dump_step=text), [(E, rule, "/dump_step")] if rule else [])
        for text, rule in (
            ("0", ""),
            ("", ""),
            ("0|5-9", ""),
            ("5-5", "step-equal"),
            ("5|", "step-syntax"),
            ("5-", "step-syntax"),
            ("-5", "step-syntax"),
            ("9-5", "step-reversed"),
            ("2147483648", "step-too-large"),
            ("1 2", "step-syntax"),
            ("|".join(map(str, range(101))), "step-too-many"),
        )
    ]
)

RUN = "NPURunConfig(dump_config=%s)"
NAMED = 'o = c.graph_options.rewrite_options.custom_optimizers.add()\no.name = "NpuOptimizer"\n'
OFF = "c.graph_options.rewrite_options.remapping = RewriterConfig.OFF\n"
OFF_LINE = 'o.parameter_map["use_off_line"].b = True\n'
CUSTOM = NAMED + OFF + OFF_LINE
MAP = (
    CUSTOM + 'o.parameter_map["enable_dump"].b = True\no.parameter_map["dump_path"].s = '
    'tf.compat.as_bytes("@DIR@")\n'
)
TF2 = (
    "npu.global_options().dump_config.enable_dump = "
    'True\nnpu.global_options().dump_config.dump_path = "@DIR@"\n'
)

PYTHON_CASES = [
    ("call", RUN % 'DumpConfig(enable_dump=True, dump_path="@DIR@")', []),
    ("call-positional", RUN % 'DumpConfig(True, "@DIR@", "0|5-9", "all")', []),
    ("call-ints", RUN % 'DumpConfig(enable_dump=1, dump_path="@DIR@", enable_dump_debug=0)', []),
    (
        "call-renamed",
        "from npu_bridge.estimator.npu.npu_config import DumpConfig as "
        "Dump\nNPURunConfig(dump_config=Dump(enable_dump=True))",
        [(E, "dump-path-missing", "")],
    ),
    (
        "call-module",
        RUN % 'npu_config.DumpConfig(enable_dump=True, dump_path="@DIR@", dump_mode="outputs")',
        [(E, "enum", "/dump_mode")],
    ),
    (
        "call-unknown",
        RUN % 'DumpConfig(enable_dump=True, dump_pth="@DIR@", dump_path="@DIR@")',
        [(E, "unknown-keyword", "/dump_pth")],
    ),
    (
        "call-of-the-run-config",
        RUN % 'DumpConfig(enable_dump=True, dump_path="@DIR@", op_debug_level=1)',
        [(E, "unknown-keyword", "/op_debug_level")],
    ),
    (
        "call-too-many",
        RUN % 'DumpConfig(True, "@DIR@", None, "all", False, "all", "tensor", None, 1)',
        [(E, "unknown-keyword", "")],
    ),
    (
        "call-no-path",
        "x = DumpConfig(enable_dump=True)\nNPURunConfig(dump_config=x)",
        [(E, "dump-path-missing", "")],
    ),
    (
        "call-both",
        RUN % 'DumpConfig(enable_dump=True, enable_dump_debug=True, dump_path="@DIR@")',
        [(E, "dump-with-debug", "/enable_dump_debug")],
    ),
    (
        "call-repeated",
        RUN % 'DumpConfig(True, "@DIR@", enable_dump=True)',
        [(E, "repeated-argument", "/enable_dump")],
    ),
    (
        "call-step-int",
        RUN % 'DumpConfig(enable_dump=True, dump_path="@DIR@", dump_step=5)',
        [(E, "type", "/dump_step")],
    ),
    (
        "call-step",
        RUN % 'DumpConfig(enable_dump=True, dump_path="@DIR@", dump_step="5-5")',
        [(E, "step-equal", "/dump_step")],
    ),
    (
        "call-computed",
        RUN % "DumpConfig(enable_dump=FLAGS.dump, dump_path=os.path.join(a, b), dump_step=str(n), "
        "dump_mode=mode())",
        [(N, "not-known", "/enable_dump")],
    ),
    (
        "call-computed-path",
        RUN % "DumpConfig(enable_dump=True, dump_path=path)",
        [(N, "not-known", "/dump_path")],
    ),
    ("call-kwargs", RUN % "DumpConfig(enable_dump=True, **settings)", []),
    ("call-starred", RUN % "DumpConfig(*settings)", []),
    ("call-off", "DumpConfig()", [(W, "all-switches-off", "")]),
    (
        "run-config-wrong",
        'NPURunConfig(dump_config={"enable_dump": True})',
        [(E, "type", "/dump_config")],
    ),
    ("run-config-none", "NPURunConfig(dump_config=None)", [(W, "no-dump-section", "")]),
    ("map", MAP, []),
    (
        "map-renamed",
        CUSTOM + 'm = o.parameter_map\nm["enable_dump"].b = True\n',
        [(E, "dump-path-missing", "")],
    ),
    (
        "map-bytes",
        CUSTOM
        + 'o.parameter_map["enable_dump"].b = True\no.parameter_map["dump_path"].s = b"@DIR@"\n',
        [],
    ),
    (
        "map-encode",
        CUSTOM + 'o.parameter_map["enable_dump"].b = True\no.parameter_map["dump_path"].s = '
        '"@DIR@".encode()\n',
        [],
    ),
    (
        "map-text",
        CUSTOM
        + 'o.parameter_map["enable_dump"].b = True\no.parameter_map["dump_path"].s = "@DIR@"\n',
        [(E, "type", "/dump_path")],
    ),
    (
        "map-member",
        MAP + 'o.parameter_map["enable_dump_debug"].s = b"1"\n',
        [(E, "parameter-member", "/enable_dump_debug")],
    ),
    (
        "map-misspelt",
        MAP + 'o.parameter_map["dump_stp"].s = b"1"\n',
        [(W, "unknown-key", "/dump_stp")],
    ),
    (
        "map-others",
        MAP + 'o.parameter_map["precision_mode"].s = '
        'b"x"\no.parameter_map["enable_exception_dump"].i = 1\n',
        [],
    ),
    (
        "map-exception",
        MAP + 'o.parameter_map["enable_exception_dump"].i = 7\n',
        [(W, "enum", "/enable_exception_dump")],
    ),
    (
        "map-quant-member",
        MAP + 'o.parameter_map["quant_dumpable"].b = True\n',
        [(E, "parameter-member", "/quant_dumpable")],
    ),
    ("map-quant", MAP + 'o.parameter_map["quant_dumpable"].s = tf.compat.as_bytes("1")\n', []),
    (
        "map-quant-value",
        MAP + 'o.parameter_map["quant_dumpable"].s = b"on"\n',
        [(W, "enum", "/quant_dumpable")],
    ),
    (
        "map-mode",
        MAP + 'o.parameter_map["dump_mode"].s = tf.compat.as_bytes("al")\n',
        [(E, "enum", "/dump_mode")],
    ),
    (
        "map-no-path",
        CUSTOM + 'o.parameter_map["enable_dump"].b = True\n',
        [(E, "dump-path-missing", "")],
    ),
    (
        "map-two-functions",
        'def f(o):\n    o.parameter_map["enable_dump"].b = True\ndef g(o):\n    '
        'o.parameter_map["dump_path"].s = b"@DIR@"\n',
        [],
    ),
    (
        "map-branches",
        CUSTOM + 'if x:\n    o.parameter_map["enable_dump"].b = True\nelse:\n    '
        'o.parameter_map["enable_dump"].b = False\n',
        [],
    ),
    ("tf2", TF2, []),
    (
        "tf2-unknown",
        TF2 + 'npu.global_options().dump_config.dump_stp = "1"\n',
        [(E, "unknown-option", "/dump_stp")],
    ),
    (
        "tf2-alias",
        "o = npu.global_options()\no.dump_config.enable_dump = True\nd = "
        'o.dump_config\nd.dump_path = "/no/such"\n',
        [(E, "dump-path-not-found", "/dump_path")],
    ),
    (
        "tf2-annotated",
        "d: object = npu.global_options().dump_config\nd.enable_dump = True\n",
        [(E, "dump-path-missing", "")],
    ),
    (
        "tf2-type",
        TF2 + 'npu.global_options().dump_config.enable_dump_debug = "1"\n',
        [(E, "type", "/enable_dump_debug")],
    ),
    (
        "switch-misspelt",
        NAMED + OFF + OFF_LINE + 'o.parameter_map["enable_dumps"].b = True\n',
        [(W, "unknown-key", "/enable_dumps"), (E, "all-switches-off", "")],
    ),
    (
        "switch-misspelt-off",
        NAMED + OFF + OFF_LINE + 'o.parameter_map["enable_dumps"].b = False\n',
        [(W, "unknown-key", "/enable_dumps"), (W, "all-switches-off", "")],
    ),
    (
        "call-switch-misspelt",
        RUN % 'DumpConfig(enable_dumps=True, dump_path="@DIR@")',
        [(E, "unknown-keyword", "/enable_dumps"), (W, "all-switches-off", "")],
    ),
    ("no-off-line", MAP.replace(OFF_LINE, ""), []),
    (
        "no-off-line-in-a-program",
        MAP.replace(OFF_LINE, "") + "with tf.Session(config=c) as s: pass\n",
        [],
    ),
    (
        "off-line-off",
        MAP.replace(OFF_LINE, OFF_LINE.replace("True", "False")),
        [(E, "use-off-line", "")],
    ),
    ("off-line-off-at-last", MAP + OFF_LINE.replace("True", "False"), []),
    ("off-line-off-and-on", OFF_LINE.replace("True", "False") + MAP, []),
    ("off-line-computed", MAP.replace(OFF_LINE, OFF_LINE.replace("True", "npu")), []),
    (
        "off-line-off-without-dump",
        NAMED + OFF + 'if npu:\n    o.parameter_map["enable_dump"].b = True\n    '
        'o.parameter_map["dump_path"].s = b"@DIR@"\n'
        'else:\n    o.parameter_map["use_off_line"].b = False\n',
        [],
    ),
    (
        "off-line-off-of-another",
        MAP
        + 'p = d.graph_options.rewrite_options.custom_optimizers.add()\np.name = "NpuOptimizer"\n'
        'p.parameter_map["use_off_line"].b = False\n',
        [],
    ),
    ("no-remapping", MAP.replace(OFF, ""), [(W, "remapping", "")]),
    (
        "remapping-on",
        MAP.replace("RewriterConfig.OFF", "RewriterConfig.ON"),
        [(W, "remapping", "")],
    ),
    (
        "remapping-keyword",
        MAP.replace(OFF, "r = RewriterConfig(remapping=RewriterConfig.OFF)\n"),
        [],
    ),
    (
        "optimizer-name",
        MAP.replace('"NpuOptimizer"', '"NPUOptimizer"'),
        [(E, "optimizer-name", "")],
    ),
    ("optimizer-nameless", MAP.replace('o.name = "NpuOptimizer"', ""), [(W, "optimizer-name", "")]),
    (
        "optimizer-nameless-passed-on",
        MAP.replace('o.name = "NpuOptimizer"', "complete(o)"),
        [(W, "optimizer-name", "")],
    ),
    (
        "optimizer-nameless-in-a-config-passed-on",
        MAP.replace('o.name = "NpuOptimizer"', "complete(c)"),
        [(W, "optimizer-name", "")],
    ),
    (
        "optimizer-named-by-number",
        MAP.replace("o.name =", "c.graph_options.rewrite_options.custom_optimizers[0].name ="),
        [],
    ),
    (
        "optimizer-keyword",
        MAP.replace("add()", 'add(name="NpuOptimizer")').replace('o.name = "NpuOptimizer"', ""),
        [],
    ),
    ("optimizer-computed", MAP.replace('"NpuOptimizer"', "NAME"), []),
    (
        "helper",
        MAP.replace(OFF, "").replace(OFF_LINE, "") + "c = npu_config_proto(config_proto=c)\n",
        [],
    ),
    (
        "nothing-to-dump",
        NAMED + 'o.parameter_map["enable_dump"].b = False\n',
        [(W, "all-switches-off", "/enable_dump")],
    ),
    ("unused", 'DumpConfig(enable_dump=True, dump_path="@DIR@")', [(E, "dump-config-unused", "")]),
    (
        "unused-name",
        'd = DumpConfig(enable_dump=True, dump_path="@DIR@")',
        [(W, "dump-config-unused", "")],
    ),
    (
        "unused-by-run-config",
        'd = DumpConfig(True, "@DIR@")\nNPURunConfig(model_dir="m")',
        [(E, "dump-config-unused", "")],
    ),
    (
        "unused-in-function",
        'def f():\n    d = DumpConfig(True, "@DIR@")\n',
        [(E, "dump-config-unused", "")],
    ),
    (
        "unused-beside-an-estimator",
        'd = DumpConfig(True, "@DIR@")\nNPUEstimator(config=RunConfig())',
        [(E, "dump-config-unused", "")],
    ),
    (
        "unused-for-none",
        'd = DumpConfig(True, "@DIR@")\nNPURunConfig(dump_config=None)',
        [(E, "dump-config-unused", "")],
    ),
    (
        "unused-beside-another",
        'd = DumpConfig(True, "@DIR@")\no = DumpConfig()\nNPURunConfig(dump_config=o)',
        [(E, "dump-config-unused", ""), (W, "all-switches-off", "")],
    ),
    (
        "replaced",
        'd = DumpConfig(True, "@DIR@")\nd = None\nNPURunConfig(dump_config=d)',
        [],
    ),
    (
        "replaced-in-a-branch",
        'd = DumpConfig(True, "@DIR@")\nif off:\n    d = None\nNPURunConfig(dump_config=d)',
        [],
    ),
    (
        "replaced-after-use",
        'd = DumpConfig(True, "@DIR@")\nNPURunConfig(dump_config=d)\nd = None\n',
        [],
    ),
    (
        "global",
        'def f():\n    global d\n    d = DumpConfig(True, "@DIR@")\ndef g():\n    '
        "NPURunConfig(dump_config=d)\n",
        [],
    ),
    (
        "used-by-class",
        'class A:\n    d = DumpConfig(True, "@DIR@")\nNPURunConfig(dump_config=A.d)\n',
        [],
    ),
    (
        "used-by-object",
        'self.d = DumpConfig(True, "@DIR@")\nNPURunConfig(dump_config=other.d)\n',
        [],
    ),
    ("used-by-key", 'k["d"] = DumpConfig(True, "@DIR@")\nNPURunConfig(dump_config=k["d"])\n', []),
    (
        "used-elsewhere",
        'd = DumpConfig(True, "@DIR@")\ndef f():\n    NPURunConfig(dump_config=d)\n',
        [],
    ),
    ("used-in-function", 'def f():\n    d = DumpConfig(True, "@DIR@")\n    return d\n', []),
    ("used-attribute", 'self.d = DumpConfig(True, "@DIR@")\nNPURunConfig(dump_config=self.d)', []),
    ("used-by-keywords", 'd = DumpConfig(True, "@DIR@")\nNPURunConfig(**dict(dump_config=d))', []),
    ("passed-on", 'start(DumpConfig(True, "@DIR@"))', []),
    ("other-config", "model.dump_config.enable = True\nx.foo = 1\n", [(W, "no-dump-section", "")]),
    ("empty", "", [(W, "empty-file", "")]),
    ("no-settings", "print(1)\n", [(W, "no-dump-section", "")]),
    ("python-two", 'print "hello"\n', [(E, "python-syntax", "")]),
    ("not-executed", "raise SystemExit(7)\n" + TF2, []),
    ("brackets", "x = " + "(" * 3000 + ")" * 3000, [(E, "file-too-deep", "")]),
    (
        "attributes",
        "x" + ".b" * 50000 + '.parameter_map["enable_dump"].b = True',
        [(E, "python-syntax", "")],
    ),
    ("operators", "x = " + "-" * 100000 + "1", [(E, "python-syntax", "")]),
    (
        "layer",
        RUN % 'DumpConfig(enable_dump=True, dump_path="@DIR@", dump_layer="pool nothing")',
        [(E, "unknown-layer", "/dump_layer")],
        {"om": True},
    ),
]

D, G = 'o.parameter_map["enable_dump"].b = %s\n', 'o.parameter_map["enable_dump_debug"].b = %s\n'
ON, DEBUG = D % True, G % True
PATH = 'o.parameter_map["dump_path"].s = b"@DIR@"\n'
BOTH = [(E, "dump-with-debug", "/enable_dump_debug")]
MAYBE = [(N, "dump-with-debug", "/enable_dump_debug")]


def branch(head, *lines):
    return (
        head + ":\n" + "".join("    " + line + "\n" for text in lines for line in text.splitlines())
    )


SWITCH_CASES = [
    (name, CUSTOM + PATH + text, expected)
    for name, text, expected in (
        ("in-a-row", ON + DEBUG, BOTH),
        ("one-of-two-ifs", branch("if a", ON) + branch("if b", DEBUG), MAYBE),
        ("if-else", branch("if a", ON) + branch("else", DEBUG), []),
        ("elif", branch("if a", ON) + branch("elif b", DEBUG), []),
        (
            "elif-then-both",
            branch("if a", ON) + branch("elif b", DEBUG, ON) + branch("else", "pass"),
            BOTH,
        ),
        ("option-on-top", ON + branch("if overflow", DEBUG), BOTH),
        ("option-instead", ON + branch("if overflow", D % False, DEBUG), MAYBE),
        ("set-back", ON + D % False + DEBUG, MAYBE),
        ("computed", D % "args.dump" + DEBUG, [(N, "not-known", "/enable_dump")]),
        (
            "both-computed",
            D % "args.dump" + G % "not args.dump",
            [(N, "not-known", "/enable_dump")],
        ),
        (
            "early-return",
            branch("def f(o)", branch("if a", ON, "return o"), DEBUG, "return o"),
            MAYBE,
        ),
        ("no-return", branch("def f(o)", branch("if a", ON), DEBUG, "return o"), MAYBE),
        ("in-a-loop", branch("for mode in modes", ON, DEBUG), BOTH),
        ("while-true", branch("while True", ON, "break") + DEBUG, MAYBE),
        ("try", branch("try", ON) + branch("except KeyError", D % False, DEBUG), MAYBE),
        ("try-both", branch("try", ON) + branch("except KeyError", DEBUG), MAYBE),
        ("finally", branch("try", ON) + branch("finally", DEBUG), MAYBE),
        ("with", branch("with tf.Session() as s", ON) + DEBUG, BOTH),
        ("always-taken", ON + branch("if 1", DEBUG), BOTH),
        ("two-optimizers", ON + CUSTOM + PATH + DEBUG, MAYBE),
        ("optimizer-from-elsewhere", ON + "o = change(o)\n" + DEBUG, MAYBE),
        ("two-functions", branch("def f(o)", ON) + branch("def g(o)", DEBUG), []),
        (
            "many-elifs",
            branch("if a == 0", ON)
            + "".join(branch("elif a == %d" % number, DEBUG) for number in range(1, 400)),
            [],
        ),
    )
] + [
    (
        "tf2-two-ifs",
        branch(
            "def f(a, b)",
            branch("if a", TF2),
            branch("if b", TF2.replace("enable_dump", "enable_dump_debug")),
        ),
        MAYBE,
    ),
    (
        "tf2-else",
        branch("if a", TF2) + branch("else", TF2.replace("enable_dump", "enable_dump_debug")),
        [],
    ),
    ("tf2-in-a-row", TF2 + TF2.replace("enable_dump", "enable_dump_debug"), BOTH),
    (
        "tf2-two-functions",
        branch("def f()", TF2) + branch("def g()", TF2.replace("enable_dump", "enable_dump_debug")),
        MAYBE,
    ),
    (
        "calls-in-branches",
        branch("if a", RUN % 'DumpConfig(True, "@DIR@")')
        + branch("else", RUN % 'DumpConfig(enable_dump_debug=True, dump_path="@DIR@")'),
        [],
    ),
]

AIR = "import torchair\nc = torchair.CompilerConfig()\nc.dump_config.enable_dump = True\n"
AIR_PATH = 'c.dump_config.dump_path = "@DIR@"\n'

AIR_AS_ACL = 'import torchair\nc.dump_config.dump_config_path = "%s"\n'
GRAPH = 'torch.compile(m, backend="npugraph_ex", options={%s})\n'
AIR_PLAIN = 'c.mode = "%s"\n'

# Values that stand behind names.
NAME_CASES = [
    (
        "name-of-a-value",
        'MODE = "outputs"\n' + RUN % 'DumpConfig(True, "@DIR@", dump_mode=MODE)',
        [(E, "enum", "/dump_mode")],
    ),
    (
        "name-of-a-name",
        'A = "outputs"\nB = A\n' + RUN % 'DumpConfig(True, "@DIR@", dump_mode=B)',
        [(E, "enum", "/dump_mode")],
    ),
    (
        "name-of-a-text",
        MAP.replace('tf.compat.as_bytes("@DIR@")', "folder") + 'folder = "@DIR@"\n',
        [(E, "type", "/dump_path")],
    ),
    (
        "name-that-is-converted",
        'folder = "@DIR@"\n' + MAP.replace('"@DIR@"', "folder"),
        [],
    ),
    (
        "name-of-a-key",
        'KEY = "dump_stp"\n' + MAP + 'o.parameter_map[KEY].s = b"1"\n',
        [(W, "unknown-key", "/dump_stp")],
    ),
    (
        "name-assigned-twice",
        'M = "outputs"\nif a:\n    M = "all"\n' + RUN % 'DumpConfig(True, "@DIR@", dump_mode=M)',
        [(N, "not-known", "/dump_mode")],
    ),
    (
        "name-of-a-parameter",
        'M = "outputs"\ndef f(M):\n    return ' + RUN % 'DumpConfig(True, "@DIR@", dump_mode=M)',
        [(N, "not-known", "/dump_mode")],
    ),
    (
        "attribute-set-in-another-method",
        'class A:\n def f(self):\n  self.mode = "outputs"\n def g(self):\n  return '
        + RUN % 'DumpConfig(True, "@DIR@", dump_mode=self.mode)',
        [(E, "enum", "/dump_mode")],
    ),
    (
        "attribute-set-for-another-object-too",
        'class A:\n def f(self):\n  self.mode = "outputs"\n def g(self):\n  return '
        + RUN % 'DumpConfig(True, "@DIR@", dump_mode=self.mode)'
        + '\nA().mode = "all"\n',
        [(N, "not-known", "/dump_mode")],
    ),
    (
        "attribute-set-in-a-loop",
        "class A:\n def f(self):\n  for self.mode in MODES: pass\n def g(self):\n  return "
        + RUN % 'DumpConfig(True, "@DIR@", dump_mode=self.mode)',
        [(N, "not-known", "/dump_mode")],
    ),
    (
        "set-anew",
        CUSTOM + MAP + 'o.parameter_map["dump_mode"].s = b"all"\nrun()\n'
        'o.parameter_map["dump_mode"].s = b"input"\n',
        [(N, "set-anew", "/dump_mode")],
    ),
    (
        "set-anew-of-torchair",
        "from torchair.configs.compiler_config import CompilerConfig\nc = CompilerConfig()\n"
        'c.dump_config.enable_dump = True\nc.dump_config.dump_path = "@DIR@"\n'
        'c.dump_config.dump_mode = "all"\nb = get_npu_backend(compiler_config=c)\n'
        'c.dump_config.dump_mode = "input"\nb = get_npu_backend(compiler_config=c)\n',
        [(N, "set-anew", "/dump_mode")],
    ),
    (
        "name-of-itself",
        "M = M\n" + RUN % 'DumpConfig(True, "@DIR@", dump_mode=M)',
        [(N, "not-known", "/dump_mode")],
    ),
]

ELSEWHERE = [(N, "not-judged", "")]

OTHER_CASES = NAME_CASES + [
    (
        "config-of-a-module",
        "import settings as s\nNPURunConfig(dump_config=s.dump)\n",
        ELSEWHERE,
    ),
    (
        "config-by-name-of-a-module",
        "from settings import DUMP\nNPURunConfig(dump_config=DUMP)\n",
        ELSEWHERE,
    ),
    (
        "config-that-a-module-makes",
        "import settings\nc = settings.make()\nNPURunConfig(dump_config=c)\n",
        ELSEWHERE,
    ),
    ("config-of-a-parameter", "def f(c):\n    return NPURunConfig(dump_config=c)\n", ELSEWHERE),
    (
        "config-of-here-or-none",
        'd = DumpConfig(True, "@DIR@")\nNPURunConfig(dump_config=d if on else None)\n',
        [],
    ),
    (
        "torch-environment",
        'os.environ.setdefault("TORCH_ACL_INIT_CONFIG_PATH", "acl.json")\nimport torch_npu\n',
        ELSEWHERE,
    ),
    ("run-config-by-stars", "import base\nNPURunConfig(**base.RUN)\n", ELSEWHERE),
    (
        "map-of-a-loop",
        "for k, v in opts.items():\n    custom_op.parameter_map[k].s = v\n",
        ELSEWHERE,
    ),
    ("scene-variable", 'os.environ["ASCEND_DUMP_SCENE"] = "lite_exception"\n', ELSEWHERE),
    (
        "variable-of-a-command",
        'os.system("TORCH_ACL_INIT_CONFIG_PATH=acl.json python train.py")\n',
        ELSEWHERE,
    ),
    (
        "runner-with-a-file",
        "from ais_bench.infer.interface import InferSession\n"
        'InferSession(0, "m.om", acl_json_path="acl.json")\n',
        ELSEWHERE,
    ),
    (
        "session-config-of-a-module",
        "from npu_bridge.npu_init import *\nfrom conf import c\ntf.Session(config=c)\n",
        ELSEWHERE,
    ),
    (
        "session-config-of-here",
        "from npu_bridge.npu_init import *\nc = tf.ConfigProto()\ntf.Session(config=c)\n",
        [(W, "no-dump-section", "")],
    ),
    (
        "air-config-of-a-module",
        "import torchair\nfrom conf import c\ntorchair.get_npu_backend(compiler_config=c)\n",
        ELSEWHERE,
    ),
    (
        "air-config-changed-by-a-module",
        "import torchair, conf\nc = torchair.CompilerConfig()\nconf.dumping(c)\n"
        "torchair.get_npu_backend(compiler_config=c)\n",
        ELSEWHERE,
    ),
    (
        "air-config-of-here",
        "import torchair\nc = torchair.CompilerConfig()\n"
        "torchair.get_npu_backend(compiler_config=c)\n",
        [(W, "no-dump-section", "")],
    ),
    ("air-whole-dump-config", "import torchair, conf\nc.dump_config = conf.dump\n", ELSEWHERE),
    (
        "options-set-in-a-loop",
        "import npu_device\nfor k, v in o:\n"
        "    setattr(npu_device.global_options().dump_config, k, v)\n",
        ELSEWHERE,
    ),
    (
        "options-handed-to-a-module",
        "import npu_device, conf\nconf.set(npu_device.global_options())\n",
        ELSEWHERE,
    ),
    (
        "npugraph-ex-options",
        GRAPH % '"dump_tensor_data": True, "data_dump_dir": "@DIR@", "data_dump_stage": "original"',
        [(N, "pytorch-files", "/dump_tensor_data")],
    ),
    (
        "npugraph-ex-values",
        GRAPH % '"dump_tensor_data": True, "data_dump_dir": "/no/such", "data_dump_stage": "last"',
        [
            (N, "pytorch-files", "/dump_tensor_data"),
            (E, "dump-path-not-found", "/data_dump_dir"),
            (E, "enum", "/data_dump_stage"),
        ],
    ),
    (
        "graph-options-of-a-call-of-dict",
        'o = dict(enable_dump=True, dump_path="@DIR@")\n'
        'torch.compile(m, backend="npugraph_ex", options=o)\n',
        [
            (E, "all-switches-off", ""),
            (E, "unknown-option", "/enable_dump"),
            (E, "unknown-option", "/dump_path"),
        ],
    ),
    (
        "npugraph-ex-by-name-and-off",
        'o = {"dump_tensor_data": False}\ntorch.compile(m, backend="npugraph_ex", options=o)\n',
        [(W, "all-switches-off", "/dump_tensor_data")],
    ),
    (
        "npugraph-ex-torchairs-names",
        GRAPH % '"enable_dump": True, "dump_path": "@DIR@"',
        [
            (E, "all-switches-off", ""),
            (E, "unknown-option", "/dump_path"),
            (E, "unknown-option", "/enable_dump"),
        ],
    ),
    (
        "npugraph-ex-other-options",
        GRAPH % '"clone_input": False',
        [(W, "no-dump-section", "")],
    ),
    (
        "npugraph-ex-names",
        'NAMES = {"dump_tensor_data": "dump_config.enable_dump"}\n',
        ELSEWHERE,
    ),
    (
        "npugraph-ex-compile-fx",
        'compile_fx(m, x, options={"dump_tensor_data": True, "data_dump_stage": "last"})\n',
        [
            (N, "pytorch-files", "/dump_tensor_data"),
            (N, "dump-path-missing", ""),
            (E, "enum", "/data_dump_stage"),
        ],
    ),
    (
        "config-of-a-layer",
        "from npu_bridge.npu_init import *\nimport modeling\nc = modeling.read()\n"
        "modeling.BertModel(config=c)\n",
        [(W, "no-dump-section", "")],
    ),
    (
        "vllm-additional-config",
        'LLM(model="m", additional_config={"dump_config_path": "msprobe.json"})\n',
        ELSEWHERE,
    ),
    (
        "npugraph-ex-computed",
        'torch.compile(m, backend="npugraph_ex", options=options())\n',
        ELSEWHERE,
    ),
    (
        "npugraph-ex-compiler-config",
        "from npugraph_ex.configs.compiler_config import CompilerConfig\nc = CompilerConfig()\n"
        'c.dump_tensor_data = True\nc.data_dump_dir = "@DIR@"\nc.data_dump_stage = "last"\n',
        [(N, "pytorch-files", "/dump_tensor_data"), (E, "enum", "/data_dump_stage")],
    ),
    (
        "npugraph-ex-one-tensor",
        'import torch_npu\ntorch_npu.save_npugraph_tensor(x, save_path="x.pt")\n',
        [(N, "pytorch-files", "")],
    ),
    ("air-acl-missing", AIR_AS_ACL % "none.json", [(E, "acl-file", "/dump_config_path")]),
    ("air-acl-empty", AIR_AS_ACL % "", [(E, "acl-file", "/dump_config_path")]),
    ("air-acl-suffix", AIR_AS_ACL % "@DIR@/file", [(E, "acl-file", "/dump_config_path")]),
    (
        "air-acl-elsewhere",
        AIR_AS_ACL % "/no/acl.json",
        [(N, "acl-file", "/dump_config_path")],
        {"elsewhere": True},
    ),
    (
        "air-without-ge",
        AIR + AIR_PATH + AIR_PLAIN % "reduce-overhead",
        [(N, "pytorch-files", "/enable_dump")],
    ),
    (
        "air-without-ge-idle",
        AIR
        + AIR_PATH
        + AIR_PLAIN % "npugraph_ex"
        + 'c.dump_config.dump_layer = "Add1"\nc.dump_config.dump_data = "stats"\n'
        'c.dump_config.data_dump_stage = "original"\n',
        [
            (N, "pytorch-files", "/enable_dump"),
            (W, "idle-setting", "/dump_data"),
            (W, "idle-setting", "/dump_layer"),
        ],
    ),
    (
        "air-without-ge-by-acl",
        AIR_AS_ACL % "@DIR@/acl.json" + AIR_PLAIN % "npugraph_ex",
        [(W, "all-switches-off", ""), (W, "idle-setting", "/dump_config_path")],
    ),
    ("air-mode-of-an-option", AIR + AIR_PATH + "c.mode = args.mode\n", []),
    (
        "air-mode-misspelt",
        AIR + AIR_PATH + AIR_PLAIN % "reduce_overhead",
        [(E, "enum", "/mode")],
    ),
    (
        "air-debug-misspelt",
        'import torchair\nc.debug.data_dump.type = "pt"\n',
        [(E, "enum", "")],
    ),
    (
        "air-graphs-misspelt",
        'import torchair\nc.debug.graph_dump.type = "onnx"\n',
        [(E, "enum", "")],
    ),
    ("air", AIR + AIR_PATH, []),
    ("air-no-path", AIR, [(N, "dump-path-missing", "")]),
    (
        "air-all",
        AIR + AIR_PATH + 'c.dump_config.dump_mode = "input"\nc.dump_config.dump_data = "stats"\n'
        "c.dump_config.quant_dumpable = True\n"
        'c.dump_config.dump_step = "0|2-5"\nc.dump_config.dump_layer = "Add_1Mul_1 '
        'x/y.z"\nc.dump_config.data_dump_stage = "original"\n',
        [(N, "idle-setting", "/data_dump_stage")],
    ),
    (
        "air-mode",
        AIR + AIR_PATH + 'c.dump_config.dump_mode = "alll"\n',
        [(E, "enum", "/dump_mode")],
    ),
    (
        "air-step",
        AIR + AIR_PATH + 'c.dump_config.dump_step = "0|5|3-2"\n',
        [(E, "step-reversed", "/dump_step")],
    ),
    (
        "air-step-syntax",
        AIR + AIR_PATH + 'c.dump_config.dump_step = "5|"\n',
        [(E, "step-syntax", "/dump_step")],
    ),
    (
        "air-layer",
        AIR + AIR_PATH + 'c.dump_config.dump_layer = "a,b"\n',
        [(E, "layer-characters", "/dump_layer")],
    ),
    ("air-switch", AIR.replace("True", '"1"') + AIR_PATH, [(E, "type", "/enable_dump")]),
    ("air-off", AIR.replace("True", "False") + AIR_PATH, [(W, "all-switches-off", "/enable_dump")]),
    (
        "air-off-given-to-torchair",
        AIR.replace("True", "False") + AIR_PATH + "torchair.get_npu_backend(compiler_config=c)\n",
        [(W, "all-switches-off", "/enable_dump")],
    ),
    (
        "air-off-given-to-another-module",
        AIR.replace("True", "False") + AIR_PATH + "complete(c)\n",
        [],
    ),
    (
        "air-acl",
        'import torchair\nc.dump_config.dump_config_path = "acl.json"\n',
        [(N, "acl-file", "/dump_config_path")],
    ),
    (
        "air-unknown",
        AIR + AIR_PATH + "c.dump_config.dump_level = 1\n",
        [(E, "unknown-option", "/dump_level")],
    ),
    (
        "air-path",
        AIR + 'c.dump_config.dump_path = "/no/such"\n',
        [(E, "dump-path-not-found", "/dump_path")],
    ),
    (
        "air-alias",
        "from torchair.configs.compiler_config import CompilerConfig\nc = CompilerConfig()\nd "
        "= c.dump_config\n"
        "d.enable_dump = True\n" + AIR_PATH,
        [],
    ),
    (
        "air-two-functions",
        "import torchair\ndef f(c):\n    c.dump_config.enable_dump = True\ndef g(c):\n    "
        + AIR_PATH,
        [],
    ),
    (
        "air-debug",
        'import torchair\nc = torchair.CompilerConfig()\nc.debug.data_dump.type = "npy"\n',
        [(N, "fx-dump", "")],
    ),
    (
        "air-debug-computed",
        "import torchair\nc = torchair.CompilerConfig()\nc.debug.data_dump.type = kind()\n",
        [(N, "not-judged", "")],
    ),
    (
        "air-debug-beside-dump",
        AIR + AIR_PATH + 'c.debug.data_dump.type = "npy"\n',
        [(N, "fx-dump", ""), (W, "idle-setting", "/enable_dump")],
    ),
    (
        "air-debug-or-dump",
        "import torchair\nc = torchair.CompilerConfig()\n"
        'if fx:\n    c.debug.data_dump.type = "npy"\nelse:\n'
        "    c.dump_config.enable_dump = True\n    " + AIR_PATH,
        [(N, "fx-dump", "")],
    ),
    (
        "air-debug-of-another",
        AIR + AIR_PATH + 'd = torchair.CompilerConfig()\nd.debug.data_dump.type = "npy"\n',
        [(N, "fx-dump", "")],
    ),
    (
        "another-module-s-maker",
        "from mylib.dump import make\nc = make(dump_path='/tmp')\n",
        [(N, "not-judged", "")],
    ),
    (
        "another-module-by-its-name",
        "import mylib.dump as d\nc = d.make(enable_dump=True)\n",
        [(N, "not-judged", "")],
    ),
    (
        "nobody-s-dump-config",
        "def f(c):\n    c.dump_config.enable_dump = True\n",
        [(N, "not-judged", "")],
    ),
    (
        "session-dump-config",
        CUSTOM + "c = tool.session_dump_config(c, action='dump|fusion_off')\n",
        [(N, "not-judged", "")],
    ),
    (
        "session-dump-config-beside-off",
        CUSTOM + D % False + "c = tool.session_dump_config(c)\n",
        [(N, "not-judged", "")],
    ),
    (
        "update-custom-op",
        CUSTOM + "o = tool.update_custom_op(o, action='overflow')\n",
        [(N, "not-judged", "")],
    ),
    (
        "estimator-dump-config",
        "NPURunConfig(dump_config=tool.estimator_dump_config(action='dump'))\n",
        [(N, "not-judged", "")],
    ),
    ("own-helper", "def set_dump_config(o):\n    %s    %sset_dump_config(o)\n" % (ON, PATH), []),
    (
        "own-helper-without-dump",
        "def dump_config(o):\n    return o\ndump_config(1)\n",
        [(W, "no-dump-section", "")],
    ),
    ("handed-to-another-module", CUSTOM + D % False + "complete(o)\n", []),
    (
        "handed-to-a-function-here",
        "def complete(o):\n    pass\n" + CUSTOM + D % False + "complete(o)\n",
        [(W, "all-switches-off", "/enable_dump")],
    ),
    (
        "mindspore-environment",
        'import os\nos.environ["MINDSPORE_DUMP_CONFIG"] = "/x/data_dump.json"\n',
        [(N, "not-judged", "")],
    ),
    (
        "mindspore-environment-behind-init",
        "import os\nfrom mindspore.communication import init\ninit()\n"
        'os.environ["MINDSPORE_DUMP_CONFIG"] = "/x/data_dump.json"\n',
        [(W, "set-too-late", ""), (N, "not-judged", "")],
    ),
    (
        "mindspore-environment-by-default-behind-init",
        "import os\nimport mindspore as ms\nms.communication.init()\n"
        'os.environ.setdefault("MINDSPORE_DUMP_CONFIG", "/x/data_dump.json")\n',
        [(W, "set-too-late", ""), (N, "not-judged", "")],
    ),
    (
        "mindspore-environment-before-init",
        "import os\nfrom mindspore.communication import init\n"
        'os.environ["MINDSPORE_DUMP_CONFIG"] = "/x/data_dump.json"\ninit()\n'
        'os.environ["MINDSPORE_DUMP_CONFIG"] = "/x/data_dump.json"\n',
        [(N, "not-judged", "")],
    ),
    (
        "mindspore-environment-behind-another-init",
        "import os\nfrom mine import init\ninit()\n"
        'os.environ["MINDSPORE_DUMP_CONFIG"] = "/x/data_dump.json"\n',
        [(N, "not-judged", "")],
    ),
    (
        "another-module-is-asked",
        "from mine.npu import config_of\nconfig = config_of(dump=True)\n",
        [(N, "not-judged", "")],
    ),
    (
        "another-modules-json",
        "from mine import save\nsave(dump_to='x')\n",
        [(W, "no-dump-section", "")],
    ),
    ("acl-init", 'import acl\nacl.init("acl.json")\n', [(N, "not-judged", "")]),
    (
        "vllm-both-entries",
        'from vllm import LLM\nLLM("m", additional_config={"dump_config": {"task": "tensor"}, '
        '"dump_config_path": "a.json"})\n',
        [(E, "both-set", ""), (N, "not-judged", ""), (N, "not-judged", "")],
    ),
    (
        "vllm-one-entry-is-none",
        'from vllm import LLM\nLLM("m", additional_config={"dump_config": {"task": "tensor"}, '
        '"dump_config_path": None})\n',
        [(N, "not-judged", ""), (N, "not-judged", "")],
    ),
    (
        "acl-init-without-a-file",
        'import acl\nacl.init()\nacl.mdl.load_from_file("m.om")\n',
        [(W, "no-dump-section", "")],
    ),
    (
        "acl-set-dump-behind-the-model",
        'import acl\nacl.init()\nm, _ = acl.mdl.load_from_file("m.om")\nacl.mdl.init_dump()\n'
        'acl.mdl.set_dump("acl.json")\n',
        [(N, "not-judged", ""), (W, "set-too-late", "")],
    ),
    (
        "acl-set-dump-before-the-model",
        'import acl\nacl.init()\nacl.mdl.init_dump()\nacl.mdl.set_dump("acl.json")\n'
        'm, _ = acl.mdl.load_from_file("m.om")\n',
        [(N, "not-judged", "")],
    ),
    (
        "acl-set-dump-between-two-models",
        'import acl\na = acl.mdl.load_from_file("a.om")\nacl.mdl.set_dump("acl.json")\n'
        "b = acl.mdl.load_from_mem(data, size)\n",
        [(N, "not-judged", "")],
    ),
    (
        "acl-set-dump-in-a-loop-over-models",
        "import acl\nfor name in models:\n    a = acl.mdl.load_from_file(name)\n"
        '    acl.mdl.set_dump("acl.json")\n',
        [(N, "not-judged", "")],
    ),
    (
        "acl-model-loaded-in-a-function",
        'import acl\ndef load():\n    return acl.mdl.load_from_file("a.om")\n'
        'acl.mdl.set_dump("acl.json")\nload()\n',
        [(N, "not-judged", "")],
    ),
    (
        "map-behind-the-session",
        CUSTOM + PATH + "with tf.Session(config=c) as s:\n    "
        'o.parameter_map["enable_dump"].b = True\n',
        [(W, "set-too-late", "")],
    ),
    (
        "map-between-two-sessions",
        CUSTOM + PATH + "s = tf.Session(config=c)\n"
        'o.parameter_map["enable_dump"].b = True\nt = tf.Session(config=c)\n',
        [],
    ),
    (
        "aclinit-config",
        'ms.op_debug.aclinit_config({"dump": {"dump_scene": "lite_exception"}})\n',
        [(N, "not-judged", "")],
    ),
    (
        "exception-dump",
        "NPURunConfig(op_debug_level=2, enable_exception_dump=1)\n",
        [(N, "not-judged", "")],
    ),
    ("acl-init-alone", "import acl\nacl.init()\n", [(W, "no-dump-section", "")]),
    (
        "set-dump",
        'torch_npu.npu.init_dump()\ntorch_npu.npu.set_dump("acl.json")\n',
        [(N, "not-judged", "")],
    ),
    ("json-dump", 'import json\njson.dump(config, open("x", "w"))\n', [(W, "no-dump-section", "")]),
    (
        "foreign-dump-config",
        'from other.tool import DumpConfig\nDumpConfig(enable_dump=True, folder="x")\n',
        [(N, "not-judged", "")],
    ),
    (
        "own-dump-config",
        'class DumpConfig:\n    pass\nDumpConfig(enable_dump=True, folder="x")\n',
        [(N, "not-judged", "")],
    ),
    (
        "neighbour-s-dump-config",
        'from .config import DumpConfig\nDumpConfig(output_dir="x")\n',
        [(N, "not-judged", "")],
    ),
    ("nobody-s-dump-config-call", 'c = DumpConfig(type_="x", path="y")\n', [(N, "not-judged", "")]),
    (
        "own-update-custom-op",
        "class Tool:\n    def update_custom_op(self, o):\n        return o\n    def f(self, o):\n"
        "        self.update_custom_op(o)\n",
        [(W, "no-dump-section", "")],
    ),
    (
        "bridge-dump-config",
        "from npu_bridge.npu_init import DumpConfig\n"
        + RUN % 'DumpConfig(True, "@DIR@", folder="x")',
        [(E, "unknown-keyword", "/folder")],
    ),
    (
        "path-made",
        'os.makedirs("./new", exist_ok=True)\n' + RUN % 'DumpConfig(True, "new")',
        [(N, "dump-path-relative", "/dump_path")],
    ),
    (
        "path-made-by-pathlib",
        'Path("new").mkdir()\n' + RUN % 'DumpConfig(True, "new")',
        [(N, "dump-path-relative", "/dump_path")],
    ),
    (
        "path-not-made",
        'os.makedirs("./other")\n' + RUN % 'DumpConfig(True, "new")',
        [(N, "dump-path-relative", "/dump_path"), (E, "dump-path-not-found", "/dump_path")],
    ),
]
PYTHON_CASES += SWITCH_CASES + OTHER_CASES
