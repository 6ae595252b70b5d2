"""Makes the backend known to torch.distributed."""

from __future__ import annotations

import atexit
import datetime
import inspect
import os
import typing

BACKEND = "harmonaize"


def register_at_import() -> None:
    """Registers the backend when torch is imported: PyTorch calls this, from 2.5 on.

    The import of this package has registered it by then.
    """


def register() -> None:
    """Registers the backend; again has no effect."""
    # Not at the top: PyTorch may be in the middle of its own import.
    import torch.distributed as dist  # noqa: PLC0415

    if not dist.is_available() or BACKEND.upper() in dist.Backend._plugins:  # noqa: SLF001
        return
    options: dict[str, typing.Any] = {}
    if "devices" in inspect.signature(dist.Backend.register_backend).parameters:
        options["devices"] = ["cpu"]
    if hasattr(getattr(dist.distributed_c10d, "_DistributedBackendOptions", None), "enable_reconfigure"):
        dist.Backend.register_backend(BACKEND, _create_with_options, extended_api=True, **options)
    else:
        dist.Backend.register_backend(BACKEND, _create, **options)


def _create_with_options(options: typing.Any, backend_options: typing.Any) -> typing.Any:
    """As `_create`, for PyTorch with groups that are formed later, by `reconfigure`. No backend options are known."""
    del backend_options
    return _create(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        formed_later=options.enable_reconfigure,
    )


def _create(
    store: typing.Any,
    rank: int,
    size: int,
    timeout: datetime.timedelta,
    *,
    formed_later: bool = False,
) -> typing.Any:
    """Makes the backend of a group, whose ranks meet at the store: now, or when `reconfigure` is called."""
    # Not at the top: what is compiled needs torch, and only groups need it.
    from harmonaize_torch import _native  # noqa: PLC0415

    # Python ends threads that ask for its lock once it finishes; this one has to be gone by then.
    atexit.unregister(_native.stop_progress)
    atexit.register(_native.stop_progress)
    # DistributedDataParallel asks groups for the memory of its buckets only where this says so (2.7 and later).
    os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")
    milliseconds = timeout // datetime.timedelta(milliseconds=1)
    create = _native.create_unformed_backend if formed_later else _native.create_backend
    return create(store, rank, size, milliseconds, "torch" if formed_later else f"torch-{size}")
