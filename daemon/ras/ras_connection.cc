#include "daemon/ras/ras_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>

#include "daemon/ras/ras_text.h"
#include "daemon/runtime/guarded.h"
#include "daemon/version.h"

namespace harmonaize::daemon {
namespace {

/// The version of the protocol that is spoken: that of NCCL 2.28 to 2.30.
constexpr char kGreetingAnswer[] = "SERVER PROTOCOL 2\n";

/// Bytes of answers from which on further lines wait until these were written.
constexpr size_t kMostAnswerBytes = 4096;

/// Longest time for an answer where the client sets no limit.
constexpr std::chrono::seconds kMostPatience(60);

}  // namespace

RasConnection::RasConnection(std::shared_ptr<RasServices> services,
                             std::shared_ptr<ByteStream> stream, HttpCaller caller,
                             std::shared_ptr<Account> account, std::function<void()> on_closed)
    : services_(std::move(services)),
      stream_(std::move(stream)),
      caller_(std::move(caller)),
      account_(std::move(account)),
      on_closed_(std::move(on_closed)),
      reader_{caller_.tenant, caller_.is_operator()},
      answer_within_(services_->limits.answer_within),
      due_(Clock::now() + services_->limits.line_within),
      deadline_(services_->context) {}

void RasConnection::Start() {
  stream_->Begin(
      [self = shared_from_this()](bool begun) { begun ? self->Advance() : self->Close(); });
}

void RasConnection::Close() {
  if (std::exchange(phase_, Phase::kClosed) == Phase::kClosed) return;
  deadline_.cancel();
  stream_->Close();
  {
    const std::lock_guard lock(mailbox_->mutex);
    mailbox_->closed = true;
    mailbox_->text.clear();
  }
  if (subscription_ != 0) services_->bus->Unsubscribe(reader_, subscription_);
  on_closed_();
}

// ---------------------------------------------------------------------------------------------
// Lines

void RasConnection::Read() {
  if (std::exchange(reading_, true)) return;
  stream_->Read([self = shared_from_this()](ByteStream::ReadEnd end, std::string_view bytes) {
    self->reading_ = false;
    self->OnRead(end, bytes);
  });
}

void RasConnection::OnRead(ByteStream::ReadEnd end, std::string_view bytes) {
  if (phase_ == Phase::kClosed) return;
  // A client that has had its answer is read only so that it can read all before the end.
  if (end != ByteStream::ReadEnd::kNone) return Close();
  if (phase_ == Phase::kFinishing) return Read();
  received_.append(bytes);
  Advance();
}

// Does what can be done now: obeys lines, writes, or waits for more.
void RasConnection::Advance() {
  while (phase_ == Phase::kListening && outgoing_.size() < kMostAnswerBytes && ObeyNextLine()) {
  }
  if (phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kListening) {
    if (received_.find('\n') == std::string::npos) {
      if (received_.size() >= kMostRasLineBytes) return Close();
      Read();
    }
    if (outgoing_.empty() && !writing_) outgoing_ = TakeEvents();
  }
  Write();
  SetDeadline();
}

bool RasConnection::ObeyNextLine() {
  const size_t end = received_.find('\n');
  if (end == std::string::npos) return false;
  if (end >= kMostRasLineBytes) {
    Close();
    return false;
  }
  const RasCommand command = ParseRasCommand(std::string_view(received_).substr(0, end));
  received_.erase(0, end + 1);
  due_ = Clock::now() + services_->limits.line_within;
  Obey(command);
  return true;
}

void RasConnection::Obey(const RasCommand& command) {
  switch (command.kind) {
    case RasCommand::Kind::kGreeting: outgoing_ += kGreetingAnswer; return;
    case RasCommand::Kind::kTimeout:
      answer_within_ = std::chrono::seconds(command.timeout_seconds);
      outgoing_ += "OK\n";
      return;
    case RasCommand::Kind::kFormat: {
      json_ = command.json;
      const std::lock_guard lock(mailbox_->mutex);
      mailbox_->watch.json = command.json;
      outgoing_ += "OK\n";
      return;
    }
    case RasCommand::Kind::kStatus: return AskStatus(command.verbose);
    case RasCommand::Kind::kMonitor: return Watch(command.groups);
    case RasCommand::Kind::kWrong: outgoing_ += command.error + "\n"; return;
    case RasCommand::Kind::kForeign: return Close();
  }
}

// ---------------------------------------------------------------------------------------------
// STATUS

// The text is made on the snapshots' thread, in the turn of the tenant.
void RasConnection::AskStatus(bool verbose) {
  phase_ = Phase::kAnswering;
  const bool patient = answer_within_.count() == 0;
  due_ = Clock::now() + (patient ? kMostPatience : answer_within_);
  services_->reports->Get(caller_, [services = services_, weak = weak_from_this(), json = json_,
                                    verbose,
                                    asked = Clock::now()](const JobSnapshots::Snapshot& report) {
    std::string text;
    GuardedAndLogged("an answer to NCCL's RAS client", [&] {
      if (report == nullptr) return;
      const std::chrono::duration<double> took = Clock::now() - asked;
      const RasAnswerFacts facts{
          .verbose = verbose, .seconds = took.count(), .time = RasTimeText(), .version = kVersion};
      text = json ? RasStatusJson(*report, facts) : RasStatusText(*report, facts);
    });
    boost::asio::post(services->context, [weak, report, text = std::move(text)]() mutable {
      if (const auto self = weak.lock()) self->OnReport(report, std::move(text));
    });
  });
}

void RasConnection::OnReport(const JobSnapshots::Snapshot& report, std::string text) {
  if (phase_ != Phase::kAnswering) return;
  if (report == nullptr || text.empty()) {
    return FinishWith("ERROR: the daemon has no answer now; ask again\n");
  }
  Result<Holding> memory = account_->Take(Resource::kMemory, static_cast<int64_t>(text.size()));
  if (!memory.ok()) return FinishWith("ERROR: " + memory.status().message() + "\n");
  answer_memory_ = std::move(*memory);
  FinishWith(std::move(text));
}

void RasConnection::FinishWith(std::string text) {
  phase_ = Phase::kFinishing;
  due_ = Clock::time_point::max();
  outgoing_ += text;
  Write();
  SetDeadline();
}

// ---------------------------------------------------------------------------------------------
// MONITOR

void RasConnection::Watch(unsigned groups) {
  {
    const std::lock_guard lock(mailbox_->mutex);
    mailbox_->watch = {.groups = groups, .json = json_};
  }
  if (subscription_ != 0) {
    outgoing_ += "OK\n";
    return;
  }
  Subscribe();
}

// The client hears "OK" once nothing more can be missed. The sink is called on the bus's thread,
// and must not wait.
void RasConnection::Subscribe() {
  subscription_ = services_->bus->NextSubscription();
  const auto say = [services = services_, weak = weak_from_this()](std::string line) {
    boost::asio::post(services->context, [weak, line = std::move(line)] {
      const auto self = weak.lock();
      if (self == nullptr || self->phase_ != Phase::kListening) return;
      self->outgoing_ += line;
      self->Advance();
    });
  };
  EventBus::Subscribing calls;
  calls.open = [say, mailbox = mailbox_,
                most = services_->limits.waiting_event_bytes]() -> EventSink {
    say("OK\n");
    return [say, mailbox, most](const std::string& text) {
      const std::lock_guard lock(mailbox->mutex);
      if (mailbox->closed) return false;
      const std::string told = RasEventText(text, mailbox->watch, RasTimeText());
      if (!mailbox->text.empty() && mailbox->text.size() + told.size() > most) {
        mailbox->full = true;
        return false;
      }
      mailbox->text += told;
      // Nothing is said, but what is in the mailbox is taken.
      if (!told.empty()) say("");
      return true;
    };
  };
  calls.refuse = [say](const Status& why) { say("ERROR: " + why.message() + "\n"); };
  services_->bus->Subscribe(reader_, subscription_, {}, std::move(calls));
}

std::string RasConnection::TakeEvents() {
  if (subscription_ == 0) return "";
  std::string text;
  bool was_full = false;
  {
    const std::lock_guard lock(mailbox_->mutex);
    text.swap(mailbox_->text);
    was_full = std::exchange(mailbox_->full, false);
  }
  if (was_full) services_->bus->Resume(reader_, subscription_);
  return text;
}

// ---------------------------------------------------------------------------------------------
// Writing, and deadlines

void RasConnection::Write() {
  if (writing_ || outgoing_.empty() || phase_ == Phase::kClosed) return;
  writing_ = true;
  written_by_ = Clock::now() + services_->limits.read_within;
  stream_->Write(std::exchange(outgoing_, {}),
                 [self = shared_from_this()](ByteStream::Sending sending) {
                   if (sending == ByteStream::Sending::kBroken) return self->Close();
                   if (sending == ByteStream::Sending::kDone) self->OnWritten();
                 });
}

void RasConnection::OnWritten() {
  writing_ = false;
  if (phase_ == Phase::kClosed) return;
  if (phase_ != Phase::kFinishing || !outgoing_.empty()) return Advance();
  answer_memory_.Reset();
  stream_->FinishSending();
  due_ = Clock::now() + services_->limits.close_within;
  SetDeadline();
  Read();
}

void RasConnection::SetDeadline() {
  if (phase_ == Phase::kClosed) return;
  const bool may_be_silent = phase_ == Phase::kListening && subscription_ != 0;
  Clock::time_point next = may_be_silent ? Clock::time_point::max() : due_;
  if (writing_) next = std::min(next, written_by_);
  if (next == Clock::time_point::max()) {
    deadline_.cancel();
    return;
  }
  deadline_.expires_at(next);
  deadline_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self != nullptr) self->OnDeadline();
  });
}

void RasConnection::OnDeadline() {
  if (phase_ == Phase::kClosed) return;
  const Clock::time_point now = Clock::now();
  if (writing_ && now >= written_by_) return Close();
  if (now < due_) return SetDeadline();
  if (phase_ != Phase::kAnswering) return Close();
  FinishWith(fmt::format("ERROR: the daemon has not answered within {} s\n",
                         answer_within_.count() / 1000));
}

}  // namespace harmonaize::daemon
