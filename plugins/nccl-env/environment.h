#pragma once

#include "include/nccl.h"

/// \file
/// What the env plugin does in all versions of NCCL's interface: it adds what the provider sets to
/// what the program's environment has (docs/nccl-env.md). It has no thread, no lock and no
/// descriptor that stays, so a program may fork at any time.

namespace harmonaize::nccl_env {

/// Asks the daemon for the provider's settings and takes those that the tenant allows. Without a
/// trusted daemon, or without an answer in good time, there are none. May be called by several
/// copies of NCCL in a process; each call is undone by one of Finalize. Thread: any.
void Begin() noexcept;

/// Has GetEnv give the environment alone again, once it was called as often as Begin. Thread: any.
ncclResult_t Finalize() noexcept;

/// Returns the value of the program's own setting of this name (Setting), else the provider's, else
/// nullptr. The provider's texts stay for as long as the process lives. Thread: any, while none
/// changes the environment.
const char* GetEnv(const char* name) noexcept;

}  // namespace harmonaize::nccl_env
