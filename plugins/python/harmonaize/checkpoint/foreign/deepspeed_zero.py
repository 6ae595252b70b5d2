"""Reads the folders that DeepSpeed writes with ZeRO 1, 2 and 3, as its own zero_to_fp32 merges them.

Each rank has written a flat partition of all parameters. With ZeRO 1 and 2 the partitions of a group of parameters, one
after the other, are its parameters one after the other. With ZeRO 3 each parameter is cut into as many parts as there
are ranks, and a rank's partition has its part of each.
"""

from __future__ import annotations

import math

from harmonaize.checkpoint.foreign.deepspeed_names import (
    MODEL_FILE,
    OPTIMIZER_FILE,
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
from harmonaize.checkpoint.foreign.stand_ins import EnumMember

# ZeRO 1 and 2 fill the partitions of a group up to a multiple of this, times the count of ranks, in elements. Of the
# weights the last partition is saved without what fills it, and of the optimizer's tensors with it.
_FILLED_UP_TO = 2

# The stage of ZeRO that cuts the parameters, too.
_CUTS_PARAMETERS = 3

# The key of the partitions of ZeRO 1 and 2, and of those of ZeRO 3.
_WHOLE = "single_partition_of_fp32_groups"
_CUT = "fp32_flat_groups"

# The word for the weights among the tensors of an optimizer.
_WEIGHTS = "fp32"

# Parts of an optimizer's state that are tensors, or say where they are.
_NOT_OBJECTS = frozenset(
    {
        *(_WHOLE, _CUT, "base_optimizer_state", "optimizer_state_dict"),
        *("param_slice_mappings", "group_paddings", "param_alignment_paddings", "ds_zero_partition_groups"),
    }
)


def open_zero(folder: Folder, limits: Limits = DEFAULT_LIMITS) -> ForeignCheckpoint:
    """Returns the whole model of a checkpoint: `model.<parameter>` in 32 bits, and the optimizer's tensors for it as
    `optimizer.state.<parameter>.exp_avg` and so on.

    ForeignFormatError: a rank's file is missing, or the model was cut by tensors or stages, which needs DeepSpeed's
    converter.
    """
    optimizer_files, model_files = _files(folder)
    optimizers = [_optimizer_state(folder, name, limits) for name in optimizer_files]
    models = [load_state(folder, name, limits) for name in model_files]
    stage = _stage(optimizers[0], optimizer_files[0])
    _check_count(optimizers, folder)
    where = quoted(model_files[0])
    shapes = shapes_of(models[0], where)
    whole = _whole_partitions if stage < _CUTS_PARAMETERS else _cut_partitions
    tensors: dict[str, ForeignTensor] = {}
    numbers: dict[str, object] = {}
    for word, by_parameter in whole(shapes, optimizers, quoted(optimizer_files[0])).items():
        for name, value in by_parameter.items():
            full_name = f"model.{name}" if word == _WEIGHTS else f"optimizer.state.{name}.{word}"
            if isinstance(value, int | float):
                numbers[full_name] = value
            else:
                tensors[full_name] = value
    tensors.update({f"model.{name}": tensor for name, tensor in _frozen(models, stage, where).items()})
    tensors.update({f"model.{name}": tensor for name, tensor in buffers_of(models[0], where).items()})
    add_shared(tensors, models[0], where)
    base = _base_state(optimizers[0], stage, where)
    rest = {name: value for name, value in optimizers[0].items() if name not in _NOT_OBJECTS}
    flat = rest_of(models[0], {**rest, "param_groups": base.get("param_groups", [])}, where)
    return ForeignCheckpoint("deepspeed-zero", {**flat.tensors, **tensors}, {**flat.objects, **numbers})


def _files(folder: Folder) -> tuple[list[str], list[str]]:
    """Returns the optimizer's and the model's files by rank."""
    optimizers: dict[int, str] = {}
    models: dict[int, str] = {}
    for name in folder.names():
        for pattern, found in ((OPTIMIZER_FILE, optimizers), (MODEL_FILE, models)):
            match = pattern.fullmatch(name)
            if match and int(match[2]) != 0:
                raise ForeignFormatError(
                    f"{quoted(str(folder.path))} holds a model that was cut by tensors or stages: convert it with "
                    "DeepSpeed's ds_to_universal, whose folder is read",
                )
            if match and found.setdefault(int(match[1] or 0), name) != name:
                raise ForeignFormatError(
                    f"{quoted(str(folder.path))} has two files for one rank: {quoted(name)} is one"
                )
    if any("_expert_" in name for name in folder.names()):
        raise ForeignFormatError(
            f"{quoted(str(folder.path))} holds experts in files of their own: convert it with ds_to_universal",
        )
    if not optimizers or not models:
        raise ForeignFormatError(
            f"{quoted(str(folder.path))} lacks files {'*_optim_states.pt' if models else '*_model_states.pt'}: the "
            "checkpoint is not whole, or was not written with ZeRO",
        )
    for found, kind in ((optimizers, "optim"), (models, "model")):
        if sorted(found) != list(range(len(found))):
            raise ForeignFormatError(f"{quoted(str(folder.path))} lacks a rank's file *_{kind}_states.pt")
    return [optimizers[rank] for rank in sorted(optimizers)], [models[rank] for rank in sorted(models)]


def _optimizer_state(folder: Folder, name: str, limits: Limits) -> State:
    state = load_state(folder, name, limits).get("optimizer_state_dict")
    if isinstance(state, dict) and _WHOLE in state:
        # The optimizer for bfloat16 that sums gradients in 32 bits does not name its stage, which is always 1.
        return {"zero_stage": 1, **state}
    if not isinstance(state, dict) or "zero_stage" not in state:
        raise ForeignFormatError(f"{quoted(name)} holds no state of ZeRO's optimizer")
    return state


def _stage(state: State, name: str) -> int:
    stage = state["zero_stage"]
    number = stage.value if isinstance(stage, EnumMember) else stage
    if type(number) is not int or number not in range(1, _CUTS_PARAMETERS + 1):
        raise ForeignFormatError(f"{quoted(name)} was written with a stage of ZeRO that is not known here")
    return number


def _check_count(optimizers: list[State], folder: Folder) -> None:
    counts = optimizers[0].get("partition_count")
    if isinstance(counts, int):
        counts = [counts]
    if not isinstance(counts, list) or not counts or not all(type(count) is int for count in counts):
        raise ForeignFormatError(f"{quoted(str(folder.path))} does not say how many ranks it was written by")
    if set(counts) != {len(optimizers)}:
        raise ForeignFormatError(
            f"{quoted(str(folder.path))} was written by {max(counts)} ranks, and has the optimizer's files of "
            f"{len(optimizers)}; or groups of its parameters were partitioned differently, which ds_to_universal "
            "converts",
        )


def _base_state(state: State, stage: int, where: str) -> State:
    key = "base_optimizer_state" if stage < _CUTS_PARAMETERS else "optimizer_state_dict"
    if isinstance(state.get(key), list):
        raise ForeignFormatError(
            f"{where} was saved with 'elastic_checkpoint', whose states of the optimizer are not read: save it without",
        )
    return mapping_of(state, key, where)


_Found = dict[str, dict[str, ForeignTensor | int | float]]
"""Tensors and numbers by their word, `fp32` or that of the optimizer, and by parameter."""


def _whole_partitions(shapes: list[dict[str, tuple[int, ...]]], optimizers: list[State], where: str) -> _Found:
    """Returns the tensors of ZeRO 1 and 2."""
    found: _Found = {_WEIGHTS: {}}
    partitions = [_tensors(state.get(_WHOLE), where) for state in optimizers]
    if any(len(groups) != len(shapes) for groups in partitions):
        raise ForeignFormatError(f"{where} has another number of groups of parameters than the model's file")
    for group, by_name in enumerate(shapes):
        flats = {_WEIGHTS: [groups[group] for groups in partitions]}
        states = [_group_state(_base_state(state, 1, where), group, where) for state in optimizers]
        flats.update(_flat_states(states, flats[_WEIGHTS], _FILLED_UP_TO * len(optimizers), where))
        gaps = _gaps(optimizers[0], group, len(by_name), where)
        for word, tensors in flats.items():
            found.setdefault(word, {}).update(_in_order(by_name, FlatRun(tensors, where), gaps, len(optimizers)))
        for word, tensor in _single_states(states[0]).items():
            found.setdefault(word, {}).update(dict.fromkeys(by_name, tensor))
    return found


def _in_order(
    shapes: dict[str, tuple[int, ...]], run: FlatRun, gaps: list[int], ranks: int
) -> dict[str, ForeignTensor]:
    """Returns parameters that lie one after the other in a run, each with a gap after it."""
    found: dict[str, ForeignTensor] = {}
    at = 0
    for (name, shape), gap in zip(shapes.items(), gaps, strict=True):
        count = math.prod(shape)
        found[name] = FlatTensor(name, shape, [(run, at, count)])
        at += count + gap
    unit = _FILLED_UP_TO * ranks
    if -(-run.count // unit) != -(-at // unit):
        raise ForeignFormatError(
            f"a group of parameters has {at} elements, and its partitions have {run.count}: files of two checkpoints "
            "are mixed",
        )
    return found


def _gaps(state: State, group: int, count: int, where: str) -> list[int]:
    """Returns how many elements are left free after each parameter, which some versions of DeepSpeed align."""
    paddings = state.get("param_alignment_paddings")
    if paddings is None:
        return [0] * count
    gaps = paddings[group] if isinstance(paddings, list) and group < len(paddings) else None
    if not isinstance(gaps, list) or len(gaps) != count or not all(type(gap) is int and gap >= 0 for gap in gaps):
        raise ForeignFormatError(f"{where} has gaps between parameters that are none")
    return gaps


def _cut_partitions(shapes: list[dict[str, tuple[int, ...]]], optimizers: list[State], where: str) -> _Found:
    """Returns the tensors of ZeRO 3."""
    found: _Found = {}
    partitions = [_tensors(state.get(_CUT), where) for state in optimizers]
    runs: dict[str, list[FlatRun]] = {_WEIGHTS: [FlatRun(groups, where) for groups in partitions]}
    states = [_base_state(state, _CUTS_PARAMETERS, where) for state in optimizers]
    by_group = [
        _flat_states(
            [_group_state(state, group, where) for state in states], [groups[group] for groups in partitions], 1, where
        )
        for group in range(min(len(groups) for groups in partitions))
    ]
    for word in set.intersection(*(set(flats) for flats in by_group)):
        runs[word] = [FlatRun([flats[word][rank] for flats in by_group], where) for rank in range(len(optimizers))]
    names = {name: shape for group in shapes for name, shape in group.items()}
    for word, by_rank in runs.items():
        found[word] = {**_in_parts(names, by_rank)}
    for word, tensor in _single_states(_group_state(states[0], 0, where)).items():
        found[word] = dict.fromkeys(names, tensor)
    return found


def _in_parts(shapes: dict[str, tuple[int, ...]], runs: list[FlatRun]) -> dict[str, ForeignTensor]:
    """Returns parameters of which each run has one part, at the same place."""
    found: dict[str, ForeignTensor] = {}
    at = 0
    for name, shape in shapes.items():
        count = math.prod(shape)
        part = -(-count // len(runs))
        pieces = [(run, at, max(0, min(part, count - rank * part))) for rank, run in enumerate(runs)]
        found[name] = FlatTensor(name, shape, pieces)
        at += part
    if any(run.count != at for run in runs):
        raise ForeignFormatError(
            f"the parameters have {at} elements in each partition, and a partition has {runs[0].count}: files of two "
            "checkpoints are mixed",
        )
    return found


def _tensors(value: object, where: str) -> list[LazyTensor]:
    if not isinstance(value, list) or not value or not all(isinstance(one, LazyTensor) for one in value):
        raise ForeignFormatError(
            f"{where} has no partitions of the parameters in 32 bits: it may have them on other disks"
        )
    return value


def _group_state(base: State, group: int, where: str) -> State:
    """Returns the optimizer's state for a group; an optimizer that has made no step has none."""
    state = mapping_of(base, "state", where).get(group, {})
    if not isinstance(state, dict):
        raise ForeignFormatError(f"{where} has a state of the optimizer that is no dictionary")
    return state


def _flat_states(
    states: list[State], partitions: list[LazyTensor], filling: int, where: str
) -> dict[str, list[LazyTensor]]:
    """Returns the tensors of an optimizer that have an element for each of the partition's, by word, by rank. Fewer
    than `filling` elements more are left out.

    ForeignFormatError: a rank has other elements than that. Leaving them out would lose a part of the training's state.
    """
    found: dict[str, list[LazyTensor]] = {}
    for word, first in states[0].items():
        if not isinstance(word, str) or not isinstance(first, LazyTensor) or first.shape == ():
            continue
        tensors = [state.get(word) for state in states]
        for tensor, partition in zip(tensors, partitions, strict=True):
            if not isinstance(tensor, LazyTensor) or not 0 <= tensor.count - partition.count < filling:
                raise ForeignFormatError(
                    f"{where} has a state {quoted(word)} of the optimizer that is not one for each element: convert it "
                    "with DeepSpeed's ds_to_universal",
                )
            found.setdefault(word, []).append(tensor.head(partition.count))
    return found


def _single_states(state: State) -> dict[str, LazyTensor | int | float]:
    """Returns what an optimizer has once for all elements, such as the count of its steps."""
    return {
        word: value
        for word, value in state.items()
        if isinstance(word, str)
        and (isinstance(value, int | float) or (isinstance(value, LazyTensor) and value.shape == ()))
    }


def _frozen(models: list[State], stage: int, where: str) -> dict[str, ForeignTensor]:
    """Returns the parameters that are not trained. With ZeRO 3 each rank's model file has a part of each."""
    found: dict[str, ForeignTensor] = {}
    (shapes,) = shapes_of({"param_shapes": mapping_of(models[0], "frozen_param_shapes", where)}, where)
    for name, shape in shapes.items():
        parts = [mapping_of(model, "frozen_param_fragments", where).get(name) for model in models]
        tensors = [part for part in parts if isinstance(part, LazyTensor)]
        if len(tensors) != len(models):
            raise ForeignFormatError(f"{where} lacks a part of the frozen parameter {quoted(name)}")
        if stage < _CUTS_PARAMETERS:
            found[name] = tensors[0]
            continue
        run = FlatRun(tensors, where)
        if run.count < math.prod(shape):
            raise ForeignFormatError(f"{where} lacks elements of the frozen parameter {quoted(name)}")
        found[name] = FlatTensor(name, shape, [(run, 0, math.prod(shape))])
    return found
