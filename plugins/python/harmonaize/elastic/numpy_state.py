"""The state of a training with NumPy."""

from __future__ import annotations

import typing

from harmonaize.checkpoint.element_type import ElementType
from harmonaize.elastic.snapshot import Snapshot, Tensor, Tree
from harmonaize.elastic.state import State

# Kinds of elements that are plain memory: truth values, integers, floating point and complex numbers.
_PLAIN = "biufc"


class NumpyState(State):
    """Arrays and simple values: `NumpyState(weights=weights, step=0)`.

    Arrays are restored in place where type and shape are the same, so other references to them stay valid.
    """

    def __init__(self, **values: typing.Any) -> None:
        """Takes the values by name. Errors: as of State; TypeError: an array's elements are no plain numbers."""
        super().__init__(values)

    def _is_special(self, value: typing.Any) -> bool:
        # Not at the top: the package is of use without NumPy.
        import numpy as np  # noqa: PLC0415

        if not isinstance(value, np.ndarray):
            return False
        if value.dtype.kind not in _PLAIN or not value.dtype.isnative:
            raise TypeError(f"an array of {value.dtype} cannot be kept: its elements are no plain numbers")
        return True

    def _arrays(self) -> dict[str, typing.Any]:
        return {name: value for name, value in self._values.items() if self._is_special(value)}

    def _copy(self, spare: Snapshot | None) -> Snapshot:
        arrays = self._arrays()
        spares = [] if spare is None else spare.tensors
        copies = [
            _copied(array, spares[place] if place < len(spares) else None)
            for place, array in enumerate(arrays.values())
        ]
        return Snapshot({"arrays": list(arrays), "simple": self._simple()}, copies)

    def _restore(self, snapshot: Snapshot) -> None:
        values = dict(self._values)
        for name, kept in zip(snapshot.tree["arrays"], snapshot.tensors, strict=True):
            values[name] = _copied(kept, values.get(name))
        values.update(snapshot.tree["simple"])
        self._values.update(values)

    def _empty(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        import numpy as np  # noqa: PLC0415

        try:
            dtype = np.dtype(kind)
        except TypeError:
            raise ValueError(f"NumPy has no type '{kind}'") from None
        if dtype.kind not in _PLAIN:
            raise ValueError(f"an array of {dtype} has no plain numbers")
        return np.empty(shape, dtype)

    def _names(self, tree: Tree) -> list[str]:
        return list(tree["arrays"])

    def _kind(self, element: ElementType) -> str:
        return element.numpy_name

    def _describe(self, tensor: Tensor) -> tuple[str, tuple[int, ...]]:
        return tensor.dtype.name, tensor.shape


def _copied(array: Tensor, into: Tensor) -> Tensor:
    """Returns a contiguous copy of the array, in the memory of `into` where that fits."""
    import numpy as np  # noqa: PLC0415

    fits = isinstance(into, np.ndarray) and into.shape == array.shape and into.dtype == array.dtype
    if not fits or not into.flags.writeable:
        return np.array(array, order="C")
    np.copyto(into, array)
    return into
