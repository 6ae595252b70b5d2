#include "daemon/nats/event_forwarder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include "daemon/nats/nats_subject.h"
#include "daemon/runtime/guarded.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

using std::chrono::milliseconds;

/// The operators' place among the tenants that take turns; no tenant's number.
constexpr uint32_t kOperatorsTurn = UINT32_MAX;
/// Time, in nanoseconds, between two lines of the log about one trouble that goes on.
constexpr uint64_t kBetweenLines = 30'000'000'000;
/// Pause after an exception, so that one that comes again and again does not fill the log.
constexpr std::chrono::seconds kPauseAfterException{1};
/// Longest time for which what waits is still sent at the end, where a server takes it.
constexpr std::chrono::seconds kLastSending{2};
/// Longest wait for the thread at the end. It exceeds kLastSending and what one more event takes.
constexpr std::chrono::seconds kPatienceAtTheEnd{6};

}  // namespace

// Quotation marks within a text of JSON have a backslash before them, so what is found is the
// attribute. Parsing the whole document would cost much more.
std::string PublishedText(const Event& event) {
  std::string text = ToCloudEvent(event);
  const std::string attribute = fmt::format("\"sequence\":\"{:020}\",", event.sequence);
  const size_t place = text.find(attribute);
  if (place != std::string::npos) text.erase(place, attribute.size());
  return text;
}

/// What the thread works on; it outlives the forwarder if the thread has to be left to itself.
class EventForwarder::Worker {
 public:
  Worker(std::unique_ptr<NatsLink> link, const Options& options)
      : options_(options), link_(std::move(link)), outbox_(options.limits) {}

  /// Adds what an earlier daemon has left. Its file is removed once all has been sent.
  void AddLeft(const OutboxFile& file);
  void Add(EventOutbox::Entry entry);
  std::vector<EventOutbox::Entry> TakeWaiting();
  Counts counts() const;
  /// Asks the thread to end. Returns whether it has ended in time.
  bool Stop();
  /// The thread's work.
  void Run();

 private:
  void RunUntilStopped();
  bool ConnectIfNeeded();
  std::optional<EventOutbox::Entry> WaitForEntry();
  void SendOrPutBack(EventOutbox::Entry entry);
  void AfterConnecting();
  void AfterFailure(const Status& why);
  void AfterSuccess();
  void NoteUnsendable(const EventOutbox::Entry& entry, const Status& why);

  const Options options_;
  // Used by the thread alone.
  std::unique_ptr<NatsLink> link_;
  std::minstd_rand jitter_{std::random_device{}()};
  int64_t pause_ms_ = 0;  ///< The last one; 0: the last attempt succeeded.
  bool failing_ = false;  ///< The log has said that events wait.
  uint64_t line_time_ = 0;
  uint64_t reported_given_up_ = 0;
  std::optional<OutboxFile> left_;  ///< The file of an earlier daemon, whose events still wait.

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  EventOutbox outbox_;                                // guarded by mutex_
  bool stopping_ = false;                             // guarded by mutex_
  std::chrono::steady_clock::time_point send_until_;  // guarded by mutex_; with stopping_
  bool ended_ = false;                                // guarded by mutex_
  bool sending_ = false;                              // guarded by mutex_
  uint64_t sent_ = 0;                                 // guarded by mutex_
  uint64_t unsendable_ = 0;                           // guarded by mutex_
};

// ---------------------------------------------------------------------------------------------
// From all threads

void EventForwarder::Worker::Add(EventOutbox::Entry entry) {
  {
    const std::lock_guard lock(mutex_);
    outbox_.Add(std::move(entry));
  }
  changed_.notify_all();
}

// Whether the stream has taken an event before a crash is not known. Its id is the same then.
void EventForwarder::Worker::AddLeft(const OutboxFile& file) {
  Result<std::vector<EventOutbox::Entry>> entries = file.Load();
  if (!entries.ok()) {
    return Log(LogLevel::kWarning, kLogInit,
               "events that an earlier daemon has left are not published: {}",
               entries.status().message());
  }
  if (entries->empty()) return;
  Log(LogLevel::kInfo, kLogInit, "{} events of an earlier daemon wait to be published to NATS",
      entries->size());
  left_.emplace(file);
  for (EventOutbox::Entry& entry : *entries) Add(std::move(entry));
}

