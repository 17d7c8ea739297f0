"""The parameters of Caffe's layers by the names of caffe.proto, as numbers, bool and words."""

from __future__ import annotations

import pytest

from goldwatch.netfiles.caffe_net import Net, initial_state
from goldwatch.netfiles.caffe_params import parameters_of
from goldwatch.netfiles.prototxt_edits import read_document

LAYER = (
    'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 } } }\nlayer { '
    'name: "l" bottom: "data" top: "l" %s }'
)


def parameters(tmp_path, text):
    path = tmp_path / "net.prototxt"
    path.write_text(LAYER % text)
    document = read_document(str(path))
    layers = [
        layer.message for layer in Net(document, initial_state(document, "TEST", None, ())).layers
    ]
    return parameters_of(next(layer for layer in layers if layer.text("name") == "l"))


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            'type: "Convolution" convolution_param { num_output: 8 kernel_size: 3 '
                'kernel_size: 5 pad: 1 bias_term: false }',
            {"num_output": 8, "kernel_size": [3, 5], "pad": [1], "bias_term": False},
        ),
        ('type: "Pooling" pooling_param { '
            'pool: AVE kernel_size: 3 stride: 2 '
            '}', {"pool": "AVE", "kernel_size": 3, "stride": 2}),
        ('type: "ReLU" relu_param { negative_slope: 0.1 }', {"negative_slope": 0.1}),
        ('type: "Slice" slice_param { axis: -1 '
            'slice_point: 6 slice_point: 9 }', {"axis": -1, "slice_point": [6, 9]}),
        ('type: "Eltwise" eltwise_param { '
            'operation: SUM coeff: 1 coeff: -0.5 }', {"operation": "SUM", "coeff": [1, -0.5]}),
        ('type: "Softmax"', {}),
        ("type: 'Python' python_param { layer: 'L' "
            "param_str: '1' }", {"layer": "L", "param_str": "1"}),
        (
            'type: "BatchNorm" param { lr_mult: 0 } batch_norm_param { use_global_stats: true '
                'eps: 1e-3 }',
            {"use_global_stats": True, "eps": 1e-3},
        ),
    ],
)  # fmt: skip
def test_caffe_parameters_are_read_as_numbers_bools_and_words(tmp_path, text, expected):
    assert parameters(tmp_path, text) == expected
