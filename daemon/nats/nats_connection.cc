#include "daemon/nats/nats_connection.h"

#include <fmt/format.h>
#include <nats/nats.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/nats/call_deadline.h"
#include "daemon/nats/nats_subject.h"
#include "src/base/clean_text.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Longest wait for a connection, for a stream's answer, or for the socket to take bytes, in
/// milliseconds. A server farther away than that is none.
constexpr int64_t kPatienceMs = 3000;
/// Longest time for a connection with TLS, in milliseconds. It exceeds kPatienceMs, within which
/// the library ends what it has a deadline for.
constexpr int64_t kHandshakeMs = kPatienceMs + 1000;
/// Time after which the server is asked for a sign of life, in milliseconds.
constexpr int64_t kPingMs = 20'000;
/// For how long a stream remembers ids, in seconds. It bounds the time for which a server may be
/// away between having kept an event and being sent it again.
constexpr int64_t kRememberIdsSeconds = 900;
constexpr int64_t kNanosecondsOfSecond = 1'000'000'000;
/// As much of a server's or the library's text as an error quotes, in bytes.
constexpr size_t kMostTextBytes = 256;
/// Time, in nanoseconds, between two lines of the log about what a server has said by itself.
constexpr uint64_t kBetweenComplaints = 30'000'000'000;
/// CloudEvents' binding for NATS, in structured mode.
constexpr char kContentType[] = "application/cloudevents+json; charset=UTF-8";

/// Frees what the library has made.
struct Free {
  void operator()(natsOptions* options) const { natsOptions_Destroy(options); }
  void operator()(natsConnection* connection) const { natsConnection_Destroy(connection); }
  void operator()(jsCtx* context) const { jsCtx_Destroy(context); }
  void operator()(natsMsg* message) const { natsMsg_Destroy(message); }
  void operator()(jsStreamInfo* info) const { jsStreamInfo_Destroy(info); }
  void operator()(jsPubAck* ack) const { jsPubAck_Destroy(ack); }
};
template <typename Made>
using Owned = std::unique_ptr<Made, Free>;

/// Returns what the library says of its last call of this thread. Parts come from the server.
std::string LastText(natsStatus status) {
  natsStatus last = NATS_OK;
  const char* const found = nats_GetLastError(&last);
  const std::string what = natsStatus_GetText(status);
  if (last != status || found == nullptr) return what;
  std::string_view text = found;
  // The library begins with its own source and line: "(conn.c:2088): ".
  const size_t end = text.starts_with('(') ? text.find("): ") : std::string_view::npos;
  if (end != std::string_view::npos) text.remove_prefix(end + 3);
  if (text.empty() || text == what) return what;
  return CleanText(fmt::format("{} ({})", text, what), kMostTextBytes);
}

/// Logs what a server says by itself, such as that something is not permitted. Thread: libnats's.
void OnComplaint(natsConnection* connection, natsSubscription* /*subscription*/, natsStatus status,
                 void* /*closure*/) {
  static std::atomic<uint64_t> line_time{0};
  const uint64_t now = MonotonicNanoseconds();
  uint64_t before = line_time.load(std::memory_order_relaxed);
  if (before != 0 && now - before < kBetweenComplaints) return;
  if (!line_time.compare_exchange_strong(before, now, std::memory_order_relaxed)) return;
  const char* text = nullptr;
  static_cast<void>(natsConnection_GetLastError(connection, &text));
  Log(LogLevel::kWarning, kLogInit, "NATS complains: {} ({})",
      CleanText(text == nullptr ? "" : text, kMostTextBytes), natsStatus_GetText(status));
}

class NatsConnection final : public NatsLink {
 public:
  explicit NatsConnection(NatsSettings settings) : settings_(std::move(settings)) {}
  ~NatsConnection() override {
    Disconnect();
    // The thread ends with its link, and the library keeps texts for each thread.
    nats_ReleaseThreadMemory();
  }

  Status Connect() override;
  bool connected() const override {
    return connection_ != nullptr && !natsConnection_IsClosed(connection_.get());
  }
  std::string server() const override { return server_; }
  Status Send(const NatsMessage& message) override;

