"""What a checkpoint of any format offers: tensors and objects by name."""

from __future__ import annotations

import typing

from harmonaize.checkpoint.element_type import ElementType
from harmonaize.checkpoint.foreign.errors import quoted
from harmonaize.checkpoint.foreign.lazy_tensor import Array

# Names under which programs keep the number of steps.
_STEP_NAMES = ("step", "global_step", "global_steps", "iteration")


class ForeignTensor(typing.Protocol):
    """A tensor of a checkpoint. Its elements are read when they are asked for."""

    type: ElementType
    shape: tuple[int, ...]

    def read(self, offset: tuple[int, ...] | None = None, shape: tuple[int, ...] | None = None) -> Array:
        """Returns the elements of a box, by default all, as a new array of `type.numpy_dtype`.

        ValueError: the box does not lie in the tensor; ForeignFormatError: the file is not sound.
        """


class ForeignCheckpoint:
    """A checkpoint that another program wrote.

    `kind` is 'safetensors', 'torch', 'dcp', 'deepspeed-universal' or 'deepspeed-zero'; `tensors` and `objects` are what
    it holds by name. It keeps no file open. It may be used from any thread.
    """

    def __init__(
        self,
        kind: str,
        tensors: typing.Mapping[str, ForeignTensor],
        objects: typing.Mapping[str, object],
        step: int | None = None,
    ) -> None:
        """Takes what a reader of one format has found."""
        self.kind = kind
        self.tensors = tensors
        self.objects = objects
        self._step = step

    @property
    def step(self) -> int | None:
        """The number of steps after which it was written; None: it is not known. Errors: as of `read`."""
        return step_of(self.objects) if self._step is None else self._step

    def read(self, name: str, offset: tuple[int, ...] | None = None, shape: tuple[int, ...] | None = None) -> Array:
        """Returns the elements of a tensor's box, by default all, as a new array.

        NumPy has no bfloat16 and no 8-bit floating point: for these the array holds bits (`ElementType.is_raw`).

        ValueError: there is no such tensor, or the box does not lie in it; ForeignFormatError: the file is not sound.
        """
        return self._tensor(name).read(offset, shape)

    def read_torch(
        self, name: str, offset: tuple[int, ...] | None = None, shape: tuple[int, ...] | None = None
    ) -> typing.Any:
        """Returns the same as a tensor of PyTorch on the CPU. Errors: as of `read`; ValueError: PyTorch has no such
        type.
        """
        # Not at the top: the package is of use without PyTorch.
        import torch  # noqa: PLC0415

        tensor = self._tensor(name)
        dtype = getattr(torch, tensor.type.torch_name, None)
        if dtype is None:
            raise ValueError(f"PyTorch {torch.__version__} has no type {tensor.type.torch_name}")
        array = tensor.read(offset, shape)
        made = torch.empty(array.shape, dtype=dtype)
        # PyTorch takes every array of bytes, while it lacks some of NumPy's types.
        if array.size > 0:
            made.view(-1).view(torch.uint8).copy_(torch.from_numpy(array.reshape(-1).view("uint8")))
        return made

    def _tensor(self, name: str) -> ForeignTensor:
        tensor = self.tensors.get(name)
        if tensor is None:
            raise ValueError(f"the checkpoint has no tensor {quoted(name)}")
        return tensor


def step_of(objects: typing.Mapping[str, object]) -> int | None:
    """Returns the number of steps that a program kept under a usual name; None: it kept none."""
    for name in _STEP_NAMES:
        value = objects.get(name)
        if type(value) is int:
            return value
    return None
