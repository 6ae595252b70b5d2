"""PyTorch's default process group for the ranks of a membership."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import socket
import tempfile
import typing

from harmonaize.elastic.agreement import tell
from harmonaize.nccl import Communicator

if typing.TYPE_CHECKING:
    from harmonaize.elastic.world import World


class TorchGroup:
    """Makes the default group of each membership, and ends it. Rank 0 makes its store: a file in a folder of its own
    where all ranks share a host, and else a server at a port.

    PyTorch's store looks for its file once more when it ends, and waits for minutes if the file goes meanwhile. So a
    folder is removed when all ranks are known to have ended its group: by whoever is rank 0 of the next one, or at last
    by `clean`.
    """

    def __init__(self, backend: str) -> None:
        """Takes the backend's name."""
        self._backend = backend
        self._folder = ""
        self._is_first = False

    def form(self, communicator: Communicator, world: World) -> None:
        """Makes the group. All ranks have met since they ended the one before. RemoteError, RuntimeError: a rank is
        gone.
        """
        import torch.distributed as dist  # noqa: PLC0415

        self._is_first = world.rank == 0
        self.clean()
        if self._backend == "harmonaize":
            import harmonaize_torch  # noqa: PLC0415

            harmonaize_torch.register()
        store = self._file_store(communicator, world) if world.one_host else self._tcp_store(communicator, world)
        dist.init_process_group(self._backend, store=store, rank=world.rank, world_size=world.size)

    def end(self, *, broken: bool) -> None:
        """Ends the group. `broken`: ranks are gone, so that nothing waits for them."""
        import torch.distributed as dist  # noqa: PLC0415

        if broken and dist.is_initialized():
            _abort(dist)
        # An abort ends the group, too, with PyTorch's that have it.
        if dist.is_initialized():
            # A broken group says so once more.
            with contextlib.suppress(RuntimeError):
                dist.destroy_process_group()

    def clean(self) -> None:
        """Has rank 0 remove what the group has left. All ranks have met since they ended it."""
        folder, self._folder = self._folder, ""
        if folder and self._is_first:
            shutil.rmtree(folder, ignore_errors=True)

    def _file_store(self, communicator: Communicator, world: World) -> typing.Any:
        import torch.distributed as dist  # noqa: PLC0415

        made = tempfile.mkdtemp(prefix="harmonaize-elastic-") if world.rank == 0 else ""
        self._folder = made
        self._folder = tell(communicator, made)
        return dist.FileStore(str(pathlib.Path(self._folder) / "store"), world.size)

    def _tcp_store(self, communicator: Communicator, world: World) -> typing.Any:
        import torch.distributed as dist  # noqa: PLC0415

        if world.rank != 0:
            address, _, port = tell(communicator, "").rpartition(":")
            return dist.TCPStore(address, int(port), None, False, wait_for_workers=False)  # noqa: FBT003
        address = os.environ.get("HARMONAIZE_ELASTIC_ADDRESS") or socket.gethostbyname(socket.gethostname())
        store = dist.TCPStore(address, 0, None, True, wait_for_workers=False)  # noqa: FBT003
        tell(communicator, f"{address}:{store.port}")
        return store


def _abort(dist: typing.Any) -> None:
    """Ends what is in flight, with PyTorch's that can do so."""
    abort = getattr(dist.distributed_c10d, "_abort_process_group", None)
    if abort is not None:
        with contextlib.suppress(RuntimeError, NotImplementedError):
            abort()
