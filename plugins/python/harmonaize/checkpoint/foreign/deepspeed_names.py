"""What the folders of DeepSpeed have in common: names of files, and the state of the model beside its weights."""

from __future__ import annotations

import re
import typing

from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted
from harmonaize.checkpoint.foreign.folder import Folder
from harmonaize.checkpoint.foreign.foreign_checkpoint import ForeignTensor
from harmonaize.checkpoint.foreign.lazy_tensor import LazyTensor, checked_shape
from harmonaize.checkpoint.foreign.limits import Limits
from harmonaize.checkpoint.foreign.names import Flat, flatten
from harmonaize.checkpoint.foreign.torch_archive import load_torch

OPTIMIZER_FILE = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_(\d{1,6})_mp_rank_(\d{1,6})_optim_states\.pt")
"""The optimizer's file of one rank: its rank among those with the same part of the model, and that part."""

MODEL_FILE = re.compile(r"(?:zero_pp_rank_(\d{1,6})_)?mp_rank_(\d{1,6})_model_states\.pt")
"""The model's file: of all ranks with one part of it, or with ZeRO 3 of one rank."""

# Parts of a model's file that are tensors, or say where they are. Weights are those of 16 bits, from which no training
# can go on: the optimizer's files have those of 32.
_NOT_OBJECTS = frozenset(
    {
        "module",
        "buffer_names",
        "param_shapes",
        "frozen_param_shapes",
        "frozen_param_fragments",
        "shared_params",
        "optimizer",
    }
)

State = dict[typing.Any, typing.Any]


def load_state(folder: Folder, name: str, limits: Limits) -> State:
    """Returns the dictionary in a file. ForeignFormatError: the file is not sound, or has none."""
    state = load_torch(folder.file(name), limits)
    if not isinstance(state, dict):
        raise ForeignFormatError(f"{quoted(name)} holds no dictionary")
    return state


def mapping_of(state: State, key: str, where: str) -> State:
    """Returns a dictionary in a dictionary; an absent one is empty. ForeignFormatError: it is something else."""
    value = state.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ForeignFormatError(f"{where} has a '{key}' that is no dictionary")
    return value


def shapes_of(state: State, where: str) -> list[dict[str, tuple[int, ...]]]:
    """Returns the shapes of the parameters by group. ForeignFormatError: there are none."""
    groups = state.get("param_shapes")
    if isinstance(groups, dict):
        groups = [groups]
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise ForeignFormatError(
            f"{where} has no 'param_shapes': DeepSpeed before 0.3.17 wrote it, or it is no checkpoint of ZeRO",
        )
    return [{_checked_name(name, where): checked_shape(shape) for name, shape in group.items()} for group in groups]


def buffers_of(state: State, where: str) -> dict[str, LazyTensor]:
    """Returns the model's buffers: tensors that are no parameters. ForeignFormatError: they are not there."""
    module = mapping_of(state, "module", where)
    names = state.get("buffer_names") or []
    if not isinstance(names, list):
        raise ForeignFormatError(f"{where} has 'buffer_names' that are no list")
    found: dict[str, LazyTensor] = {}
    for name in names:
        tensor = module.get(_checked_name(name, where))
        # A buffer that is not persistent has a name and no value.
        if isinstance(tensor, LazyTensor):
            found[name] = tensor
    return found


def rest_of(state: State, optimizer: State, where: str) -> Flat:
    """Returns what a model's file has beside the model, and under `optimizer` what the optimizer has beside its
    tensors.
    """
    rest: State = {name: value for name, value in state.items() if name not in _NOT_OBJECTS}
    return flatten({**rest, "optimizer": optimizer} if optimizer else rest, where)


def add_shared(tensors: dict[str, ForeignTensor], state: State, where: str) -> None:
    """Adds the parameters that share their elements with another one, under their own names."""
    for alias, name in mapping_of(state, "shared_params", where).items():
        known = tensors.get(f"model.{_checked_name(name, where)}")
        if known is not None:
            tensors.setdefault(f"model.{_checked_name(alias, where)}", known)


def _checked_name(name: object, where: str) -> str:
    if not isinstance(name, str):
        raise ForeignFormatError(f"{where} has a parameter whose name is no text")
    return name
