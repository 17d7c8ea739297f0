import torch


def _device_constructors():
    return {torch.zeros}
