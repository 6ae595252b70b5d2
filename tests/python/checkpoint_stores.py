"""A state of tensors and objects, saved to a store by several ranks, for tests of exports.

Also a program: `checkpoint_stores.py make FOLDER FORMAT MAKE_STORE [whole]` saves the state, each
tensor whole at one rank or divided, and `checkpoint_stores.py read KIND FOLDER ...` loads exports by
the library that the kind belongs to and compares them with the state. It needs PyTorch, and safetensors or DeepSpeed for their kinds; the tests
run it by a Python that has them.
"""

from __future__ import annotations

import io
import json
import pathlib
import subprocess
import sys
import tempfile
import typing

RANKS = 4
STEP = 1200

if typing.TYPE_CHECKING:
    import torch

    State = dict[str, torch.Tensor]

# How a store names types of PyTorch.
TYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "complex64": "C64",
}
WIDTH = 520
PARAMETERS = {"0.weight": (WIDTH, WIDTH), "0.bias": (WIDTH,), "2.weight": (3, WIDTH), "2.bias": (3,)}
MODULE = "module."
OPTIMIZER = "optimizer."


def parameter_states() -> State:
    """The parameters of a small model and Adam's states of them, as DeepSpeed names them."""
    import torch

    generator = torch.Generator().manual_seed(7)
    state = {}
    for name, shape in PARAMETERS.items():
        for kind in ("exp_avg", "exp_avg_sq", "fp32"):
            state[f"{OPTIMIZER}{kind}.{name}"] = torch.rand(shape, generator=generator)
        state[f"{OPTIMIZER}step.{name}"] = torch.tensor(float(STEP))
    return state


def odd_tensors() -> State:
    """A tensor of each type, and of odd shapes."""
    import torch

    generator = torch.Generator().manual_seed(8)
    state = {}
    for name in TYPES:
        dtype = getattr(torch, name)
        raw = torch.randint(0, 2 if name == "bool" else 120, (7 * 3 * dtype.itemsize,), generator=generator)
        state[f"types.{name}"] = raw.to(torch.uint8).view(dtype).reshape(7, 3)
    state["scalar"] = torch.tensor(3.5, dtype=torch.float64)
    state["empty"] = torch.zeros((0, 4))
    # The module's own weights, of another type than the optimizer's.
    for name, shape in PARAMETERS.items():
        state[MODULE + name] = torch.rand(shape, generator=generator).to(torch.bfloat16)
    return state


def whole_state() -> State:
    return parameter_states() | odd_tensors()


def saved_object() -> dict[str, typing.Any]:
    return {"epoch": 3, "names": ["a", "b"]}


