"""Files that `torch.save` writes: a zip archive of one pickle, and of a member for each storage."""

from __future__ import annotations

from harmonaize.checkpoint.foreign.byte_source import ByteSource
from harmonaize.checkpoint.foreign.errors import ForeignFormatError
from harmonaize.checkpoint.foreign.known_classes import KNOWN_CLASSES
from harmonaize.checkpoint.foreign.limits import DEFAULT_LIMITS, Limits
from harmonaize.checkpoint.foreign.torch_values import make_storage
from harmonaize.checkpoint.foreign.unpickler import unpickle
from harmonaize.checkpoint.foreign.zip_archive import ZipArchive

# How a zip file begins, which is how torch.save has written since PyTorch 1.6.
_ZIP = b"PK\3\4"

# How a pickle begins, which is how torch.save wrote before.
_PICKLE = b"\x80"

# Longest name of a byte order, in bytes.
_LONGEST_ORDER = 16


def load_torch(source: ByteSource, limits: Limits = DEFAULT_LIMITS) -> object:
    """Returns the object that `torch.save` wrote, with a LazyTensor for each tensor.

    ForeignFormatError: it is no such file, or has a class that is not read.
    """
    check_is_archive(source)
    archive = ZipArchive(source)
    root = _root(archive, source)
    order = f"{root}/byteorder"
    if order in archive:
        member = archive.open(order)
        if member.size > _LONGEST_ORDER or member.read(0, member.size).strip() != b"little":
            raise ForeignFormatError(f"{source.name} was written on a big-endian machine: save it again on another")

    # Tensors that share their elements name them again. Without this each name would cost calls to the system.
    opened: dict[str, ByteSource] = {}

    def open_member(key: str) -> ByteSource:
        if key not in opened:
            opened[key] = archive.open(f"{root}/data/{key}")
        return opened[key]

    pickle = archive.open(f"{root}/data.pkl")
    if pickle.size > limits.bytes:
        raise ForeignFormatError(
            f"{source.name} has a description of {pickle.size} bytes; {limits.bytes} are read at most"
        )
    return unpickle(
        pickle.read(0, pickle.size), KNOWN_CLASSES, source.name, lambda place: make_storage(place, open_member), limits
    )


def check_is_archive(source: ByteSource) -> None:
    """Checks how a file begins. ForeignFormatError: torch.save did not write it, or did so before PyTorch 1.6."""
    head = source.read(0, min(source.size, len(_ZIP)))
    if head.startswith(_PICKLE):
        raise ForeignFormatError(
            f"{source.name} is a file in the form that PyTorch had before 1.6 (or a bare pickle): load it with "
            "torch.load and save it again with torch.save",
        )
    if head != _ZIP:
        raise ForeignFormatError(f"{source.name} is no file of torch.save")


def _root(archive: ZipArchive, source: ByteSource) -> str:
    """Returns the folder of all members: the file's name when it was saved, or 'archive'."""
    found = [
        name.removesuffix("/data.pkl") for name in archive.names if name.endswith("/data.pkl") and name.count("/") == 1
    ]
    if len(found) != 1:
        raise ForeignFormatError(f"{source.name} is a zip file, but not one of torch.save: it has no data.pkl")
    if f"{found[0]}/constants.pkl" in archive:
        raise ForeignFormatError(f"{source.name} is a TorchScript program: save the module's state_dict instead")
    return found[0]
