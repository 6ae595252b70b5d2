#include "cli/daemon_document.h"

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "src/ipc/control_socket.h"
#include "src/ipc/daemon_search.h"
#include "src/ipc/messages.h"
#include "src/ipc/operator_socket.h"
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

// Returns the daemon's next message, unless that is a refusal.
Result<ControlMessage> ReceiveAnswer(ControlSocket& connection, int within_ms) {
  Result<ControlMessage> reply = connection.Receive(within_ms);
  if (reply.status().code() == Code::kInProgress) {
    return RemoteError("the daemon did not answer within {} s", within_ms / 1000);
  }
  if (!reply.ok()) return reply;
  HZ_ASSIGN_OR_RETURN(const MessageHeader header, DecodeHeader(reply->bytes));
  HZ_RETURN_IF_ERROR(DecodeFailure(header, reply->bytes));
  return reply;
}

template <typename Body>
Result<Body> BodyOf(const ControlMessage& reply) {
  HZ_ASSIGN_OR_RETURN(const MessageHeader header, DecodeHeader(reply.bytes));
  return DecodeBody<Body>(header, reply.bytes);
}

std::string_view TailOf(const ControlMessage& reply, size_t body_bytes) {
  return std::string_view(reinterpret_cast<const char*>(reply.bytes.data()), reply.bytes.size())
      .substr(sizeof(MessageHeader) + body_bytes);
}

// Reads a document of so many bytes, whose first piece has come; asks for the others.
Result<std::string> ReadDocument(ControlSocket& connection, uint64_t bytes,
                                 std::string_view first_piece) {
  if (bytes > kMostBytes) return RemoteError("the daemon's answer has {} bytes", bytes);
  std::string text(first_piece);
  while (text.size() < bytes) {
    HZ_RETURN_IF_ERROR(
        connection.Send(Encode(MessageType::kDocument, DocumentRequest{text.size()})));
    HZ_ASSIGN_OR_RETURN(const ControlMessage reply, ReceiveAnswer(connection, kAnswerWithinMs));
    const Result<DocumentReply> body = BodyOf<DocumentReply>(reply);
    if (!body.ok()) return body.status();
    const std::string_view piece = TailOf(reply, sizeof(DocumentReply));
    if (piece.empty()) break;
    text += piece;
  }
  if (text.size() != bytes) return RemoteError("the daemon's answer is not as long as it said");
  return text;
}

template <typename Request>
Result<std::string> FetchDocument(const std::string& socket, const Request& request) {
  HZ_ASSIGN_OR_RETURN(ControlSocket connection, Connect(socket));
  HZ_RETURN_IF_ERROR(connection.Send(Encode(Request::kType, request)));
  HZ_ASSIGN_OR_RETURN(const ControlMessage reply, ReceiveAnswer(connection, kAnswerWithinMs));
  HZ_ASSIGN_OR_RETURN(const DocumentReply body, BodyOf<DocumentReply>(reply));
  return ReadDocument(connection, body.bytes, TailOf(reply, sizeof(DocumentReply)));
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
  HZ_ASSIGN_OR_RETURN(ControlSocket connection, Connect(socket));
  HZ_RETURN_IF_ERROR(connection.Send(
      Encode(MessageType::kProbe, ProbeRequest{seconds}, std::as_bytes(std::span(lines)))));
  for (;;) {
    HZ_ASSIGN_OR_RETURN(const ControlMessage reply, ReceiveAnswer(connection, kProbeStepWithinMs));
    HZ_ASSIGN_OR_RETURN(const ProbeReply body, BodyOf<ProbeReply>(reply));
    if (body.bytes > 0) {
      return ReadDocument(connection, body.bytes, TailOf(reply, sizeof(ProbeReply)));
    }
    progress(FieldText(body.progress));
  }
}

}  // namespace harmonaize
