#include "plugins/torch/source/errors.h"

#include <cstdlib>

namespace harmonaize_torch {
namespace {

// The way out of the commonest fault of a job in a container.
constexpr const char* kMountHint =
    " In a container, mount the folder of the daemon's socket, and name the socket: "
    "`docker run -v /run/harmonaize:/run/harmonaize "
    "-e HARMONAIZE_SOCKET=/run/harmonaize/harmonaized.sock ...`. On a host without a daemon, start "
    "one by `harmonaized`, or run the program by `harmonaize run`.";

}  // namespace

std::exception_ptr MakeError(const std::string& what) {
  return std::make_exception_ptr(
      BackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, what));
}

void ThrowError(const std::string& what) {
  std::rethrow_exception(MakeError(what));
}

std::string SentenceOf(const std::exception& error) {
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = of_torch == nullptr ? error.what() : of_torch->what_without_backtrace();
  // Some errors have the list in their text.
  return text.substr(0, text.find("\nException raised from "));
}

std::string LastError(ncclComm_t communicator) {
  std::string text = Library::Get().ncclGetLastError(communicator);
  // The name of the function that the plugin called says nothing to its user.
  const size_t end = text.find(": ");
  const bool is_function = text.compare(0, 4, "nccl") == 0 || text.compare(0, 8, "hzStream") == 0;
  if (is_function && end != std::string::npos && text.find(' ') > end) text.erase(0, end + 2);
  return text;
}

std::string Describe(const std::string& doing, ncclResult_t result, ncclComm_t communicator) {
  const std::string reason = LastError(communicator);
  std::string text =
      doing + " failed: " + (reason.empty() ? Library::Get().ncclGetErrorString(result) : reason);
  if (result == ncclSystemError && reason.find("sock") != std::string::npos) {
    if (text.back() != '.') text += '.';
    text += kMountHint;
  }
  return text;
}

void Check(const std::string& doing, ncclResult_t result, ncclComm_t communicator) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  ThrowError(Describe(doing, result, communicator));
}

}  // namespace harmonaize_torch
