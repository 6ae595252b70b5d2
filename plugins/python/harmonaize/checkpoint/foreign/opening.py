"""Finds out which program wrote a checkpoint."""

from __future__ import annotations

import os
import pathlib

from harmonaize.checkpoint.foreign.byte_source import ByteSource
from harmonaize.checkpoint.foreign.dcp import METADATA, open_dcp
from harmonaize.checkpoint.foreign.deepspeed_names import OPTIMIZER_FILE
from harmonaize.checkpoint.foreign.deepspeed_universal import PARAMETERS, open_universal
from harmonaize.checkpoint.foreign.deepspeed_zero import open_zero
from harmonaize.checkpoint.foreign.errors import ForeignFormatError, quoted
from harmonaize.checkpoint.foreign.folder import Folder
from harmonaize.checkpoint.foreign.foreign_checkpoint import ForeignCheckpoint
from harmonaize.checkpoint.foreign.limits import DEFAULT_LIMITS, Limits
from harmonaize.checkpoint.foreign.safetensors import (
    INDEX,
    SUFFIX,
    is_safetensors,
    open_safetensors_file,
    open_safetensors_folder,
)
from harmonaize.checkpoint.foreign.torch_file import open_torch_file

# Files of DeepSpeed that name the folder of the newest checkpoint.
_LATEST_UNIVERSAL = "latest_universal"
_LATEST = "latest"


def open_foreign(path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> ForeignCheckpoint:
    """Returns the checkpoint in a file or folder, whichever program wrote it.

    A folder with `latest_universal` or `latest` stands for the checkpoint that it names, in this order.

    ForeignFormatError: it is no checkpoint that is read here, or it is not sound.
    """
    place = pathlib.Path(path)
    try:
        is_folder = place.is_dir()
    except (OSError, ValueError) as error:
        raise ForeignFormatError(f"there is no checkpoint {quoted(str(place))}: {error}") from error
    if is_folder:
        return _open_folder(Folder(place), limits)
    if place.name == METADATA:
        return open_dcp(Folder(place.parent), limits)
    return _open_file(ByteSource.of_file(place), place.name, limits)


def _open_file(source: ByteSource, name: str, limits: Limits) -> ForeignCheckpoint:
    if name.endswith(SUFFIX) or is_safetensors(source):
        return open_safetensors_file(source)
    return open_torch_file(source, limits)


def _open_folder(folder: Folder, limits: Limits) -> ForeignCheckpoint:
    names = folder.names()
    if METADATA in names:
        return open_dcp(folder, limits)
    if _LATEST_UNIVERSAL in names:
        return open_universal(folder.folder(folder.label(_LATEST_UNIVERSAL)), limits)
    if _LATEST in names:
        return _open_folder_of_step(folder.folder(folder.label(_LATEST)), limits)
    if INDEX in names or any(name.endswith(SUFFIX) for name in names):
        return open_safetensors_folder(folder)
    return _open_folder_of_step(folder, limits)


def _open_folder_of_step(folder: Folder, limits: Limits) -> ForeignCheckpoint:
    names = folder.names()
    if PARAMETERS in names:
        return open_universal(folder, limits)
    if any(OPTIMIZER_FILE.fullmatch(name) for name in names):
        return open_zero(folder, limits)
    if f"{METADATA}.tmp" in names or any(name.endswith(".distcp") for name in names):
        raise ForeignFormatError(f"{quoted(str(folder.path))} lacks {METADATA}: saving it has not ended")
    raise ForeignFormatError(
        f"{quoted(str(folder.path))} is no checkpoint that is read here: it has no {METADATA}, latest, "
        f"latest_universal, {PARAMETERS}/, {INDEX}, *{SUFFIX} or *_optim_states.pt",
    )