 private:
  Result<Owned<natsOptions>> OptionsFor(const NatsServer& server) const;
  natsStatus SetCredentials(natsOptions* options, const NatsCredentials& credentials) const;
  natsStatus SetTls(natsOptions* options, const NatsServer& server) const;
  void MakeStreamIfMissing();
  natsStatus AddStream(jsErrCode* code);
  void Disconnect();

  const NatsSettings settings_;
  size_t next_ = 0;  ///< Index of the server that is tried next.
  std::string server_;
  Owned<natsConnection> connection_;
  Owned<jsCtx> stream_context_;
};

void NatsConnection::Disconnect() {
  stream_context_.reset();
  connection_.reset();
}

natsStatus NatsConnection::SetCredentials(natsOptions* options,
                                          const NatsCredentials& credentials) const {
  if (credentials.is_creds_file) {
    return natsOptions_SetUserCredentialsFromFiles(options, settings_.credentials_file.c_str(),
                                                   nullptr);
  }
  return natsOptions_SetUserInfo(options, credentials.user.c_str(), credentials.password.c_str());
}

natsStatus NatsConnection::SetTls(natsOptions* options, const NatsServer& server) const {
  natsStatus status = natsOptions_SetSecure(options, true);
  if (status == NATS_OK && !settings_.ca_file.empty()) {
    status = natsOptions_LoadCATrustedCertificates(options, settings_.ca_file.c_str());
  }
  // How the library was built decides whether it checks the name otherwise.
  if (status == NATS_OK) status = natsOptions_SetExpectedHostname(options, server.host.c_str());
  return status;
}

// The library neither reconnects nor learns of further servers: the caller decides when to try
// which, and nothing is sent to a server that the configuration does not name.
Result<Owned<natsOptions>> NatsConnection::OptionsFor(const NatsServer& server) const {
  natsOptions* made = nullptr;
  natsStatus status = natsOptions_Create(&made);
  Owned<natsOptions> options(made);
  const auto set = [&](natsStatus outcome) { status = status == NATS_OK ? outcome : status; };
  if (status == NATS_OK) {
    set(natsOptions_SetURL(made, server.url().c_str()));
    set(natsOptions_SetName(made, "harmonaized"));
    set(natsOptions_SetAllowReconnect(made, false));
    set(natsOptions_SetIgnoreDiscoveredServers(made, true));
    set(natsOptions_SetTimeout(made, kPatienceMs));
    set(natsOptions_SetWriteDeadline(made, kPatienceMs));
    set(natsOptions_SetPingInterval(made, kPingMs));
    set(natsOptions_SetNoEcho(made, true));
    set(natsOptions_SetErrorHandler(made, OnComplaint, nullptr));
    set(natsOptions_SetCustomInboxPrefix(made, ("_INBOX_" + settings_.prefix).c_str()));
  }
  if (status == NATS_OK && !settings_.credentials_file.empty()) {
    HZ_ASSIGN_OR_RETURN(const NatsCredentials credentials,
                        ReadNatsCredentials(settings_.credentials_file));
    set(SetCredentials(made, credentials));
  }
  if (status == NATS_OK && server.tls) set(SetTls(made, server));
  if (status != NATS_OK) return Unavailable("{}: {}", server.url(), LastText(status));
  return options;
}

Status NatsConnection::Connect() {
  Disconnect();
  const NatsServer& server = settings_.servers[next_];
  next_ = (next_ + 1) % settings_.servers.size();
  HZ_ASSIGN_OR_RETURN(const Owned<natsOptions> options, OptionsFor(server));
  natsConnection* connection = nullptr;
  natsStatus status = NATS_OK;
  {
    // The library has no deadline for the handshake of TLS.
    const CallDeadline deadline(kHandshakeMs);
    status = natsConnection_Connect(&connection, options.get());
  }
  if (status != NATS_OK) return Unavailable("{}: {}", server.url(), LastText(status));
  connection_.reset(connection);
  server_ = server.url();
  jsOptions waits;
  jsOptions_Init(&waits);
  waits.Wait = kPatienceMs;
  jsCtx* context = nullptr;
  status = natsConnection_JetStream(&context, connection, &waits);
  if (status != NATS_OK) {
    const Status failure = Unavailable("{}: {}", server_, LastText(status));
    Disconnect();
    return failure;
  }
  stream_context_.reset(context);
  MakeStreamIfMissing();
  return Status::Ok();
}

