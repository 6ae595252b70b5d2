#include "cli/daemon_document.h"

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "src/ipc/control_socket.h"
#include "src/ipc/daemon_search.h"
#include "src/ipc/messages.h"
#include "src/ipc/operator_socket.h"
#include "src/ipc/session_versions.h"
#include "src/ipc/socket_path.h"

namespace harmonaize {
namespace {

// Milliseconds within which a daemon must answer a request for a document.
constexpr int kAnswerWithinMs = 5000;
// Time, beyond the measuring, that daemons may take to report that others do not answer.
constexpr int kProbeStepWithinMs = 60'000;
// Most bytes of a document: a daemon with a thousand busy communicators sends less.
constexpr uint64_t kMostBytes = 64 << 20;

// Connects to the daemon at `socket`, or to the one that is found if that is "". A user allowed at
// its operators' socket is connected there, and told more.
Result<ControlSocket> Connect(const std::string& socket) {
  HZ_ASSIGN_OR_RETURN(
      DaemonConnection daemon,
      ConnectToDaemon(socket.empty() ? ClientSocketPlaces()
                                     : std::vector<SocketPlace>{{.path = socket, .named = true}}));
  Result<DaemonConnection> as_operator =
      FindDaemon({{.path = OperatorSocketPath(daemon.path), .named = true}});
  return std::move(as_operator.ok() ? as_operator->socket : daemon.socket);
}

// A connection to a daemon, and the versions of the protocol that this program speaks.
struct Asking {
  ControlSocket connection;
  VersionRange spoken;
};

// An answer of the daemon, as it came.
template <typename Body>
struct Answer {
  Body body;
  uint16_t version = 0;  // of the protocol, in which further requests are to be
  std::string tail;
};

Result<Asking> Begin(const std::string& socket) {
  HZ_ASSIGN_OR_RETURN(const VersionRange spoken, ClientVersions());
  HZ_ASSIGN_OR_RETURN(ControlSocket connection, Connect(socket));
  return Asking{std::move(connection), spoken};
}

// Returns the daemon's next message, unless that is a refusal.
template <typename Body>
Result<Answer<Body>> ReceiveAnswer(Asking& asking, int within_ms) {
  const Result<ControlMessage> reply = asking.connection.Receive(within_ms);
  if (reply.status().code() == Code::kInProgress) {
    return RemoteError("the daemon did not answer within {} s", within_ms / 1000);
  }
  if (!reply.ok()) return reply.status();
  HZ_ASSIGN_OR_RETURN(const MessageHeader header, DecodeHeader(reply->bytes));
  HZ_RETURN_IF_ERROR(CheckAnswer(header, reply->bytes, asking.spoken));
  HZ_ASSIGN_OR_RETURN(const Body body, DecodeBody<Body>(header, reply->bytes));
  const auto* end = reinterpret_cast<const char*>(reply->bytes.data() + reply->bytes.size());
  return Answer<Body>{body, header.version, std::string(end - header.tail_bytes, end)};
}

// Reads a document of so many bytes, whose first piece has come with `answer`; asks for the others.
template <typename Body>
Result<std::string> ReadDocument(Asking& asking, uint64_t bytes, Answer<Body> answer) {
  if (bytes > kMostBytes) return RemoteError("the daemon's answer has {} bytes", bytes);
  std::string text = std::move(answer.tail);
  while (text.size() < bytes) {
    const DocumentRequest request{text.size()};
    HZ_RETURN_IF_ERROR(
        asking.connection.Send(Encode(MessageType::kDocument, request, {}, answer.version)));
    HZ_ASSIGN_OR_RETURN(const Answer<DocumentReply> next,
                        ReceiveAnswer<DocumentReply>(asking, kAnswerWithinMs));
    if (next.tail.empty()) break;
    text += next.tail;
  }
  if (text.size() != bytes) return RemoteError("the daemon's answer is not as long as it said");
  return text;
}

template <typename Request>
Result<std::string> FetchDocument(const std::string& socket, const Request& request) {
  HZ_ASSIGN_OR_RETURN(Asking asking, Begin(socket));
  HZ_RETURN_IF_ERROR(asking.connection.Send(EncodeFirst(request, asking.spoken)));
  HZ_ASSIGN_OR_RETURN(Answer<DocumentReply> answer,
                      ReceiveAnswer<DocumentReply>(asking, kAnswerWithinMs));
  return ReadDocument(asking, answer.body.bytes, std::move(answer));
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

Result<std::string> FetchProbe(const std::string& socket, const std::vector<std::string>& addresses,
                               double seconds,
                               const std::function<void(const std::string&)>& progress) {
  std::string lines;
  for (const std::string& address : addresses) lines += address + "\n";
  if (sizeof(MessageHeader) + sizeof(ProbeRequest) + lines.size() > kMaxControlMessageBytes) {
    return InvalidArgument("{} addresses are too many for one probe", addresses.size());
  }
  HZ_ASSIGN_OR_RETURN(Asking asking, Begin(socket));
  HZ_RETURN_IF_ERROR(asking.connection.Send(
      EncodeFirst(ProbeRequest{seconds}, asking.spoken, std::as_bytes(std::span(lines)))));
  for (;;) {
    HZ_ASSIGN_OR_RETURN(Answer<ProbeReply> answer,
                        ReceiveAnswer<ProbeReply>(asking, kProbeStepWithinMs));
    if (answer.body.bytes > 0) {
      return ReadDocument(asking, answer.body.bytes, std::move(answer));
    }
    progress(FieldText(answer.body.progress));
  }
}

}  // namespace harmonaize
