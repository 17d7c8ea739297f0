"""A network, and its page as written by ``goldwatch graph``, for tests in a browser."""

from __future__ import annotations

import subprocess

from browser import element

HOSTILE = "a'b\"</script><script>alert(1)</script>\u202e$(touch x) `id` \\ [0]*?"
MARKS = (
    "return [...document.querySelectorAll('#graph [data-mark]')].map((it) => [it.dataset.op, "
    "it.dataset.mark]).sort()"
)


def desc(*shape):
    attrs = [
        {"key": "origin_format", "value": {"s": "NCHW"}},
        {"key": "origin_shape", "value": {"list": {"i": [shape[0], 32, *shape[2:4]]}}},
    ]
    return {
        "dtype": "DT_FLOAT16",
        "layout": "NC1HWC0",
        "shape": {"dim": list(shape)},
        "attr": attrs,
    }


def op(number, name, op_type, inputs, originals=None, **params):
    attrs = [{"key": key, "value": {"i": value}} for key, value in params.items()]
    attrs.append(
        {
            "key": "_datadump_original_op_names",
            "value": {"list": {"s": [name] if originals is None else originals}},
        }
    )
    outputs = {
        "input_desc": [desc(1, 2, 8, 8, 16)] * len(inputs),
        "output_desc": [desc(1, 2, 8, 8, 16)],
    }
    return dict(
        {
            "name": name,
            "type": op_type,
            "id": number,
            "input": [each + ":0" for each in inputs],
            "attr": attrs,
        },
        **outputs,
    )


OPS = [
    op(0, "data", "Data", []),
    op(1, "conv1", "Conv2D", ["data"], ["conv1", "bn1", "relu1"], groups=7),
    op(2, "trans", "TransData", ["conv1"], []),
    op(3, HOSTILE, "Conv2D", ["trans"]),
    op(4, "side", "Sqrt", ["conv1"]),
    op(5, "add", "Add", [HOSTILE, "side"], ["add", "relu2"]),
    op(6, "conv10", "Conv2D", ["add"], stride=42),
]
NET = """name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "c1" type: "Convolution" bottom: "data" top: "c1" convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "r1" type: "ReLU" bottom: "c1" top: "c1" }
layer { name: "p1" type: "Pooling" bottom: "c1" top: "p1" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "q1" type: "Pooling" bottom: "c1" top: "q1" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "e1" type: "Eltwise" bottom: "p1" bottom: "q1" top: "e1" }
"""  # noqa: E501
ORIGINAL = """name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "c" convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "side" type: "Power" bottom: "c" top: "s" }
layer { name: "relu2" type: "ReLU" bottom: "s" top: "r" }
"""  # noqa: E501


def find(driver, text):
    """Type into the search and press Enter."""
    from selenium.webdriver.common.keys import Keys

    search = element(driver, "#search")
    search.clear()
    search.send_keys(text, Keys.ENTER)


def shown_op(driver):
    return element(driver, "#detail").get_attribute("data-op")


def shell_words_of(command):
    """Return the words that bash makes of a command."""
    done = subprocess.run(
        ["bash", "-c", "printf '%s\\0' " + command], stdout=subprocess.PIPE, check=True
    )
    return done.stdout.decode("utf-8").split("\0")[:-1]


def mark_op(driver, name, which):
    find(driver, name)
    element(driver, "button[data-choose=%s]" % which).click()
