"""A decoder whose layers are split over ranks (tensor parallelism), with a cache of keys and values.

Each rank has some of the attention heads and a slice of each layer's network. A layer's first matrices are split by
columns, so each rank computes its slice of their output alone. Its last matrix is split by rows, so the ranks' outputs
have to be summed: one all_reduce after attention, and one after the network. The output layer is split by tokens of
the vocabulary, and one all_gather finds the best of all ranks' best tokens.
"""

from __future__ import annotations

import dataclasses
import math

import torch
import torch.distributed as dist
from torch import nn

# A token is a byte.
VOCABULARY = 256


@dataclasses.dataclass(frozen=True)
class Shape:
    """The sizes of a decoder."""

    layers: int
    width: int
    heads: int
    # How many sequences it decodes at a time, and how many tokens each may have.
    slots: int
    context: int


@dataclasses.dataclass(frozen=True)
class Slice:
    """The part of each layer that a rank has. The slice 0 of 1 is all, and needs no group."""

    rank: int
    size: int
    device: torch.device

    def of(self, whole: int) -> slice:
        """Returns this rank's part of so many columns, rows, heads or tokens."""
        return slice(self.rank * whole // self.size, (self.rank + 1) * whole // self.size)


class Weights:
    """Draws random matrices. Each is drawn as a whole from its own seed, so it is the same whatever is kept of it."""

    def __init__(self, device: torch.device) -> None:
        """Begins with the first seed."""
        self.device = device
        self.seed = 0

    def matrix(self, rows: int, columns: int) -> torch.Tensor:
        """Returns the next matrix, whose products have about the size of what they are products of."""
        self.seed += 1
        dice = torch.Generator().manual_seed(self.seed)
        return torch.randn(rows, columns, generator=dice).div_(math.sqrt(columns)).to(self.device)


def normalized(x: torch.Tensor) -> torch.Tensor:
    """Returns each row with mean 0 and variance 1."""
    return nn.functional.layer_norm(x, x.shape[-1:])


@dataclasses.dataclass(frozen=True)
class Rows:
    """Tokens to compute with in a step: each is of the sequence in a slot, at a position. All are on the device."""

    slots: torch.Tensor
    positions: torch.Tensor
    tokens: torch.Tensor


class Layer:
    """A rank's part of one layer."""

    def __init__(self, shape: Shape, part: Slice, weights: Weights) -> None:
        """Draws the layer's weights, and keeps this rank's part."""
        width = shape.width
        self.part = part
        mine, hidden = part.of(width), part.of(4 * width)
        # Split by columns of the product, which are rows of the stored matrix.
        self.query = weights.matrix(width, width)[mine].clone()
        self.key = weights.matrix(width, width)[mine].clone()
        self.value = weights.matrix(width, width)[mine].clone()
        self.expand = weights.matrix(4 * width, width)[hidden].clone()
        # Split by rows of the product.
        self.output = weights.matrix(width, width)[:, mine].clone()
        self.contract = weights.matrix(width, 4 * width)[:, hidden].clone()
        self.heads = shape.heads // part.size
        cache = (shape.slots, shape.context, self.heads, width // shape.heads)
        self.keys = torch.zeros(cache, device=part.device)
        self.values = torch.zeros(cache, device=part.device)

    def summed(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the sum of the ranks' tensors."""
        if self.part.size > 1:
            dist.all_reduce(x)
        return x

    def attend(self, x: torch.Tensor, rows: Rows, length: int) -> torch.Tensor:
        """Returns what each row takes from the first `length` positions of its sequence, up to its own."""
        heads = (len(x), self.heads, -1)
        query = (x @ self.query.T).view(heads)
        self.keys[rows.slots, rows.positions] = (x @ self.key.T).view(heads)
        self.values[rows.slots, rows.positions] = (x @ self.value.T).view(heads)
        keys, values = self.keys[rows.slots, :length], self.values[rows.slots, :length]
        scores = torch.einsum("rhd,rphd->rhp", query, keys) / math.sqrt(query.shape[-1])
        later = torch.arange(length, device=x.device) > rows.positions.unsqueeze(1)
        shares = scores.masked_fill(later.unsqueeze(1), -math.inf).softmax(-1)
        found = torch.einsum("rhp,rphd->rhd", shares, values)
        return self.summed(found.flatten(1) @ self.output.T)

    def forward(self, x: torch.Tensor, rows: Rows, length: int) -> torch.Tensor:
        """Returns the layer's output, which is the same at all ranks."""
        x = x + self.attend(normalized(x), rows, length)
        hidden = nn.functional.gelu(normalized(x) @ self.expand.T)
        return x + self.summed(hidden @ self.contract.T)


class Decoder:
    """A rank's part of the decoder."""

    def __init__(self, shape: Shape, part: Slice) -> None:
        """Draws all weights, and keeps this rank's part."""
        weights = Weights(part.device)
        self.part = part
        # Embeddings have about the variance 1, as what each layer adds to them.
        self.tokens = weights.matrix(VOCABULARY, shape.width) * math.sqrt(shape.width)
        self.positions = weights.matrix(shape.context, shape.width) * math.sqrt(shape.width)
        self.layers = [Layer(shape, part, weights) for _ in range(shape.layers)]
        self.head = weights.matrix(VOCABULARY, shape.width)[part.of(VOCABULARY)].clone()

    def scores(self, rows: Rows) -> torch.Tensor:
        """Returns for each row the scores of this rank's tokens to come next. Keys and values go into the cache."""
        x = self.tokens[rows.tokens] + self.positions[rows.positions]
        length = int(rows.positions.max()) + 1
        for layer in self.layers:
            x = layer.forward(x, rows, length)
        return normalized(x) @ self.head.T

    def best(self, rows: Rows) -> torch.Tensor:
        """Returns for each row the token with the highest score at any rank."""
        score, token = self.scores(rows).max(1)
        token += self.part.of(VOCABULARY).start
        if self.part.size == 1:
            return token
        # Both in one tensor. Tokens are exact as floating point.
        mine = torch.stack([score, token.float()])
        candidates = [torch.empty_like(mine) for _ in range(self.part.size)]
        dist.all_gather(candidates, mine)
        gathered = torch.stack(candidates)
        winner = gathered[:, 0].argmax(0, keepdim=True)
        return gathered[:, 1].gather(0, winner)[0].long()
