#include "shim/face.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "shim/debug_log.h"
#include "src/base/log.h"
#include "src/client/operation/group.h"

namespace harmonaize::shim {
namespace {

/// Bytes of an error's text: enough for a sentence that names a dozen ranks. The texts are plain
/// arrays, which need no destructor when a thread ends, possibly after this library was unloaded.
constexpr size_t kTextBytes = 1024;
thread_local char thread_error[kTextBytes];
thread_local char answer[kTextBytes];

std::mutex process_error_mutex;
char process_error[kTextBytes];

void Store(char (&to)[kTextBytes], std::string_view text) {
  const size_t length = std::min(text.size(), kTextBytes - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

void RememberError(std::string_view text) {
  Store(thread_error, text);
  const std::lock_guard lock(process_error_mutex);
  Store(process_error, text);
}

}  // namespace

ncclResult_t ToResult(const Status& status) {
  switch (status.code()) {
    case Code::kOk: return ncclSuccess;
    case Code::kInvalidArgument: return ncclInvalidArgument;
    case Code::kInvalidUsage: return ncclInvalidUsage;
    case Code::kSystemError: return ncclSystemError;
    case Code::kRemoteError: return ncclRemoteError;
    case Code::kInternalError: return ncclInternalError;
    case Code::kInProgress: return ncclInProgress;
    case Code::kUnavailable: return ncclSystemError;
  }
  return ncclInternalError;
}

ncclResult_t ConcludeFailure(const char* function, ncclComm_t comm, const Status& status) {
  if (status.code() == Code::kInProgress) return ToResult(status);
  try {
    const std::string text = fmt::format("{}: {}", function, status.message());
    RememberError(text);
    if (comm != nullptr) comm->communicator->SetLastError(text);
    Log(LogLevel::kWarning, kLogCall, "{}", text);
    Group::OfThisThread().NoteFailure(status);
  } catch (...) {
    // If there is no memory for the text, the code alone has to do.
    RememberError(function);
  }
  return ToResult(status);
}

ncclResult_t ConcludeException(const char* function, ncclComm_t comm) noexcept {
  ncclResult_t result = ncclInternalError;
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      result = ncclSystemError;
      return ConcludeFailure(function, comm, SystemError("out of memory"));
    } catch (const std::exception& exception) {
      return ConcludeFailure(function, comm, InternalError("{}", exception.what()));
    } catch (...) {
      return ConcludeFailure(function, comm, InternalError("an exception of unknown type"));
    }
  } catch (...) {
    RememberError(function);
    return result;
  }
}

Status CheckHandle(ncclComm_t comm) {
  HZ_RETURN_IF_ERROR(CheckPointer(comm, "comm"));
  if (IsAlive(comm)) return Status::Ok();
  return InvalidArgument("comm {} is not a communicator, or was destroyed", fmt::ptr(comm));
}

const char* LastErrorText(ncclComm_t comm) noexcept try {
  answer[0] = '\0';
  if (comm != nullptr && CheckHandle(comm).ok()) Store(answer, comm->communicator->LastError());
  if (answer[0] == '\0') Store(answer, thread_error);
  if (answer[0] == '\0') {
    const std::lock_guard lock(process_error_mutex);
    Store(answer, process_error);
  }
  return answer;
} catch (...) {
  return thread_error;
}

void ShowRankOf(const Communicator& communicator) {
  SetLogRank(communicator.rank());
}

}  // namespace harmonaize::shim
