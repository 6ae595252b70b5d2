"""Stands in for PyTorch and stock NCCL where plugin_checks.py is tested without a GPU: tensors of one dimension, and
all ranks' work done in each process. What NCCL would log is the text of STAND_IN_LOG."""

import types

float32 = "float32"
cuda = types.SimpleNamespace(set_device=lambda device: None, synchronize=lambda: None)


class Tensor:
    def __init__(self, values):
        self.values = list(values)

    def __mod__(self, other):
        return Tensor(value % other for value in self.values)

    def __add__(self, other):
        return Tensor(value + other for value in self.values)

    def __rmul__(self, other):
        return Tensor(other * value for value in self.values)

    def __getitem__(self, place):
        return Tensor([self.values[place]])

    def item(self):
        return self.values[0]


def arange(count, dtype, device):
    return Tensor(float(value) for value in range(count))


def full(shape, value, device):
    return Tensor([value] * shape[0])


def equal(one, other):
    return one.values == other.values