std::vector<EventOutbox::Entry> EventForwarder::Worker::TakeWaiting() {
  const std::lock_guard lock(mutex_);
  std::vector<EventOutbox::Entry> entries;
  while (std::optional<EventOutbox::Entry> entry = outbox_.Take()) {
    entries.push_back(std::move(*entry));
  }
  return entries;
}

EventForwarder::Counts EventForwarder::Worker::counts() const {
  const std::lock_guard lock(mutex_);
  return {.sent = sent_,
          .given_up = outbox_.given_up() + unsendable_,
          .waiting = outbox_.size() + (sending_ ? 1 : 0)};
}

bool EventForwarder::Worker::Stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  send_until_ = std::chrono::steady_clock::now() + kLastSending;
  changed_.notify_all();
  return changed_.wait_for(lock, kPatienceAtTheEnd, [this] { return ended_; });
}

// ---------------------------------------------------------------------------------------------
// On the thread

void EventForwarder::Worker::Run() {
  // Memory that ran out for a moment ends one round, not the publishing.
  for (bool stopped = false; !stopped;) {
    GuardedAndLogged("publishing to NATS", [&] {
      RunUntilStopped();
      stopped = true;
    });
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPauseAfterException, [&] { return stopped || stopping_; });
    stopped = stopped || stopping_;
  }
  GuardedAndLogged("closing the connection to NATS", [this] { link_.reset(); });
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

// Connects before there is an event, so that the log shows what is wrong, and subscribers find the
// stream.
void EventForwarder::Worker::RunUntilStopped() {
  {
    // An exception has taken the event that was being sent along.
    const std::lock_guard lock(mutex_);
    if (sending_) ++unsendable_;
    sending_ = false;
  }
  for (;;) {
    if (!ConnectIfNeeded()) return;
    std::optional<EventOutbox::Entry> entry = WaitForEntry();
    if (!entry.has_value()) return;
    SendOrPutBack(std::move(*entry));
  }
}

/// Connects, however long that takes. Returns false when the thread is to end, unless there is a
/// connection.
bool EventForwarder::Worker::ConnectIfNeeded() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const auto stopping = [this] { return stopping_; };
      if (changed_.wait_for(lock, milliseconds(pause_ms_), stopping)) return link_->connected();
    }
    if (link_->connected()) return true;
    const Status status = link_->Connect();
    if (status.ok()) {
      AfterConnecting();
      return true;
    }
    AfterFailure(status);
  }
}

/// Returns the next event once there is one; nullopt when the thread is to end.
std::optional<EventOutbox::Entry> EventForwarder::Worker::WaitForEntry() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopping_ || !outbox_.empty(); });
  const bool too_late = stopping_ && std::chrono::steady_clock::now() >= send_until_;
  if (outbox_.empty() || too_late) return std::nullopt;
  sending_ = true;
  return outbox_.Take();
}

void EventForwarder::Worker::SendOrPutBack(EventOutbox::Entry entry) {
  Status status = InternalError("an exception");
  // A failure to allocate costs this event its turn, not the thread its life.
  GuardedAndLogged("publishing an event to NATS", [&] {
    status = link_->connected()
                 ? link_->Send({.subject = entry.subject, .id = entry.id, .content = entry.content})
                 : Unavailable("the connection has ended");
  });
  const bool cannot_be_sent = status.code() == Code::kInvalidArgument;
  if (cannot_be_sent) NoteUnsendable(entry, status);
  {
    const std::lock_guard lock(mutex_);
    sending_ = false;
    if (status.ok()) {
      ++sent_;
    } else if (cannot_be_sent) {
      ++unsendable_;
    } else {
      outbox_.PutBack(std::move(entry));
    }
  }
  if (status.ok()) {
    AfterSuccess();
  } else if (!cannot_be_sent) {
    AfterFailure(status);
  }
}

// Whether a server takes events is only known once one has been sent: the pause stays until then.
void EventForwarder::Worker::AfterConnecting() {
  if (failing_ && counts().waiting > 0) return;
  failing_ = false;
  Log(LogLevel::kInfo, kLogInit, "events are published to NATS at {}", link_->server());
}

