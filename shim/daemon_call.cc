#include "shim/daemon_call.h"

#include <chrono>
#include <thread>
#include <utility>

#include "src/base/file_descriptor.h"
#include "src/ipc/daemon_search.h"
#include "src/ipc/socket_path.h"

namespace harmonaize::shim {
namespace {

/// Milliseconds within which a daemon must take a call, and answer.
constexpr int kAnsweredWithinMs = 5000;

/// The status of an answer that refuses what was asked too often.
constexpr int kTooManyRequests = 429;
/// Most times that the daemon is asked while it gives that answer. The caller waits in a call that
/// makes something, such as its communicator.
constexpr int kMostTries = 4;
/// Time between two of these.
constexpr std::chrono::milliseconds kBetweenTries{500};

}  // namespace

Result<HttpReply> AskDaemon(const HttpCall& call) {
  HZ_ASSIGN_OR_RETURN(const FileDescriptor socket, FindDaemonHttp(ClientSocketPlaces()));
  return CallHttp(socket, call, kAnsweredWithinMs);
}

Result<HttpReply> AskDaemonPatiently(const HttpCall& call) {
  for (int left = kMostTries - 1;; --left) {
    HZ_ASSIGN_OR_RETURN(HttpReply reply, AskDaemon(call));
    if (reply.status != kTooManyRequests || left == 0) return reply;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

Result<std::string> CallDaemon(const HttpCall& call) {
  HZ_ASSIGN_OR_RETURN(HttpReply reply, AskDaemon(call));
  if (reply.status != 200) return InvalidUsage("{}", ProblemIn(reply));
  return std::move(reply.body);
}

}  // namespace harmonaize::shim
