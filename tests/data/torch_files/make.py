"""Makes the files of this folder; needs PyTorch (they are of 2.14.1)."""

import os

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
x = torch.arange(-6, 6).reshape(3, 4).float() / 3
FILES = {
    "float32": x,
    "float16": x.half(),
    "bfloat16": x.bfloat16(),
    "float8_e4m3fn": x.to(torch.float8_e4m3fn),
    "int64": torch.arange(12).reshape(3, 4) - 2**40,
    "bool": x > 0,
    "complex64": torch.complex(x, -x),
    "uint16": torch.arange(12).reshape(3, 4).to(torch.uint16),
    "transposed": x.t(),
    "view": x[1:, 2:],
    "scalar": torch.tensor(3.5),
    "empty": torch.zeros(0, 3),
    "list": [x, x + 1],
    "parameter": torch.nn.Parameter(x),
    "conjugated": torch.complex(x, -x).conj(),
    "dict": {"a": x},
}
for name, value in FILES.items():
    torch.save(value, os.path.join(HERE, name + ".pt"))