void EventForwarder::Worker::AfterFailure(const Status& why) {
  const int64_t longest =
      pause_ms_ == 0 ? options_.first_pause_ms : std::min(pause_ms_ * 2, options_.longest_pause_ms);
  pause_ms_ = std::max<int64_t>(
      1, longest - std::uniform_int_distribution<int64_t>(0, longest / 4)(jitter_));
  const uint64_t now = MonotonicNanoseconds();
  if (failing_ && now - line_time_ < kBetweenLines) return;
  failing_ = true;
  line_time_ = now;
  const Counts numbers = counts();
  Log(LogLevel::kWarning, kLogInit,
      "events are not published to NATS now; {} wait, and {} were "
      "given up: {}",
      numbers.waiting, numbers.given_up, why.message());
}

void EventForwarder::Worker::AfterSuccess() {
  pause_ms_ = 0;
  const Counts numbers = counts();
  const uint64_t now = MonotonicNanoseconds();
  const bool all_sent = numbers.waiting == 0;
  if (all_sent && left_.has_value()) {
    left_->Remove();
    left_.reset();
  }
  const uint64_t given_up = numbers.given_up - reported_given_up_;
  if (failing_) {
    Log(LogLevel::kInfo, kLogInit, "events are published to NATS again, at {}; {} wait",
        link_->server(), numbers.waiting);
  }
  if (given_up > 0 && (failing_ || all_sent || now - line_time_ >= kBetweenLines)) {
    reported_given_up_ = numbers.given_up;
    line_time_ = now;
    Log(LogLevel::kWarning, kLogInit,
        "{} events were not published to NATS, since too many waited; the oldest were given up",
        given_up);
  }
  failing_ = false;
}

void EventForwarder::Worker::NoteUnsendable(const EventOutbox::Entry& entry, const Status& why) {
  const uint64_t now = MonotonicNanoseconds();
  if (line_time_ != 0 && now - line_time_ < kBetweenLines) return;
  line_time_ = now;
  Log(LogLevel::kWarning, kLogInit, "event {} is not published to NATS: {}", entry.id,
      why.message());
}

// ---------------------------------------------------------------------------------------------

EventForwarder::EventForwarder(std::unique_ptr<NatsLink> link, Options options)
    : options_(std::move(options)),
      file_(options_.folder),
      worker_(std::make_shared<Worker>(std::move(link), options_)) {
  worker_->AddLeft(file_);
  thread_ = std::thread([worker = worker_] { worker->Run(); });
}

EventForwarder::~EventForwarder() {
  const bool ended = worker_->Stop();
  if (ended) {
    thread_.join();
  } else {
    Log(LogLevel::kWarning, kLogInit,
        "publishing to NATS has not ended, since the server's name or the server is waited for");
    thread_.detach();
  }
  GuardedAndLogged("keeping what waits for NATS", [this] { Leave(worker_->TakeWaiting()); });
}

void EventForwarder::Leave(const std::vector<EventOutbox::Entry>& entries) const {
  if (entries.empty()) return file_.Remove();
  const Status saved = file_.Save(entries);
  if (saved.ok()) {
    Log(LogLevel::kInfo, kLogInit, "{} events wait for the next daemon to publish them to NATS",
        entries.size());
  } else {
    Log(LogLevel::kWarning, kLogInit, "{} events are not published to NATS: {}", entries.size(),
        saved.message());
  }
}

void EventForwarder::Publish(const TenantIdentity& tenant, const Event& event) {
  worker_->Add({.tenant = tenant.number,
                .subject = SubjectOf(options_.prefix, tenant.name, event),
                .id = event.id(),
                .content = PublishedText(event)});
}

void EventForwarder::PublishToOperators(const Event& event) {
  worker_->Add({.tenant = kOperatorsTurn,
                .subject = SubjectForOperators(options_.prefix, event),
                .id = event.id(),
                .content = PublishedText(event)});
}

EventForwarder::Counts EventForwarder::counts() const {
  return worker_->counts();
}

}  // namespace harmonaize::daemon
