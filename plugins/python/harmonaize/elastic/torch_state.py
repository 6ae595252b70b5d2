"""The state of a training with PyTorch, and the group in which its ranks exchange gradients."""

from __future__ import annotations

import typing

from harmonaize.checkpoint.element_type import ElementType
from harmonaize.elastic.snapshot import Snapshot, Tensor, Tree
from harmonaize.elastic.state import State
from harmonaize.elastic.torch_group import TorchGroup

if typing.TYPE_CHECKING:
    from harmonaize.elastic.training import Training


class TorchState(State):
    """Modules, optimizers and what else has a `state_dict`, and simple values: `TorchState(model=model,
    optimizer=optimizer, step=0)`. Give the module itself, and wrap it in DistributedDataParallel in the training
    function, which is called anew after each change: there is another default process group then.
    """

    _OWN = State._OWN | {"_group"}  # noqa: SLF001

    def __init__(self, backend: str | None = "harmonaize", **values: typing.Any) -> None:
        """Takes the values by name, and the backend of the default process group; None: there is to be no group.
        Errors: as of State; TypeError: a `state_dict` has what cannot be sent.
        """
        super().__init__(values)
        self._group = None if backend is None else TorchGroup(backend)

    def _is_special(self, value: typing.Any) -> bool:
        return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")

    def _special(self) -> dict[str, typing.Any]:
        return {name: value for name, value in self._values.items() if self._is_special(value)}

    def _enter(self, training: Training) -> None:
        super()._enter(training)
        if self._group is not None:
            self._group.form(training.communicator, training.world)

    def _exit(self, *, broken: bool) -> None:
        if self._group is not None:
            self._group.end(broken=broken)
        super()._exit(broken=broken)

    def _clean(self) -> None:
        if self._group is not None:
            self._group.clean()

    def _copy(self, spare: Snapshot | None) -> Snapshot:
        tensors: list[Tensor] = []
        trees = {name: _encoded(value.state_dict(), tensors, name) for name, value in self._special().items()}
        spares = [] if spare is None else spare.tensors
        copies = [
            _copied(tensor, spares[place] if place < len(spares) else None) for place, tensor in enumerate(tensors)
        ]
        return Snapshot({"states": trees, "simple": self._simple()}, copies)

    def _restore(self, snapshot: Snapshot) -> None:
        for name, value in self._special().items():
            # load_state_dict may keep what it is given, and the copy has to stay as it is.
            value.load_state_dict(_decoded(snapshot.tree["states"][name], snapshot.tensors))
        self._values.update(snapshot.tree["simple"])

    def _empty(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        import torch  # noqa: PLC0415

        dtype = getattr(torch, kind, None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"PyTorch has no type '{kind}'")  # noqa: TRY004
        return torch.empty(shape, dtype=dtype)

    def _names(self, tree: Tree) -> list[str]:
        names: dict[int, str] = {}
        for name, one in tree["states"].items():
            _add_names(one, name, names)
        return [names[place] for place in range(len(names))]

    def _kind(self, element: ElementType) -> str:
        return element.torch_name

    def _describe(self, tensor: Tensor) -> tuple[str, tuple[int, ...]]:
        return str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)


def _copied(tensor: Tensor, into: Tensor | None) -> Tensor:
    """Returns a contiguous copy on the CPU, in the memory of `into` where that fits."""
    import torch  # noqa: PLC0415

    source = tensor.detach()
    if into is None or into.shape != source.shape or into.dtype != source.dtype:
        return torch.empty(source.shape, dtype=source.dtype).copy_(source)
    return into.copy_(source)


def _encoded(value: typing.Any, tensors: list[Tensor], where: str) -> Tree:
    """Returns the value as JSON has it, each tensor as its place in `tensors`. `where` names it in errors."""
    import torch  # noqa: PLC0415

    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    if isinstance(value, dict):
        return {"dict": [[_key(key, where), _encoded(one, tensors, f"{where}.{key}")] for key, one in value.items()]}
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_encoded(one, tensors, f"{where}.{place}") for place, one in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{where} is a {type(value).__name__}: a state has tensors, numbers, texts, lists and dictionaries")


def _key(key: typing.Any, where: str) -> str | int:
    if isinstance(key, str | int):
        return key
    raise TypeError(f"{where} has a key that is a {type(key).__name__}: keys are texts and numbers")


def _add_names(tree: Tree, where: str, names: dict[int, str]) -> None:
    """Adds the names of tensors in what `_encoded` returned, by their places."""
    if not isinstance(tree, dict):
        return
    ((kind, content),) = tree.items()
    if kind == "tensor":
        names[content] = where
        return
    for key, one in content if kind == "dict" else enumerate(content):
        _add_names(one, f"{where}.{key}", names)


def _decoded(tree: Tree, tensors: list[Tensor]) -> typing.Any:
    """Returns what `_encoded` was given, with copies of the tensors."""
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "tensor":
        return tensors[content].clone()
    if kind == "dict":
        return {key: _decoded(one, tensors) for key, one in content}
    items = [_decoded(one, tensors) for one in content]
    return tuple(items) if kind == "tuple" else items
