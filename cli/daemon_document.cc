#include "cli/daemon_document.h"

#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"
#include "src/ipc/socket_path.h"

namespace harmonaize {
namespace {

constexpr int kAnswerWithinMs = 5000;
// A daemon with a thousand busy communicators says less than this.
constexpr uint64_t kMostBytes = 64 << 20;

Result<ControlSocket> ConnectToAny(const std::string& socket) {
  const std::vector<std::string> paths =
      socket.empty() ? ClientSocketPaths() : std::vector<std::string>{socket};
  Status first_failure;
  for (const std::string& path : paths) {
    Result<ControlSocket> connection = ControlSocket::Connect(path);
    if (connection.ok()) return connection;
    if (first_failure.ok()) first_failure = connection.status();
  }
  return first_failure;
}

Result<std::string> ReadFile(int fd, uint64_t bytes) {
  if (bytes > kMostBytes) return RemoteError("the daemon's answer has {} bytes", bytes);
  std::string text(bytes, '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got =
        ::pread(fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError(errno, "cannot read the daemon's answer");
    if (got == 0) return RemoteError("the daemon's answer is shorter than it said");
    done += static_cast<size_t>(got);
  }
  return text;
}

// Sends a request and returns what the daemon answers, unless that is a refusal.
template <typename Request>
Result<ControlMessage> Ask(ControlSocket& connection, const Request& request) {
  HZ_RETURN_IF_ERROR(connection.Send(Encode(Request::kType, request)));
  Result<ControlMessage> reply = connection.Receive(kAnswerWithinMs);
  if (reply.status().code() == Code::kInProgress) {
    return RemoteError("the daemon did not answer within {} s", kAnswerWithinMs / 1000);
  }
  if (!reply.ok()) return reply;
  const Result<MessageHeader> header = DecodeHeader(reply->bytes);
  if (!header.ok()) return header.status();
  HZ_RETURN_IF_ERROR(DecodeFailure(*header, reply->bytes));
  return reply;
}

template <typename Request>
Result<std::string> FetchDocument(const std::string& socket, const Request& request) {
  Result<ControlSocket> connection = ConnectToAny(socket);
  if (!connection.ok()) return connection.status();
  const Result<ControlMessage> reply = Ask(*connection, request);
  if (!reply.ok()) return reply.status();
  const Result<MessageHeader> header = DecodeHeader(reply->bytes);
  const Result<DocumentReply> body = DecodeBody<DocumentReply>(*header, reply->bytes);
  if (!body.ok()) return body.status();
  if (reply->descriptors.empty()) return RemoteError("the daemon's answer holds no document");
  return ReadFile(reply->descriptors[0].get(), body->bytes);
}

}  // namespace

Result<std::string> FetchDaemonStatus(const std::string& socket) {
  return FetchDocument(socket, StatusRequest{});
}

Result<std::string> FetchDaemonExplanation(const std::string& socket, int ranks) {
  ExplainRequest request;
  request.ranks = ranks;
  return FetchDocument(socket, request);
}

Result<std::string> FetchCommunicatorExplanation(const std::string& socket,
                                                 const std::string& communicator) {
  ExplainRequest request;
  if (communicator.size() >= sizeof request.communicator) {
    return InvalidArgument("'{}' is too long for a communicator's name", communicator);
  }
  SetFieldText(request.communicator, communicator);
  return FetchDocument(socket, request);
}

}  // namespace harmonaize
