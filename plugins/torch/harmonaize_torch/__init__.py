"""Harmonaize as a backend of torch.distributed.

    import torch.distributed as dist
    import harmonaize_torch

    dist.init_process_group("harmonaize")

The import may be left out where PyTorch finds backends by itself (2.6 and later). docs/pytorch.md of
Harmonaize says what is served.
"""

from harmonaize_torch._losses import lost_ranks
from harmonaize_torch._memory import empty
from harmonaize_torch._registration import BACKEND, register, register_at_import

__all__ = ["BACKEND", "empty", "lost_ranks", "register", "register_at_import"]

register()
