#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "nccl.h"

namespace harmonaize::testing {

/// Runs `body` for each rank at the same time, in a thread of its own, with a communicator of all
/// of them; destroys the communicators afterwards. Failures are gtest's.
void RunAsThreads(int ranks, const std::function<void(int rank, ncclComm_t communicator)>& body);

/// Expects that an all-reduce of `elements` floats by two ranks, in ordinary memory, returns their
/// sum.
void ExpectServing(size_t elements);

/// Runs `body` for each rank in a forked process of its own and waits for all. `body` returns the
/// exit status; gtest failures inside it count as status 1. Returns the wait statuses by rank.
/// Requires: this process has not used NCCL.
std::vector<int> RunAsProcesses(int ranks, const std::function<int(int rank)>& body);

/// Joins the communicator for `name`, a bare word or a possible value of NCCL_COMM_ID.
ncclResult_t JoinNamed(const std::string& name, int ranks, int rank, ncclComm_t* communicator);

}  // namespace harmonaize::testing

#define EXPECT_NCCL(call) EXPECT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)
#define ASSERT_NCCL(call) ASSERT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)
