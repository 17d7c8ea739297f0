"""Nets with layers in place: chains, branches and names, each with what `deinplace` makes of it.

In the texts ``<<old|new>>`` stands for ``old`` in the model and ``new`` in the expected result.
"""

DATA = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 3 dim: 3 } } }\n'
POWER = 'layer { name: "a" type: "Power" bottom: "data" top: "a" power_param { shift: -0.1 } }\n'


def relu(name, bottom, top, extra=""):
    return 'layer { name: "%s" type: "ReLU" bottom: "%s" top: "%s"%s }\n' % (name, bottom, top, extra)


# name: (text, renamed [(layer, old, new)], removed, layers with warnings, changed outputs [(old, new)], runs in Caffe)
CHAINS = {
    "01 a chain of four": (
        DATA
        + POWER
        + relu("r1", "a", "<<a|r1>>")
        + relu("r2", "<<a|r1>>", "<<a|r2>>")
        + relu("r3", "<<a|r2>>", "<<a|r3>>")
        + relu("r4", "<<a|r3>>", "<<a|r4>>"),
        [("r1", "a", "r1"), ("r2", "a", "r2"), ("r3", "a", "r3"), ("r4", "a", "r4")],
        [],
        [],
        [("a", "r4")],
        True,
    ),
    "02 many consumers": (
        DATA + POWER + relu("r", "a", "<<a|r>>") + relu("x", "<<a|r>>", "x") + relu("y", "<<a|r>>", "y") + relu("z", "<<a|r>>", "z"),
        [("r", "a", "r")],
        [],
        [],
        [],
        True,
    ),
    "03 a reader before the in-place layer": (
        DATA + POWER + relu("early", "a", "early") + relu("r", "a", "<<a|r>>") + relu("late", "<<a|r>>", "late"),
        [("r", "a", "r")],
        [],
        ["r"],
        [],
        False,
    ),
    "04 two branches": (
        DATA
        + POWER
        + relu("r", "a", "<<a|r>>")
        + 'layer { name: "b" type: "Power" bottom: "data" top: "b" }\n'
        + relu("s", "b", "<<b|s>>")
        + 'layer { name: "e" type: "Eltwise" bottom: "<<a|r>>" bottom: "<<b|s>>" top: "e" }\n',
        [("r", "a", "r"), ("s", "b", "s")],
        [],
        [],
        [],
        True,
    ),
    "05 dropout with its own top and a side reader": (
        DATA + POWER + 'layer { name: "d" type: "Dropout" bottom: "a" top: "b" }\n' + relu("r", "b", "<<b|r>>") + relu("side", "a", "side"),
        [("r", "b", "r")],
        [],
        [],
        [("b", "r")],
        True,
    ),
    "06 two dropouts in a row": (
        DATA
        + POWER
        + 'layer { name: "d1" type: "Dropout" bottom: "a" top: "<<a|d1>>" }\n'
        + 'layer { name: "d2" type: "Dropout" bottom: "<<a|d1>>" top: "<<a|d2>>" }\n'
        + relu("r", "<<a|d2>>", "r"),
        [("d1", "a", "d1"), ("d2", "a", "d2")],
        [],
        [],
        [],
        True,
    ),
    "08 the in-place layer has its blob's name": (
        DATA + 'layer { name: "p" type: "Power" bottom: "data" top: "a" }\n' + relu("a", "a", "<<a|a_1>>") + relu("z", "<<a|a_1>>", "z"),
        [("a", "a", "a_1")],
        [],
        [],
        [],
        True,
    ),
    "09 eltwise product in place": (
        DATA
        + POWER
        + relu("b", "data", "b")
        + 'layer { name: "e" type: "Eltwise" bottom: "a" bottom: "b" top: "<<a|e>>" eltwise_param { operation: PROD } }\n'
        + relu("z", "<<a|e>>", "z"),
        [("e", "a", "e")],
        [],
        [],
        [],
        True,
    ),
    "10 eltwise sum in place": (
        DATA
        + POWER
        + relu("b", "data", "b")
        + 'layer { name: "e" type: "Eltwise" bottom: "a" bottom: "b" top: "<<a|e>>" }\n'
        + relu("z", "<<a|e>>", "z"),
        [("e", "a", "e")],
        [],
        ["e"],
        [],
        False,
    ),
    "11 scale with two bottoms in place": (
        DATA + POWER + relu("b", "data", "b") + 'layer { name: "s" type: "Scale" bottom: "a" bottom: "b" top: "<<a|s>>" }\n',
        [("s", "a", "s")],
        [],
        [],
        [("a", "s")],
        True,
    ),
    "12 an in-place layer of TRAIN only": (
        DATA
        + POWER
        + '<<layer { name: "noise" type: "Power" bottom: "a" top: "a" include { phase: TRAIN } power_param { shift: 1000 } }\n|>>'
        + relu("r", "a", "<<a|r>>")
        + relu("z", "<<a|r>>", "z"),
        [("r", "a", "r")],
        ["noise"],
        [],
        [],
        True,
    ),
    "13 in-place layers of TRAIN and TEST": (
        DATA
        + POWER
        + "<<"
        + relu("s_train", "a", "a", " include { phase: TRAIN }")
        + "|>>"
        + relu("s_test", "a", "<<a|s_test>>", " include { phase: TEST }")
        + relu("z", "<<a|s_test>>", "z"),
        [("s_test", "a", "s_test")],
        ["s_train"],
        [],
        [],
        True,
    ),
    "14 the layer's name is another, later blob": (
        DATA + POWER + relu("r", "a", "<<a|r_1>>") + relu("z", "<<a|r_1>>", "r") + relu("y", "r", "y"),
        [("r", "a", "r_1")],
        [],
        [],
        [],
        True,
    ),
    "15 the layer's name is a later eltwise's top": (
        DATA
        + POWER
        + relu("res", "a", "<<a|res_1>>")
        + relu("b", "data", "b")
        + 'layer { name: "e" type: "Eltwise" bottom: "<<a|res_1>>" bottom: "b" top: "res" }\n',
        [("res", "a", "res_1")],
        [],
        [],
        [],
        True,
    ),
    "16 two layers of one name": (
        DATA
        + POWER
        + relu("relu", "a", "<<a|relu>>")
        + 'layer { name: "b" type: "Power" bottom: "<<a|relu>>" top: "b" }\n'
        + relu("relu", "b", "<<b|relu_1>>")
        + relu("z", "<<b|relu_1>>", "z"),
        [("relu", "a", "relu"), ("relu", "b", "relu_1")],
        [],
        [],
        [],
        True,
    ),
}
