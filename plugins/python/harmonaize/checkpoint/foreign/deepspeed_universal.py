"""Reads the universal folders that DeepSpeed's ds_to_universal writes."""

from __future__ import annotations

import math

from harmonaize.checkpoint.foreign.deepspeed_names import (
    MODEL_FILE,
    State,
    add_shared,
    buffers_of,
    load_state,
    mapping_of,
    rest_of,
    shapes_of,
)
from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted
from harmonaize.checkpoint.foreign.flat_tensor import FlatRun, FlatTensor
from harmonaize.checkpoint.foreign.folder import Folder
from harmonaize.checkpoint.foreign.foreign_checkpoint import ForeignCheckpoint, ForeignTensor
from harmonaize.checkpoint.foreign.lazy_tensor import LazyTensor
from harmonaize.checkpoint.foreign.limits import DEFAULT_LIMITS, Limits
from harmonaize.checkpoint.foreign.torch_archive import load_torch

PARAMETERS = "zero"
"""The folder that has a folder for each parameter."""

# The file that has what the optimizer has beside its tensors.
_OPTIMIZER = "optimizer_state.pt"

_SUFFIX = ".pt"

# The word for the weights among the files of a parameter.
_WEIGHTS = "fp32"

# Parts of an optimizer's state that are tensors of single ranks, left from before the conversion.
_NOT_OBJECTS = frozenset({"optimizer_state_dict", "fp32_flat_groups", "single_partition_of_fp32_groups"})


def open_universal(folder: Folder, limits: Limits = DEFAULT_LIMITS) -> ForeignCheckpoint:
    """Returns the whole model of a folder with `zero/`: `model.<parameter>` in 32 bits, the optimizer's tensors for it
    as `optimizer.state.<parameter>.exp_avg` and so on, and how DeepSpeed cuts it as `universal.<parameter>.cat_dim` and
    so on.

    ForeignFormatError: a file is missing or not sound.
    """
    model, where = _model_state(folder, limits)
    parameters = folder.folder(PARAMETERS)
    optimizer = load_state(parameters, _OPTIMIZER, limits) if parameters.has(_OPTIMIZER) else {}
    tensors: dict[str, ForeignTensor] = {}
    objects: dict[str, object] = {}
    for name in parameters.names():
        if name != _OPTIMIZER:
            _add_parameter(parameters.folder(name), name, tensors, objects, limits)
    _shape(tensors, model, where)
    _add_steps(tensors, optimizer, where)
    for name, buffer in buffers_of(model, where).items():
        tensors.setdefault(f"model.{name}", buffer)
    add_shared(tensors, model, where)
    rest = {name: value for name, value in optimizer.items() if name not in _NOT_OBJECTS}
    flat = rest_of(model, rest, where)
    return ForeignCheckpoint("deepspeed-universal", {**flat.tensors, **tensors}, {**flat.objects, **objects})


def _model_state(folder: Folder, limits: Limits) -> tuple[State, str]:
    """Returns the first model file, and its name. All have the same beside the model itself."""
    found = sorted(name for name in folder.names() if MODEL_FILE.fullmatch(name))
    if not found:
        raise ForeignFormatError(
            f"{quoted(str(folder.path))} lacks a file *_model_states.pt: the conversion did not end"
        )
    return load_state(folder, found[0], limits), quoted(found[0])


def _add_parameter(
    folder: Folder, name: str, tensors: dict[str, ForeignTensor], objects: dict[str, object], limits: Limits
) -> None:
    files = [file for file in folder.names() if file.endswith(_SUFFIX)]
    if f"{_WEIGHTS}{_SUFFIX}" not in files:
        raise ForeignFormatError(f"the parameter {quoted(name)} lacks its file {_WEIGHTS}{_SUFFIX}")
    for file in files:
        word = file.removesuffix(_SUFFIX)
        target = f"model.{name}" if word == _WEIGHTS else f"optimizer.state.{name}.{word}"
        value = load_torch(folder.file(file), limits)
        if isinstance(value, dict):
            if word == _WEIGHTS:
                objects.update({f"universal.{name}.{key}": one for key, one in value.items() if key != "param"})
            value = value.get("param")
        if isinstance(value, LazyTensor):
            tensors[target] = value
        elif isinstance(value, int | float):
            objects[target] = value
        else:
            raise ForeignFormatError(f"the file {quoted(file)} of the parameter {quoted(name)} has no tensor")


def _shape(tensors: dict[str, ForeignTensor], model: State, where: str) -> None:
    """Gives parameters that were converted from ZeRO 3 their shapes, since their files have them flat."""
    if "param_shapes" not in model:
        return
    for group in shapes_of(model, where):
        for name, shape in group.items():
            for key in (f"model.{name}", f"optimizer.state.{name}.exp_avg", f"optimizer.state.{name}.exp_avg_sq"):
                tensor = tensors.get(key)
                if isinstance(tensor, LazyTensor) and tensor.shape == (math.prod(shape),) != shape:
                    tensors[key] = FlatTensor(key, shape, [(FlatRun([tensor], where), 0, tensor.count)])


def _add_steps(tensors: dict[str, ForeignTensor], optimizer: State, where: str) -> None:
    """Adds the count of steps that a conversion from ZeRO 3 leaves in the optimizer's file."""
    first = mapping_of(mapping_of(optimizer, "optimizer_state_dict", where), "state", where).get(0)
    step = first.get("step") if isinstance(first, dict) else None
    if not isinstance(step, LazyTensor):
        return
    for name in [key.removesuffix(".exp_avg") for key in tensors if key.endswith(".exp_avg")]:
        tensors.setdefault(f"{name}.step", step)
