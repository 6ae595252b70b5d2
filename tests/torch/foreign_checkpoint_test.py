"""Checkpoints that PyTorch, safetensors and DeepSpeed write are read bit for bit.

Each test runs what the Python at hand has: scripts/install-checkpoint-tools.sh makes one that has all.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import typing

import pytest

torch: typing.Any = pytest.importorskip(
    "torch", reason="PyTorch is not installed: scripts/install-checkpoint-tools.sh does"
)
pytest.importorskip("numpy", reason="NumPy is not installed")

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE.parents[1] / "plugins" / "python")]

import foreign_mutations  # noqa: E402
from harmonaize.checkpoint.element_type import ElementType  # noqa: E402
from harmonaize.checkpoint.foreign import ForeignCheckpoint, ForeignFormatError, open_foreign  # noqa: E402

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
HAS_DEEPSPEED = importlib.util.find_spec("deepspeed") is not None

# Bounds every wait, in seconds. Only a fault takes so long; DeepSpeed compiles a part of itself when it first runs.
PATIENCE_SECONDS = 300

# DeepSpeed looks for an accelerator, and there is to be none.
ENVIRONMENT = os.environ | {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}

needs_new_torch = pytest.mark.skipif(VERSION < (2, 8), reason="needs FSDP2 and HuggingFaceStorageWriter of PyTorch 2.8")
needs_old_torch = pytest.mark.skipif(VERSION >= (2, 0), reason="needs PyTorch 1.13: scripts/install-torch.sh --debian")
needs_deepspeed = pytest.mark.skipif(
    not HAS_DEEPSPEED, reason="DeepSpeed is not installed: scripts/install-checkpoint-tools.sh does"
)


def run_ranks(what: str, folder: pathlib.Path, size: int) -> None:
    """Has so many ranks save a checkpoint, and waits for them."""
    ranks = [
        subprocess.Popen(
            [sys.executable, str(HERE / "foreign_rank.py"), what, str(folder), str(rank), str(size)],
            env=ENVIRONMENT | {"LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        outputs = [rank.communicate(timeout=PATIENCE_SECONDS)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [rank.returncode for rank in ranks] == [0] * size, "\n".join(outputs)


def whole_of(folder: pathlib.Path) -> dict[str, typing.Any]:
    whole: dict[str, typing.Any] = torch.load(folder.with_suffix(".whole"))
    return whole


def same_bits(one: typing.Any, other: typing.Any) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    flat = [tensor.detach().contiguous().reshape(-1) for tensor in (one, other)]
    return flat[0].numel() == 0 or bool(torch.equal(*(tensor.view(torch.uint8) for tensor in flat)))


def check_same(checkpoint: ForeignCheckpoint, whole: typing.Mapping[str, typing.Any]) -> None:
    """Checks each tensor, and a box of each: without the first and the last index of each dimension."""
    for name, tensor in whole.items():
        assert checkpoint.tensors[name].shape == tuple(tensor.shape), name
        assert same_bits(checkpoint.read_torch(name), tensor), name
        if tensor.dim() and min(tensor.shape) > 2:
            inner = tuple(slice(1, extent - 1) for extent in tensor.shape)
            offset, shape = (1,) * tensor.dim(), tuple(extent - 2 for extent in tensor.shape)
            assert same_bits(checkpoint.read_torch(name, offset, shape), tensor[inner]), name


def random_tensors() -> dict[str, typing.Any]:
    """Returns a tensor of each type that this PyTorch has, with any bits."""
    torch.manual_seed(3)
    found = {}
    for kind in ElementType:
        dtype = getattr(torch, kind.torch_name, None)
        if dtype is torch.bool:
            found[kind.value] = torch.rand(5, 6) > 0.5
        elif dtype is not None:
            found[kind.value] = torch.randint(0, 256, (5, 6 * kind.bytes), dtype=torch.uint8).view(dtype)
    return found


def test_each_type_of_elements_is_read_from_torch_files(tmp_path: pathlib.Path) -> None:
    whole = random_tensors()
    assert len(whole) > 10
    torch.save({"of": whole}, tmp_path / "file")
    check_same(open_foreign(tmp_path / "file"), {f"of.{name}": tensor for name, tensor in whole.items()})


def test_views_and_modules_are_read_from_torch_files(tmp_path: pathlib.Path) -> None:
    base = torch.rand(6, 8, 4)
    state = {
        "turned": base.permute(2, 0, 1),
        "cut": base[1:5, ::2, 1:],
        "mask": torch.ones(1).expand(4, 5),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "empty": torch.zeros(3, 0),
        "parameter": torch.nn.Parameter(base[0]),
    }
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.rand(5, 3)).sum().backward()
    optimizer.step()
    odd = {"size": base.shape, "dtype": torch.bfloat16, "device": torch.device("cpu"), "numbers": (1, [2.5, None])}
    torch.save(
        {"views": state, "module": module.state_dict(), "optimizer": optimizer.state_dict(), "odd": odd}, tmp_path / "x"
    )
    one = open_foreign(tmp_path / "x")
    check_same(one, {f"views.{name}": tensor for name, tensor in state.items()})
    check_same(one, {f"module.{name}": tensor for name, tensor in module.state_dict().items()})
    for place, states in optimizer.state_dict()["state"].items():
        check_same(one, {f"optimizer.state.{place}.{word}": tensor for word, tensor in states.items()})
    assert (one.objects["odd.size"], one.objects["odd.device"]) == ((6, 8, 4), "cpu")
    assert one.objects["optimizer.param_groups.0.lr"] == 0.001


def test_numpy_in_torch_files_is_read(tmp_path: pathlib.Path) -> None:
    numpy = pytest.importorskip("numpy")
    values = {"array": numpy.arange(6.0).reshape(2, 3), "number": numpy.float32(1.5)}
    torch.save(values, tmp_path / "x")
    one = open_foreign(tmp_path / "x")
    assert numpy.array_equal(one.objects["array"], values["array"])
    assert one.objects["number"] == values["number"]


def test_files_of_torch_before_1_6_are_refused(tmp_path: pathlib.Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "x", _use_new_zipfile_serialization=False)
    with pytest.raises(ForeignFormatError, match=r"before 1\.6"):
        open_foreign(tmp_path / "x")


def test_a_torchscript_program_is_refused(tmp_path: pathlib.Path) -> None:
    torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2)), str(tmp_path / "x"))
    with pytest.raises(ForeignFormatError, match="TorchScript"):
        open_foreign(tmp_path / "x")


def test_safetensors_own_files_are_read(tmp_path: pathlib.Path) -> None:
    own = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    whole = random_tensors() | {"scalar": torch.tensor(1.5), "empty": torch.zeros(0, 3)}
    own.save_file(whole, tmp_path / "x.safetensors", metadata={"format": "pt"})
    one = open_foreign(tmp_path / "x.safetensors")
    check_same(one, whole)
    assert dict(one.objects) == {"format": "pt"}


@needs_old_torch
@pytest.mark.parametrize("size", [1, 2])
def test_folders_of_pytorch_1_13_are_read(tmp_path: pathlib.Path, size: int) -> None:
    folder = tmp_path / "folder"
    run_ranks("sharded", folder, size)
    one = open_foreign(folder)
    assert (one.kind, one.step) == ("dcp", 7)
    check_same(one, whole_of(folder))


@needs_new_torch
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_folders_of_several_ranks_are_read(tmp_path: pathlib.Path, size: int) -> None:
    folder = tmp_path / "folder"
    run_ranks("dcp", folder, size)
    one = open_foreign(folder)
    whole = whole_of(folder)
    assert (one.kind, one.step) == ("dcp", 7)
    assert one.tensors.keys() == whole.keys()
    check_same(one, whole)
    assert one.objects["list"] == [1.0, 2.0]
    assert one.objects["nested.1"] == 5
    assert one.objects["optimizer.param_groups.0.lr"] == 0.001


@needs_new_torch
def test_pytorch_s_shards_of_safetensors_are_read(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    folder = tmp_path / "folder"
    folder.mkdir()
    run_ranks("hugging_face", folder, 2)
    for name in ("shards", "together"):
        one = open_foreign(folder / name)
        assert one.tensors.keys() == {"rows", "columns"}
        check_same(one, whole_of(folder))


@needs_new_torch
def test_pytorch_s_blocks_of_safetensors_are_read(tmp_path: pathlib.Path) -> None:
    """PyTorch writes them, though it does not read them."""
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    checkpoint = importlib.import_module("torch.distributed.checkpoint")
    kind = checkpoint.filesystem.SerializationFormat.SAFETENSORS
    whole = {"a": torch.rand(2, 3), "b": torch.ones(2, dtype=torch.bfloat16)}
    writer = checkpoint.FileSystemWriter(tmp_path / "folder", serialization_format=kind)
    checkpoint.save({**whole, "step": 5}, storage_writer=writer, no_dist=True)
    one = open_foreign(tmp_path / "folder")
    assert one.step == 5
    check_same(one, whole)


def deepspeed_says(root: pathlib.Path) -> dict[str, typing.Any]:
    """Returns the parameters that DeepSpeed's own program puts together."""
    target = root.with_suffix(".fp32")
    code = (
        "import sys, torch\n"
        "from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint as whole\n"
        "torch.save(dict(whole(sys.argv[1])), sys.argv[2])"
    )
    run_program("-c", code, str(root), str(target))
    found: dict[str, typing.Any] = torch.load(target)
    return found


