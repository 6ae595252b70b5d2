"""A rank that saves a checkpoint with PyTorch's or DeepSpeed's own functions: foreign_rank.py WHAT FOLDER RANK SIZE.

Rank 0 also saves what the whole tensors are: FOLDER.whole, a dictionary by the names of the checkpoint.
"""

# Versions of PyTorch differ in what can be imported.
# ruff: noqa: PLC0415

from __future__ import annotations

import importlib
import pathlib
import sys
import typing

import torch
import torch.distributed as dist
from torch import nn

WHAT, FOLDER, RANK, SIZE = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
WEIGHTS = torch.arange(70.0).reshape(10, 7)


def module(name: str) -> typing.Any:
    """Returns a module that not every version has."""
    return importlib.import_module(name)


def network() -> typing.Any:
    torch.manual_seed(1)
    made = nn.Sequential(nn.Embedding(7, 5), nn.Linear(5, 8), nn.Linear(8, 3, bias=False))
    made.register_buffer("buffer", torch.arange(4.0))
    made[2].weight.requires_grad_(WHAT != "zero3")
    return made


def sharded() -> None:
    """PyTorch 1.13: a tensor of shards, each item in a file of its own."""
    _let_python_3_11_load_it()
    from torch.distributed._shard import sharded_tensor

    checkpoint = module("torch.distributed._shard.checkpoint")
    from torch.distributed._shard.sharding_spec import ChunkShardingSpec

    spec = ChunkShardingSpec(dim=0, placements=[f"rank:{rank}/cpu" for rank in range(SIZE)])
    rows = sharded_tensor.zeros(spec, 10, 7)
    for shard in rows.local_shards():
        begin, count = shard.metadata.shard_offsets[0], shard.metadata.shard_sizes[0]
        shard.tensor.copy_(WEIGHTS[begin : begin + count])
    state: dict[str, typing.Any] = {
        "rows": rows,
        "bits": WEIGHTS.bfloat16(),
        "numbers": torch.arange(5, dtype=torch.int32),
        "step": 7,
    }
    checkpoint.save_state_dict(state, checkpoint.FileSystemWriter(str(FOLDER)))
    save_whole({"rows": WEIGHTS, "bits": state["bits"], "numbers": state["numbers"]})


def _let_python_3_11_load_it() -> None:
    # PyTorch 1.13 declares a default that Python 3.11 takes for one that may change, unless it has a hash.
    process = module("dataclasses")._process_class

    def hashable(cls: type, *arguments: typing.Any) -> typing.Any:
        kept = list(arguments)
        kept[4] = kept[4] or cls.__name__ == "TensorProperties"
        return process(cls, *kept)

    module("dataclasses")._process_class = hashable


def dcp() -> None:
    """Tensors cut by rows and by columns, replicas, an FSDP model with its optimizer, and objects."""
    checkpoint = module("torch.distributed.checkpoint")
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (SIZE,))
    trained = network()
    for layer in trained:
        fully_shard(layer)
    fully_shard(trained)
    optimizer = torch.optim.AdamW([one for one in trained.parameters() if one.requires_grad])
    trained(torch.tensor([[1, 2, 3]])).sum().backward()
    optimizer.step()
    model, moments = get_state_dict(trained, optimizer)
    state: dict[str, typing.Any] = {
        "rows": distribute_tensor(WEIGHTS, mesh, [Shard(0)]),
        "columns": distribute_tensor(WEIGHTS.bfloat16(), mesh, [Shard(1)]),
        "replica": distribute_tensor(WEIGHTS, mesh, [Replicate()]),
        "few": distribute_tensor(torch.arange(2.0), mesh, [Shard(0)]),
        "eighth": WEIGHTS.to(torch.float8_e4m3fn),
        "unsigned": torch.arange(3).to(torch.uint16),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 3),
        "nested": [{"a": torch.ones(2)}, 5],
        "list": [1.0, 2.0],
        "step": 7,
        "model": model,
        "optimizer": moments,
    }
    checkpoint.save(state, checkpoint_id=FOLDER)
    whole: dict[str, typing.Any] = {
        "rows": WEIGHTS,
        "columns": WEIGHTS.bfloat16(),
        "replica": WEIGHTS,
        "few": torch.arange(2.0),
    }
    whole |= {name: state[name] for name in ("eighth", "unsigned", "scalar", "empty")}
    whole["nested.0.a"] = torch.ones(2)
    whole |= {f"model.{name}": full(tensor) for name, tensor in model.items()}
    for name, states in moments["state"].items():
        whole |= {f"optimizer.state.{name}.{word}": full(tensor) for word, tensor in states.items()}
    save_whole(whole)


def hugging_face() -> None:
    """Shards in files of safetensors, and the same put together."""
    checkpoint = module("torch.distributed.checkpoint")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (SIZE,))
    state = {
        "rows": distribute_tensor(WEIGHTS, mesh, [Shard(0)]),
        "columns": distribute_tensor(WEIGHTS.bfloat16(), mesh, [Shard(1)]),
    }
    for name, together in (("shards", False), ("together", True)):
        writer = checkpoint.HuggingFaceStorageWriter(
            str(FOLDER / name), save_distributed=True, enable_consolidation=together
        )
        checkpoint.save(state, storage_writer=writer)
    save_whole({"rows": WEIGHTS, "columns": WEIGHTS.bfloat16()})


def zero(stage: int) -> None:
    """DeepSpeed: three steps of Adam with two groups of parameters, whose sizes do not divide by the ranks. Stage 0 is
    stage 1 with the optimizer for bfloat16 that sums gradients in 32 bits.
    """
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
        "zero_optimization": {"stage": stage or 1, "stage3_param_persistence_threshold": 0},
        "bf16": {"enabled": True},
        "data_types": {"grad_accum_dtype": "fp32" if stage == 0 else "bf16"},
    }
    trained = network()
    groups = [
        {"params": [one for one in trained.parameters() if one.dim() > 1], "weight_decay": 0.1},
        {"params": [one for one in trained.parameters() if one.dim() == 1], "weight_decay": 0.0},
    ]
    engine, *_ = module("deepspeed").initialize(model=trained, model_parameters=groups, config=config)
    for _ in range(3):
        engine.backward(engine(torch.tensor([[1, 2, 3 + RANK]])).sum())
        engine.step()
    engine.save_checkpoint(str(FOLDER), client_state={"epoch": 2})


def full(tensor: typing.Any) -> typing.Any:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def save_whole(whole: dict[str, typing.Any]) -> None:
    if RANK == 0:
        torch.save(whole, FOLDER.with_suffix(".whole"))


def main() -> None:
    address = f"file://{FOLDER.with_suffix('.store')}"
    if WHAT.startswith("zero"):
        module("deepspeed").init_distributed(
            "gloo", auto_mpi_discovery=False, init_method=address, rank=RANK, world_size=SIZE
        )
        zero(int(WHAT.removeprefix("zero")))
    else:
        dist.init_process_group("gloo", init_method=address, rank=RANK, world_size=SIZE)
        {"sharded": sharded, "dcp": dcp, "hugging_face": hugging_face}[WHAT]()
    dist.barrier()


if __name__ == "__main__":
    main()
