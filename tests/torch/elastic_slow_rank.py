"""A rank of an elastic training that ends its process groups late, except rank 0, and says whether their stores are
there until then. The last rank leaves on the way.
"""

from __future__ import annotations

import pathlib
import tempfile
import time

import torch
import torch.distributed as dist
from harmonaize import elastic
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 10
# Time by which the others end a group later than rank 0, which has long done all of its end then.
LATE_SECONDS = 0.5

end_group = dist.destroy_process_group


def end_group_late() -> None:
    """Ends the group, and says whether its store was there."""
    if dist.get_rank() > 0:
        time.sleep(LATE_SECONDS)
        stores = list(pathlib.Path(tempfile.gettempdir()).glob("harmonaize-elastic-*/store"))
        print("stores", len(stores), flush=True)
    end_group()


def train(state: elastic.TorchState) -> str:
    """Trains, and has the last one of three ranks leave."""
    model = DistributedDataParallel(state.model)
    while state.step < STEPS:
        state.optimizer.zero_grad()
        model(torch.ones(1, 4)).sum().backward()
        state.optimizer.step()
        state.step += 1
        state.commit()
        if state.step == STEPS // 2 and state.world.rank == 2:
            state.leave()
        state.check()
    return "done"


def main() -> None:
    dist.destroy_process_group = end_group_late
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    print("end", elastic.run(train, elastic.TorchState(model=model, optimizer=optimizer, step=0)), flush=True)


if __name__ == "__main__":
    main()