def run_program(*arguments: str) -> None:
    ran = subprocess.run(
        [sys.executable, *arguments],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@needs_deepspeed
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_deepspeed_s_folders_are_read(tmp_path: pathlib.Path, stage: int) -> None:
    root = tmp_path / "root"
    run_ranks(f"zero{stage}", root, 2)
    native = open_foreign(root)
    assert (native.kind, native.step, native.objects["epoch"]) == ("deepspeed-zero", 3, 2)
    if stage > 0:
        whole = deepspeed_says(root)
        assert {"0.weight", "1.weight", "1.bias", "2.weight", "buffer"} <= whole.keys()
        check_same(native, {f"model.{name}": tensor for name, tensor in whole.items()})
    # DeepSpeed's converter knows no frozen parameters of ZeRO 3.
    output = tmp_path / "universal" / "step"
    run_program(
        *("-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", str(root / "global_step3")),
        *("--output_folder", str(output), "--inject_missing_state"),
        *("--num_extract_workers", "1", "--num_merge_workers", "1"),
    )
    universal = open_foreign(tmp_path / "universal")
    assert (universal.kind, universal.step) == ("deepspeed-universal", 3)
    names = {name for name in native.tensors if name.startswith("optimizer.state.")}
    assert len(names) >= 9
    for name in names | {"model.0.weight", "model.1.weight", "model.1.bias", "model.buffer"}:
        assert same_bits(universal.read_torch(name), native.read_torch(name)), name
    assert universal.tensors["optimizer.state.1.weight.exp_avg"].shape == (8, 5)


def test_changed_files_raise_nothing_else(tmp_path: pathlib.Path) -> None:
    module = torch.nn.Linear(3, 4)
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.rand(5, 3)).sum().backward()
    optimizer.step()
    path = tmp_path / "x"
    torch.save({"module": module.state_dict(), "optimizer": optimizer.state_dict()}, path)
    assert foreign_mutations.run(path, path, 2000, seed=7)[False] > 0


@needs_new_torch
def test_changed_folders_raise_nothing_else(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "folder"
    run_ranks("dcp", folder, 2)
    for seed, name in enumerate((".metadata", "__0_0.distcp")):
        assert foreign_mutations.run(folder, folder / name, 300, seed=seed)[False] > 0
