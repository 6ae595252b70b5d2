#include "daemon/access/reception.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "daemon/access/region_mapping.h"
#include "daemon/access/requests.h"
#include "daemon/host/host_tuning.h"
#include "daemon/runtime/free_memory.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/tenant/session_keeper.h"
#include "daemon/tenant/tenant.h"
#include "daemon/tenant/tenant_table.h"
#include "daemon/version.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/thread_clock.h"
#include "src/base/wait_estimate.h"

namespace harmonaize::daemon {
namespace {

/// Longest time, in nanoseconds, that a new connection may be silent. A client says hello at once;
/// a silent connection only holds descriptors.
constexpr uint64_t kHelloWithinNanoseconds = 5'000'000'000;

/// Time, in nanoseconds, that a reception stays after its tenant's last connection. By then the
/// tenant's allowance is full again, so that what it has used is not forgotten too early.
constexpr uint64_t kLingerNanoseconds = 1'000'000'000;

/// Interval, in nanoseconds, at which a reception looks whether its tenant has read the last
/// answers of connections that have ended.
constexpr uint64_t kUnreadEveryNanoseconds = 50'000'000;

/// Bytes of the daemon's memory that a session is charged for: tables of its members and streams,
/// the parts of its segment that the daemon writes, kernel objects.
constexpr int64_t kSessionBytes = 512 << 10;

}  // namespace

Result<std::shared_ptr<Reception>> Reception::Open(std::shared_ptr<EngineGate> gate,
                                                   TenantIdentity tenant, const Greeter& greeter) {
  std::shared_ptr<Reception> reception(new Reception(std::move(gate), std::move(tenant), greeter));
  HZ_ASSIGN_OR_RETURN(reception->loop_, EventLoop::Create());
  try {
    // The thread is detached: it may stand still for as long as its tenant likes.
    std::thread([reception] { reception->Run(); }).detach();
  } catch (const std::system_error& error) {
    return SystemError("cannot start a thread: {}", error.what());
  }
  return reception;
}

bool Reception::Receive(std::unique_ptr<Connection>* connection) {
  const std::lock_guard lock(mutex_);
  if (ended_) return false;
  arrivals_.push_back(nullptr);
  arrivals_.back() = std::move(*connection);
  loop_->Wake();
  return true;
}

void Reception::Close() {
  // Release, with the acquire in Run: the reception then sees what the engine answered last.
  closing_.store(true, std::memory_order_release);
  loop_->Wake();
}

// ---------------------------------------------------------------------------------------------
// The thread

void Reception::Run() {
  const LogFor log_for(tenant_);
  do {
    allowance_.RestIfSpent();
    const int64_t begun_ns = ThreadNanoseconds();
    loop_->Wait(TimeoutMs());
    loop_->RunPosted();
    WelcomeArrivals();
    // Before the look at the answer, which is the engine's last one if this is set.
    const bool closing = closing_.load(std::memory_order_acquire);
    GuardedAndLogged("a tenant's reception", [this, closing] {
      if (answered_.exchange(false, std::memory_order_acquire)) OnAsked();
      // The engine has gone, and with it the question that it was asked.
      if (closing) asking_ = nullptr;
      while (closing && !guests_.empty()) {
        Drop(guests_.begin()->second.connection, "lost its daemon");
      }
      const uint64_t now_ns = MonotonicNanoseconds();
      SendAwayTheSilent(now_ns);
      LetGoOfWhatWasRead(now_ns);
      AskNext();
    });
    // Giving memory back is not charged: it takes long if there is much, and others want the
    // memory.
    Charge(ThreadNanoseconds() - begun_ns);
    DestroyUnused();
  } while (!MayEnd());
  ReturnFreeMemory();
  closed_.store(true, std::memory_order_release);
}

// Charges the tenant for time of this thread, or of the engine.
void Reception::Charge(int64_t nanoseconds) {
  allowance_.Spend(nanoseconds);
  if (account_ != nullptr) account_->NoteRequestTime(nanoseconds);
}

bool Reception::MayEnd() {
  // A posted call may hold a reference to the reception, whose loop holds the call.
  const bool used = !guests_.empty() || asking_ != nullptr || loop_->HasPosted() ||
                    dependents_.load(std::memory_order_acquire) > 0;
  const uint64_t now_ns = MonotonicNanoseconds();
  if (used) unused_since_ns_ = 0;
  if (!used && unused_since_ns_ == 0) unused_since_ns_ = now_ns;
  const bool closing = closing_.load(std::memory_order_relaxed);
  if (used || (!closing && now_ns < unused_since_ns_ + kLingerNanoseconds)) return false;
  const std::lock_guard lock(mutex_);
  ended_ = arrivals_.empty();
  return ended_;
}

int Reception::TimeoutMs() const {
  const uint64_t now_ns = MonotonicNanoseconds();
  uint64_t until_ns = UINT64_MAX;
  for (const auto& [fd, guest] : guests_) {
    if (!guest.has_asked) until_ns = std::min(until_ns, guest.hello_by_ns);
  }
  if (!unread_.empty()) until_ns = std::min(until_ns, next_look_at_unread_ns_);
  if (unused_since_ns_ != 0) until_ns = std::min(until_ns, unused_since_ns_ + kLingerNanoseconds);
  // By then the allowance may be above 0 again.
  if (asking_ == nullptr && !questions_.empty()) until_ns = std::min(until_ns, now_ns + 10'000'000);
  if (until_ns == UINT64_MAX) return -1;
  return until_ns <= now_ns ? 0 : static_cast<int>((until_ns - now_ns) / 1'000'000) + 1;
}

// ---------------------------------------------------------------------------------------------
// Connections

void Reception::WelcomeArrivals() {
  while (true) {
    std::unique_ptr<Connection> arrived;
    {
      const std::lock_guard lock(mutex_);
      if (arrivals_.empty()) return;
      arrived = std::move(arrivals_.front());
      arrivals_.pop_front();
    }
    GuardedAndLogged("a new connection", [&] { Welcome(std::move(arrived)); });
  }
}

void Reception::Welcome(std::unique_ptr<Connection> arrived) {
  const std::shared_ptr<Connection> connection = Share(std::move(arrived));
  // The connection's deleter keeps the reception, so these calls must not keep the connection.
  connection->SetOnAnswered([this, weak = std::weak_ptr(connection)] {
    loop_->Post([this, weak] {
      if (const auto answered = weak.lock()) OnAnswered(answered);
    });
  });
  connection->SetOnOutgoing([this, weak = std::weak_ptr(connection)] {
    loop_->Post([weak] {
      if (const auto speaking = weak.lock()) speaking->SendOutgoing();
    });
  });
  account_ = connection->account();
  const TenantIdentity& tenant = connection->tenant();
  // The name is looked up on this thread, since that may wait for a server.
  if (!std::exchange(named_, true) && tenant.number == tenant.user) {
    connection->account()->SetName(UserName(tenant.user));
  }
  guests_[connection->fd()] = {.connection = connection,
                               .hello_by_ns = MonotonicNanoseconds() + kHelloWithinNanoseconds};
  const Status watched = Caught([&] { return WatchGuest(connection); });
  if (watched.ok()) return;
  Drop(connection, "could not be watched");
}

Status Reception::WatchGuest(const std::shared_ptr<Connection>& connection) {
  HZ_RETURN_IF_ERROR(
      loop_->Watch(connection->fd(), [this, connection] { OnReadable(connection); }));
  if (connection->process_fd() < 0) return Status::Ok();
  // A process may end while a forked child still holds its socket open.
  return loop_->Watch(connection->process_fd(), [this, connection] {
    Drop(connection, fmt::format("(process {}) died", connection->peer().process),
         SessionEnd::kHungUp);
  });
}

void Reception::SendAwayTheSilent(uint64_t now_ns) {
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const std::shared_ptr<Connection> connection = guest->second.connection;
    const bool silent = !guest->second.has_asked && now_ns >= guest->second.hello_by_ns;
    ++guest;
    if (!silent) continue;
    connection->ReplyFailure(MessageType::kHello,
                             InvalidUsage("a connection says what it wants within {} s",
                                          kHelloWithinNanoseconds / 1'000'000'000));
    Drop(connection, "said nothing");
  }
}

// The engine has seen nothing of a message at which this throws. Its sender would wait for the
// answer, so it gets an error and is sent away.
void Reception::OnReadable(const std::shared_ptr<Connection>& connection) {
  const auto found = guests_.find(connection->fd());
  if (found == guests_.end() || found->second.connection != connection) return;
  const bool dealt_with = Guarded(
      [&] { Read(found->second); },
      [&](const Status& exception) {
        LogException("a message of a tenant", exception);
        connection->ReplyFailure(MessageType::kHello, exception);
        Drop(connection,
             fmt::format("(process {}) was cut off by the provider", connection->peer().process));
      });
  // The connection is readable once more then, and is dropped.
  if (!dealt_with) connection->Cut();
}

void Reception::Read(Guest& guest) {
  const std::shared_ptr<Connection> connection = guest.connection;
  const auto drop = [&] {
    Drop(connection,
         fmt::format("(process {}) died or closed its connection", connection->peer().process),
         SessionEnd::kHungUp);
  };
  // The connection is not being read, so it is ready only because it has hung up.
  if (guest.answering) return drop();
  // An unread answer takes memory and descriptors of the kernel, which count as the daemon's.
  if (guest.has_asked && connection->HasUnread()) {
    return Drop(connection, fmt::format("(process {}) was cut off by the provider: it asks on "
                                        "without reading what it was answered",
                                        connection->peer().process));
  }
  Result<ControlMessage> message = connection->Receive();
  if (message.status().code() == Code::kInProgress) return;
  if (!message.ok()) return drop();
  const Result<MessageHeader> header = ReadHeader(guest, *message);
  guest.has_asked = true;
  const MessageType type = header.ok() ? header->type : MessageType::kHello;
  const bool has_session = guest.session != 0;
  const Status status = !header.ok()                        ? header.status()
                        : !message->descriptors_status.ok() ? message->descriptors_status
                        : has_session ? Forward(guest, *header, std::move(*message))
                                      : Caught([&] { return Greet(guest, *header, *message); });
  if (status.ok()) return;
  connection->ReplyFailure(has_session ? type : MessageType::kHello, status);
  if (has_session && header.ok()) return;
  Drop(connection, has_session ? fmt::format("(process {}) was cut off by the provider",
                                             connection->peer().process)
                               : "was not let in");
}

// The first request of a connection settles the version in which it is answered, and which no later
// request may exceed. It may itself be in one that this daemon does not speak any more: structs
// grow at their end alone, so it can be read.
Result<MessageHeader> Reception::ReadHeader(const Guest& guest,
                                            const ControlMessage& message) const {
  HZ_ASSIGN_OR_RETURN(const MessageHeader header, DecodeHeader(message.bytes));
  if (!guest.has_asked) {
    HZ_ASSIGN_OR_RETURN(const uint16_t version, AnswerVersion(header, greeter_.versions, kVersion));
    guest.connection->SetVersion(version);
  }
  const uint16_t settled = guest.connection->version();
  if (header.version > settled) {
    return InvalidUsage("a request in version {} of the session protocol, on a connection of {}",
                        header.version, settled);
  }
  return header;
}

void Reception::Drop(const std::shared_ptr<Connection>& connection, const std::string& why,
                     SessionEnd end) {
  const auto found = guests_.find(connection->fd());
  if (found == guests_.end() || found->second.connection != connection) return;
  const uint32_t session = found->second.session;
  connection->SendOutgoing();
  connection->SetGone();
  // The step that may throw comes first: an ended connection is ready again while it is watched.
  unread_.reserve(unread_.size() + 1);
  if (session != 0) {
    gate_->Post([self = shared_from_this(), connection, session, why, end](EngineRooms& rooms) {
      const uint64_t begun_ns = MonotonicNanoseconds();
      SessionKeeper& sessions = rooms.session_keeper();
      if (sessions.FindSessionOf(*connection, session) != nullptr) {
        sessions.LoseSession(session, why, end);
      }
      const auto took_ns = static_cast<int64_t>(MonotonicNanoseconds() - begun_ns);
      self->allowance_.SpendElsewhere(took_ns);
      connection->account()->NoteRequestTime(took_ns);
    });
  } else if (found->second.has_asked) {
    gate_->Post([connection](EngineRooms& rooms) { ForgetAsker(rooms, *connection); });
  }
  loop_->Unwatch(connection->fd());
  if (connection->process_fd() >= 0) loop_->Unwatch(connection->process_fd());
  // The connection counts as the tenant's for as long as the kernel keeps something for the tenant
  // to read.
  if (connection->HasUnread()) {
    connection->Cut();
    if (!found->second.answering) connection->ForgetDocument();
    unread_.push_back(connection);
  }
  guests_.erase(found);
}

void Reception::LetGoOfWhatWasRead(uint64_t now_ns) {
  if (closing_.load(std::memory_order_relaxed)) unread_.clear();
  if (unread_.empty() || now_ns < next_look_at_unread_ns_) return;
  next_look_at_unread_ns_ = now_ns + kUnreadEveryNanoseconds;
  std::erase_if(unread_, [](const std::shared_ptr<Connection>& one) { return !one->HasUnread(); });
}

// ---------------------------------------------------------------------------------------------
// Requests

Status Reception::Greet(Guest& guest, const MessageHeader& header, const ControlMessage& message) {
  const std::shared_ptr<Connection>& connection = guest.connection;
  switch (header.type) {
    case MessageType::kDocument: return ReplyPiece(*connection, header, message);
    case MessageType::kNcclSettings: return ReplyNcclSettings(*connection, header, message);
    case MessageType::kStatus: {
      Ask(guest, header.type,
          [connection](EngineRooms& rooms) { AnswerStatus(rooms, *connection); });
      return Status::Ok();
    }
    case MessageType::kExplain: {
      const Result<ExplainRequest> request = DecodeBody<ExplainRequest>(header, message.bytes);
      if (!request.ok()) return request.status();
      Ask(guest, header.type, [connection, request = *request](EngineRooms& rooms) {
        AnswerExplain(rooms, *connection, request);
      });
      return Status::Ok();
    }
    case MessageType::kProbe: {
      const Result<ProbeRequest> request = DecodeBody<ProbeRequest>(header, message.bytes);
      if (!request.ok()) return request.status();
      const auto* end = reinterpret_cast<const char*>(message.bytes.data() + message.bytes.size());
      Ask(guest, header.type,
          [connection, request = *request, addresses = std::string(end - header.tail_bytes, end)](
              EngineRooms& rooms) { AnswerProbe(rooms, connection, request, addresses); });
      return Status::Ok();
    }
    case MessageType::kHello: {
      HZ_ASSIGN_OR_RETURN(const HelloRequest hello,
                          DecodeBody<HelloRequest>(header, message.bytes));
      return OpenSession(guest, hello, message);
    }
    default: return InvalidUsage("a session starts with a hello");
  }
}

Status Reception::OpenSession(Guest& guest, const HelloRequest& hello,
                              const ControlMessage& message) {
  const std::shared_ptr<Connection>& connection = guest.connection;
  if (connection->is_operator()) {
    return InvalidUsage("ranks come by the tenants' socket, not by the operators'");
  }
  if (message.descriptors.size() != 1) {
    return InvalidArgument("a hello comes with one descriptor, of the memory of its session");
  }
  HZ_ASSIGN_OR_RETURN(Holding place, connection->account()->Take(Resource::kSessions, 1));
  HZ_ASSIGN_OR_RETURN(Holding bytes, connection->account()->Take(Resource::kMemory, kSessionBytes));
  HZ_ASSIGN_OR_RETURN(Mapping segment,
                      MapAndSeal(message.descriptors.front().get(), sizeof(SessionSegment)));
  auto* layout = reinterpret_cast<SessionSegment*>(segment.data());
  layout->header.magic = kSegmentMagic;
  layout->header.version = connection->version();
  layout->header.sleepers.store(kSleepersOnOneHost, std::memory_order_relaxed);
  layout->header.looking.store(static_cast<uint32_t>(Looking::kAsItPays),
                               std::memory_order_relaxed);
  FileDescriptor doorbell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell.valid()) return ErrnoError(errno, "cannot make a doorbell");

  HelloReply reply;
  reply.session = gate_->NextSession();
  reply.workers = static_cast<uint32_t>(greeter_.workers);
  SetFieldText(reply.daemon_version, kVersion);
  reply.oldest_version = greeter_.versions.oldest;
  reply.latest_version = greeter_.versions.latest;
  guest.session = reply.session;

  struct Opening {
    Mapping segment;
    FileDescriptor bell;
    Session::Holdings holdings;
  };
  auto opening = std::make_shared<Opening>(
      Opening{std::move(segment), std::move(doorbell), {std::move(place), std::move(bytes)}});
  Ask(guest, MessageType::kHello,
      [connection, opening, reply, program = CleanFieldText(hello.program),
       job = ClaimIn(hello, connection->tenant().across_hosts)](EngineRooms& rooms) {
        auto* const header = reinterpret_cast<SessionHeader*>(opening->segment.data());
        header->wake_up_ns =
            static_cast<uint32_t>(std::min(rooms.tuning().calibration().costs.wake_up_ns, 1e9));
        // The session keeps the bell.
        const int descriptors[] = {opening->bell.get()};
        const Status added = rooms.session_keeper().AddSession(std::make_unique<Session>(
            reply.session, connection, program, job, rooms.tenants().Of(connection->tenant()),
            std::move(opening->segment), std::move(opening->bell), std::move(opening->holdings)));
        if (!added.ok()) {
          connection->ReplyFailure(MessageType::kHello, added);
          connection->CutSoon();
          return;
        }
        HelloReply answer = reply;
        answer.most_operations = static_cast<uint64_t>(rooms.config().quota.outstanding_operations);
        connection->Reply(MessageType::kHello, answer, descriptors);
      });
  return Status::Ok();
}

Status Reception::Forward(Guest& guest, const MessageHeader& header, ControlMessage message) {
  const std::shared_ptr<Connection>& connection = guest.connection;
  HZ_RETURN_IF_ERROR(CheckServed(header.type, connection->version()));
  if (header.type == MessageType::kDocument) return ReplyPiece(*connection, header, message);
  if (header.type == MessageType::kNcclSettings) {
    return ReplyNcclSettings(*connection, header, message);
  }
  std::shared_ptr<RegionMemory> region;
  if (header.type == MessageType::kRegisterRegion) {
    HZ_ASSIGN_OR_RETURN(std::unique_ptr<RegionMemory> mapped,
                        MapRegion(*connection->account(), header, message));
    region = Share(std::move(mapped));
  }
  if (header.type == MessageType::kLendBuffer) {
    HZ_ASSIGN_OR_RETURN(std::unique_ptr<RegionMemory> lent,
                        TakeBuffer(*connection->account(), header, message));
    region = Share(std::move(lent));
  }
  if (header.type == MessageType::kOpenProfile) {
    HZ_ASSIGN_OR_RETURN(std::unique_ptr<RegionMemory> ring,
                        MapProfileRing(*connection->account(), header, message));
    region = Share(std::move(ring));
  }
  if (header.type == MessageType::kOpenTuning) {
    HZ_ASSIGN_OR_RETURN(std::unique_ptr<RegionMemory> position,
                        MapTuningPosition(*connection->account(), header, message));
    region = Share(std::move(position));
  }
  // Closes the descriptors at once: the engine may be behind, and descriptors are what a daemon
  // runs out of first.
  message.descriptors.clear();
  Ask(guest, header.type,
      [session = guest.session, connection,
       shared = std::make_shared<ControlMessage>(std::move(message)),
       region](EngineRooms& rooms) { AnswerRequest(rooms, session, connection, *shared, region); });
  return Status::Ok();
}

Status Reception::ReplyPiece(Connection& connection, const MessageHeader& header,
                             const ControlMessage& message) {
  HZ_ASSIGN_OR_RETURN(const DocumentRequest request,
                      DecodeBody<DocumentRequest>(header, message.bytes));
  const std::shared_ptr<const Document>& document = connection.document();
  if (document == nullptr || request.offset > document->text.size()) {
    return InvalidUsage("this connection was given no document that goes on at byte {}",
                        request.offset);
  }
  connection.Reply(header.type, DocumentReply{document->text.size()}, {},
                   connection.Piece(request.offset));
  return Status::Ok();
}

// All tenants get the same, so this says nothing of one to another.
Status Reception::ReplyNcclSettings(Connection& connection, const MessageHeader& header,
                                    const ControlMessage& message) {
  HZ_RETURN_IF_ERROR(DecodeBody<NcclSettingsRequest>(header, message.bytes).status());
  const auto text = greeter_.nccl_settings == nullptr ? std::make_shared<const std::string>()
                                                      : greeter_.nccl_settings->text();
  connection.Reply(header.type, NcclSettingsReply{}, {},
                   std::as_bytes(std::span(text->data(), text->size())));
  return Status::Ok();
}

// ---------------------------------------------------------------------------------------------
// To the engine and back

void Reception::Ask(Guest& guest, MessageType type, std::function<void(EngineRooms&)> answer) {
  questions_.push_back({guest.connection, type, std::move(answer)});
  guest.answering = true;
  loop_->SetReading(guest.connection->fd(), false);
  AskNext();
}

void Reception::AskNext() {
  // Questions are dropped if their connection has ended.
  while (!questions_.empty() && questions_.front().connection->gone()) questions_.pop_front();
  if (asking_ != nullptr || questions_.empty() || allowance_.spent()) return;
  asking_ = std::make_shared<Question>(std::move(questions_.front()));
  questions_.pop_front();
  if (asking_->type == MessageType::kStatus) TakeStatusQuestions();
  bool posted = false;
  GuardedAndLogged("a tenant's request", [&] {
    posted = gate_->Post([self = shared_from_this(), question = asking_](EngineRooms& rooms) {
      self->HaveAnswered(*question, rooms);
    });
  });
  if (posted) return;
  asking_->connection->Cut();
  asking_ = nullptr;
  ShareStatus(nullptr);
}

// Thread: engine. Nothing here may throw, or the reception would wait for ever.
void Reception::HaveAnswered(Question& question, EngineRooms& rooms) noexcept {
  Connection& connection = *question.connection;
  const LogFor log_for(tenant_);
  const uint64_t begun_ns = MonotonicNanoseconds();
  connection.BeginRequest();
  if (!connection.gone()) {
    AnswerGuarded(connection, question.type, [&] { question.answer(rooms); });
  }
  question.answer = nullptr;
  question.answered = connection.EndRequest();
  question.took_ns = MonotonicNanoseconds() - begun_ns;
  // Release, with the acquire in Run: the reception sees what the question has become.
  answered_.store(true, std::memory_order_release);
  loop_->Wake();
}

void Reception::OnAsked() {
  const std::shared_ptr<Question> question = std::exchange(asking_, nullptr);
  Charge(static_cast<int64_t>(question->took_ns));
  question->connection->SendOutgoing();
  // No report was made if the asker has gone or memory ran out: then the next asker's question is
  // asked.
  ShareStatus(question->answered ? question->connection->document() : nullptr);
  if (question->answered) OnAnswered(question->connection);
}

// One status report answers all readers that asked before it was begun. So many readers cost the
// engine no more than one, and no reader gets a report that is older than its question.
void Reception::TakeStatusQuestions() {
  const auto first = std::stable_partition(
      questions_.begin(), questions_.end(),
      [](const Question& question) { return question.type != MessageType::kStatus; });
  std::move(first, questions_.end(), std::back_inserter(sharing_));
  questions_.erase(first, questions_.end());
}

void Reception::ShareStatus(const std::shared_ptr<const Document>& status) {
  for (Question& question : std::exchange(sharing_, {})) {
    Connection& connection = *question.connection;
    if (connection.gone()) continue;
    if (status == nullptr) {
      questions_.push_back(std::move(question));
    } else {
      connection.ReplyDocument(question.type, DocumentReply{status->text.size()}, status);
    }
  }
}

void Reception::OnAnswered(const std::shared_ptr<Connection>& connection) {
  const auto found = guests_.find(connection->fd());
  if (found == guests_.end() || found->second.connection != connection) return;
  found->second.answering = false;
  loop_->SetReading(connection->fd(), true);
}

// ---------------------------------------------------------------------------------------------
// Objects of the tenant that the engine holds come back here to be destroyed

// A shared pointer calls the deleter, too, if there is no memory for its own part.
std::shared_ptr<Connection> Reception::Share(std::unique_ptr<Connection> connection) {
  dependents_.fetch_add(1, std::memory_order_relaxed);
  return {connection.release(),
          [self = shared_from_this()](Connection* unused) { self->Retire(unused); }};
}

std::shared_ptr<RegionMemory> Reception::Share(std::unique_ptr<RegionMemory> memory) {
  dependents_.fetch_add(1, std::memory_order_relaxed);
  return {memory.release(),
          [self = shared_from_this()](RegionMemory* unused) { self->Retire(unused); }};
}

void Reception::Retire(Connection* connection) noexcept {
  {
    const std::lock_guard lock(mutex_);
    connection->next_unused = std::exchange(unused_, connection);
  }
  loop_->Wake();
}

void Reception::Retire(RegionMemory* memory) noexcept {
  {
    const std::lock_guard lock(mutex_);
    memory->next_unused = std::exchange(unused_regions_, memory);
  }
  loop_->Wake();
}

void Reception::DestroyUnused() {
  Connection* connections = nullptr;
  RegionMemory* regions = nullptr;
  {
    const std::lock_guard lock(mutex_);
    connections = std::exchange(unused_, nullptr);
    regions = std::exchange(unused_regions_, nullptr);
  }
  while (connections != nullptr) {
    delete std::exchange(connections, connections->next_unused);
    dependents_.fetch_sub(1, std::memory_order_release);
  }
  while (regions != nullptr) {
    delete std::exchange(regions, regions->next_unused);
    dependents_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace harmonaize::daemon