def bytes_of(tensor: torch.Tensor) -> bytes:
    import torch

    if tensor.numel() == 0:
        return b""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def shards_of(name: str, tensor: torch.Tensor, *, row_wise: bool) -> typing.Iterator[tuple[int, list[int], torch.Tensor]]:
    """(rank, offset, part): what each rank has of a tensor."""
    if tensor.dim() == 0 or not row_wise or tensor.shape[0] < RANKS:
        yield len(name) % RANKS, [0] * tensor.dim(), tensor
        return
    for rank in range(RANKS):
        begin, end = (tensor.shape[0] * one // RANKS for one in (rank, rank + 1))
        yield rank, [begin] + [0] * (tensor.dim() - 1), tensor[begin:end]


def make(folder: pathlib.Path, form: str, make_store: str, *, row_wise: bool) -> None:
    """Saves the state."""
    import torch

    with tempfile.TemporaryDirectory() as scratch:
        description: list[dict[str, typing.Any]] = []

        def add(rank: int, name: str, dtype: str, whole: list[int], offset: list[int], shape: list[int], raw: bytes,
                is_object: bool = False) -> None:
            file = pathlib.Path(scratch) / str(len(description))
            file.write_bytes(raw)
            description.append({"rank": rank, "name": name, "type": dtype, "object": is_object, "whole": whole,
                                "offset": offset, "shape": shape, "file": str(file)})

        for name, tensor in whole_state().items():
            dtype = TYPES[str(tensor.dtype).removeprefix("torch.")]
            for rank, offset, part in shards_of(name, tensor, row_wise=row_wise):
                add(rank, name, dtype, list(tensor.shape), offset, list(part.shape), bytes_of(part))
        for rank in range(RANKS):
            # Every rank saves it alike.
            buffer = io.BytesIO()
            torch.save(saved_object(), buffer)
            raw = buffer.getvalue()
            add(rank, "progress", "U8", [len(raw)], [0], [len(raw)], raw, is_object=True)
        path = pathlib.Path(scratch) / "description"
        path.write_text(json.dumps(description))
        subprocess.run([make_store, str(folder), form, str(STEP), str(path)], check=True)


def require_equal(found: typing.Mapping[str, torch.Tensor], wanted: State) -> None:
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype, name
        assert found[name].shape == tensor.shape, name
        assert bytes_of(found[name]) == bytes_of(tensor), name


def read_safetensors(folder: pathlib.Path) -> None:
    import safetensors.torch
    import torch

    found: State = {}
    if (folder / "model.safetensors").exists():
        found = safetensors.torch.load_file(folder / "model.safetensors")
    else:
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        for file in sorted(set(index["weight_map"].values())):
            tensors = safetensors.torch.load_file(folder / file)
            assert all(index["weight_map"][name] == file for name in tensors), file
            found |= tensors
        assert index["metadata"]["total_size"] == sum(len(bytes_of(one)) for one in found.values())
    assert set(found) == set(whole_state())
    require_equal(found, whole_state())
    objects = safetensors.torch.load_file(folder / "objects.safetensors")
    loaded = torch.load(io.BytesIO(bytes_of(objects["progress"])), weights_only=False)
    assert loaded == saved_object()


def read_dcp(folder: pathlib.Path) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    wanted = whole_state()
    found: dict[str, typing.Any] = {name: torch.zeros_like(tensor) for name, tensor in wanted.items()}
    found["progress"] = None
    dcp.load(found, checkpoint_id=str(folder), no_dist=True)
    require_equal(found, wanted)
    assert found["progress"] == saved_object()
    # PyTorch's own conversion reads everything without being told what there is.
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "all.pt"
        dcp_to_torch_save(str(folder), path)
        converted = torch.load(path, weights_only=False)
    assert converted.pop("progress") == saved_object()
    require_equal(converted, wanted)


def read_ucp_files(folder: pathlib.Path) -> None:
    """What DeepSpeed's loader does with the files, without DeepSpeed."""
    import torch

    name = (folder / "latest_universal").read_text()
    zero = folder / name / "zero"
    for parameter in PARAMETERS:
        for state in ("fp32", "exp_avg", "exp_avg_sq"):
            loaded = torch.load(zero / parameter / f"{state}.pt", weights_only=False)
            require_equal({"": loaded["param"]}, {"": parameter_states()[f"{OPTIMIZER}{state}.{parameter}"]})
            assert loaded["cat_dim"] == 0
        assert torch.load(zero / parameter / "step.pt", weights_only=False) == STEP
    optimizer = torch.load(zero / "optimizer_state.pt", weights_only=False)
    assert optimizer["optimizer_state_dict"]["state"][0]["step"] == STEP
    model = torch.load(folder / name / "mp_rank_00_model_states.pt", weights_only=False)
    assert model["universal_checkpoint_info"]["universal_checkpoint_version"] == "0.4"


def read_ucp(folder: pathlib.Path) -> None:
    """Loads the folder into a model of DeepSpeed's by `load_universal`, with each stage of ZeRO in turn."""
    import os

    import deepspeed
    import torch

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False, rank=0, world_size=1)
    wanted = parameter_states()
    for stage in (1, 2, 3):
        model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 3))
        config = {
            "train_batch_size": 1,
            "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
            "bf16": {"enabled": True},
            "zero_optimization": {"stage": stage},
            "zero_allow_untested_optimizer": True,
            "checkpoint": {"load_universal": True},
        }
        engine, *_ = deepspeed.initialize(model=model, config=config)
        path, _ = engine.load_checkpoint(str(folder))
        assert path is not None
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

        for name, parameter in engine.module.named_parameters():
            require_equal({"": safe_get_full_fp32_param(parameter)}, {"": wanted[f"{OPTIMIZER}fp32.{name}"]})
            for state in ("exp_avg", "exp_avg_sq"):
                found = safe_get_full_optimizer_state(parameter, state)
                require_equal({"": found}, {"": wanted[f"{OPTIMIZER}{state}.{name}"]})


READERS = {"safetensors": read_safetensors, "dcp": read_dcp, "ucp-files": read_ucp_files, "ucp": read_ucp}


def main() -> None:
    action, *words = sys.argv[1:]
    if action == "make":
        make(pathlib.Path(words[0]), words[1], words[2], row_wise="whole" not in words[3:])
        return
    for kind, folder in zip(words[::2], words[1::2], strict=True):
        READERS[kind](pathlib.Path(folder))


if __name__ == "__main__":
    main()
