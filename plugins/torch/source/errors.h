#pragma once

#include <exception>
#include <string>

#include "plugins/torch/source/library.h"
#include "plugins/torch/source/torch_version.h"

namespace harmonaize_torch {

/// Returns the exception that Python sees for `what`.
std::exception_ptr MakeError(const std::string& what);

/// Throws what MakeError returns.
[[noreturn]] void ThrowError(const std::string& what);

/// Returns what `error` says, without the list of calls that c10's errors have.
std::string SentenceOf(const std::exception& error);

/// Returns the sentence of the last error on `communicator`, or on this thread where it is NULL.
std::string LastError(ncclComm_t communicator);

/// Returns one sentence for a call that failed: what was done, and the library's reason. A daemon
/// that cannot be reached is explained, with the mount that a container needs.
std::string Describe(const std::string& doing, ncclResult_t result, ncclComm_t communicator);

/// Throws Describe's sentence unless `result` is ncclSuccess or ncclInProgress.
void Check(const std::string& doing, ncclResult_t result, ncclComm_t communicator = nullptr);

}  // namespace harmonaize_torch
