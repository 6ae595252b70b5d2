"""What is said of requests that were answered: how long tokens took, and whether they are right."""

from __future__ import annotations

import typing
import zlib

import torch
from decoder import VOCABULARY, Decoder, Rows, Shape, Slice

if typing.TYPE_CHECKING:
    from batching import Request

# A token may differ from a single process's where the best scores differ by less than this: sums over more ranks are
# rounded in another order. Scores have about the variance 1.
ROUNDING = 1e-3


def percentiles(seconds: list[float]) -> str:
    """Returns the 50th, 90th and 99th percentile in milliseconds."""
    ordered = sorted(seconds)
    if not ordered:
        return "none"
    found = [(percent, ordered[(len(ordered) - 1) * percent // 100]) for percent in (50, 90, 99)]
    return ", ".join(f"p{percent} {1000 * value:.2f} ms" for percent, value in found)


def report(title: str, requests: list[Request]) -> str:
    """Returns what to print."""
    tokens = [token for request in requests for token in request.answer]
    first = [request.times[0] - request.arrived for request in requests]
    later = [after - before for request in requests for before, after in zip(request.times, request.times[1:])]
    seconds = max(request.times[-1] for request in requests) - min(request.arrived for request in requests)
    return (
        f"{title}: {len(requests)} requests, {len(tokens)} tokens in {seconds:.1f} s, "
        f"{len(tokens) / seconds:.1f} tokens/s\n"
        f"first token: {percentiles(first)}\n"
        f"next tokens: {percentiles(later)}\n"
        f"checksum of the tokens: {zlib.crc32(bytes(tokens)):08x}"
    )


def check(shape: Shape, device: torch.device, requests: list[Request]) -> tuple[str, bool]:
    """Compares with a decoder in one process, and returns what to print, and whether all is right.

    The decoder reads each prompt with its answer at once, and says for each token which is best to follow. Where this
    is always the answer's next token, then the decoder would have generated the same answer from the prompt alone.
    """
    decoder = Decoder(shape, Slice(0, 1, device))
    same = rounded = 0
    total = sum(len(request.answer) for request in requests)
    for request in requests:
        text = torch.tensor(request.text()[:-1], device=device)
        rows = Rows(torch.zeros_like(text), torch.arange(len(text), device=device), text)
        scores = decoder.scores(rows)[len(request.prompt) - 1 :]
        answer = torch.tensor(request.answer, device=device)
        behind = scores.max(1).values - scores.gather(1, answer.unsqueeze(1)).squeeze(1)
        is_same = scores.argmax(1) == answer
        same += int(is_same.sum())
        rounded += int((~is_same & (behind < ROUNDING)).sum())
    distinct = len({token for request in requests for token in request.answer})
    return (
        f"check: {same} of {total} tokens are those of one process, {rounded} differ by rounding, "
        f"{total - same - rounded} are wrong ({distinct} of {VOCABULARY} tokens occur)"
    ), same + rounded == total