// Whether there is a stream that takes the events shows when one is sent: the provider may have
// made other streams for these subjects, or not let daemons ask.
void NatsConnection::MakeStreamIfMissing() {
  const std::string name = StreamName(settings_.prefix);
  jsStreamInfo* found = nullptr;
  jsErrCode code{};
  natsStatus status = js_GetStreamInfo(&found, stream_context_.get(), name.c_str(), nullptr, &code);
  const Owned<jsStreamInfo> info(found);
  if (status == NATS_NOT_FOUND) status = AddStream(&code);
  if (status == NATS_OK || code == JSStreamNameExistErr || code == JSStreamSubjectOverlapErr)
    return;
  Log(LogLevel::kWarning, kLogInit, "the stream {} was neither found nor made at {}: {}", name,
      server_, LastText(status));
}

natsStatus NatsConnection::AddStream(jsErrCode* code) {
  const std::string name = StreamName(settings_.prefix);
  const std::string subjects = AllSubjects(settings_.prefix);
  const char* subject_list[] = {subjects.c_str()};
  jsStreamConfig config;
  jsStreamConfig_Init(&config);
  config.Name = name.c_str();
  config.Description = "What harmonaized tells of jobs and hosts";
  config.Subjects = subject_list;
  config.SubjectsLen = 1;
  config.Storage = js_FileStorage;
  config.MaxBytes = settings_.keep_bytes;
  config.MaxAge = settings_.keep_seconds * kNanosecondsOfSecond;
  config.Duplicates = std::min(kRememberIdsSeconds, settings_.keep_seconds) * kNanosecondsOfSecond;
  jsStreamInfo* made = nullptr;
  const natsStatus status = js_AddStream(&made, stream_context_.get(), &config, nullptr, code);
  const Owned<jsStreamInfo> info(made);
  if (status == NATS_OK) {
    Log(LogLevel::kInfo, kLogInit, "the stream {} was made at {}", name, server_);
  }
  return status;
}

Status NatsConnection::Send(const NatsMessage& message) {
  natsMsg* made = nullptr;
  natsStatus status =
      natsMsg_Create(&made, message.subject.c_str(), nullptr, message.content.data(),
                     static_cast<int>(message.content.size()));
  const Owned<natsMsg> owned(made);
  if (status == NATS_OK) status = natsMsgHeader_Set(made, "content-type", kContentType);
  jsPubAck* received = nullptr;
  jsErrCode code{};
  if (status == NATS_OK) {
    jsPubOptions options;
    jsPubOptions_Init(&options);
    options.MaxWait = kPatienceMs;
    options.MsgId = message.id.c_str();
    status = js_PublishMsg(&received, stream_context_.get(), made, &options, &code);
  }
  const Owned<jsPubAck> ack(received);
  if (status == NATS_OK && received->Sequence > 0) return Status::Ok();
  const std::string text = status == NATS_OK ? "the answer is none of a stream's"
                           : status == NATS_NO_RESPONDERS
                               ? "no stream takes events with the subject " + message.subject
                               : LastText(status);
  if (status == NATS_MAX_PAYLOAD || code == JSStreamMessageExceedsMaximumErr) {
    return InvalidArgument("{}: {}", server_, text);
  }
  Disconnect();
  return Unavailable("{}: {}", server_, text);
}

}  // namespace

Result<std::unique_ptr<NatsLink>> MakeNatsLink(NatsSettings settings) {
  if (!settings.credentials_file.empty()) {
    const Result<NatsCredentials> credentials = ReadNatsCredentials(settings.credentials_file);
    if (!credentials.ok()) {
      return Status(credentials.status().code(),
                    "events.nats_credentials: " + credentials.status().message());
    }
  }
  for (const NatsServer& server : settings.servers) {
    if (server.tls) continue;
    Log(LogLevel::kWarning, kLogInit,
        "events.nats has {}: without TLS, whoever listens at this port of this host while the "
        "server "
        "is away is told all events; write tls:// where strangers run programs",
        server.url());
  }
  return std::unique_ptr<NatsLink>(std::make_unique<NatsConnection>(std::move(settings)));
}

}  // namespace harmonaize::daemon
