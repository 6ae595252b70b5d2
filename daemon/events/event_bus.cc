#include "daemon/events/event_bus.h"

#include <fmt/format.h>
#include <openssl/sha.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <thread>
#include <utility>

#include "daemon/config/state_directory.h"
#include "daemon/events/event_publisher.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "src/base/hex.h"
#include "src/base/kernel_files.h"
#include "src/base/log.h"
#include "src/base/random.h"

namespace harmonaize::daemon {
namespace {

/// Most events of one tenant that wait to be kept. It bounds the memory; more come only while the
/// disk is slow.
constexpr size_t kMostWaitingEvents = 4096;
/// Most logs that are open without a subscriber. Each takes some descriptors and some memory.
constexpr size_t kMostIdleLogs = 64;
/// Time after which a log is closed that nobody uses: events come in bursts, and opening a log
/// takes some milliseconds.
constexpr std::chrono::milliseconds kIdleLogCloses(2000);
/// Part of the operators' log that one tenant may fill at once, and the seconds in which it gets as
/// much again. Some thousand events fit, which are the ends of all ranks of a large job.
constexpr double kShareOfOperatorsLog = 1.0 / 8;
constexpr double kShareReturnsSeconds = 86400;
/// Bytes of an event's row that are not text of its own, about.
constexpr size_t kRowBytes = 256;
/// Digits of a folder's tag: those of a random number of 64 bits, so no two folders have the same.
constexpr size_t kTagDigits = 16;

/// Stands for the operators among the tenants.
const TenantIdentity kOperators{
    .number = UINT32_MAX, .across_hosts = UINT32_MAX, .user = 0, .name = "the operators"};

RateLimit ShareOf(const EventRetention& retention) {
  const auto bytes = static_cast<double>(std::max(retention.most_bytes, kLeastLogBytes));
  const double share = bytes * kShareOfOperatorsLog;
  return {.per_second = share / kShareReturnsSeconds, .burst = share};
}

/// Returns the name of a tenant's log: its own name may be a path, and long.
std::string FileNameOf(const TenantIdentity& tenant) {
  if (tenant.number == kOperators.number) return "operators.sqlite3";
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const uint8_t*>(tenant.name.data()), tenant.name.size(), digest.data());
  return HexOf(std::span(digest).first(16)) + ".sqlite3";
}

std::string DrawTag() {
  return fmt::format("{:016x}", RandomNumber());
}

/// Reads the folder's tag, or draws one.
Result<std::string> TagOf(const std::string& folder) {
  std::string tag = FirstLine(folder + "/tag");
  const bool good =
      tag.size() == kTagDigits && tag.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (good) return tag;
  tag = DrawTag();
  HZ_RETURN_IF_ERROR(ReplaceStateFile(folder, "tag", tag + "\n"));
  return tag;
}

}  // namespace

Result<std::unique_ptr<EventBus>> EventBus::Create(Options options) {
  std::unique_ptr<EventBus> bus(new EventBus(std::move(options)));
  HZ_RETURN_IF_ERROR(bus->Open());
  return bus;
}

EventBus::EventBus(Options options)
    : options_(std::move(options)),
      shares_(ShareOf(options_.retention)),
      share_notices_({.per_second = 1.0 / kShareReturnsSeconds, .burst = 1}) {}

Status EventBus::Open() {
  const std::string& folder = options_.folder;
  if (!folder.empty()) {
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      return ErrnoError(errno, fmt::format("cannot make the folder {} for events", folder));
    }
    struct stat found {};
    if (stat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
      return SystemError("{} is no folder, so events cannot be kept there", folder);
    }
  }
  memory_tag_ = DrawTag();
  if (!folder.empty()) {
    HZ_ASSIGN_OR_RETURN(tag_, TagOf(folder));
  }
  thread_ = std::make_unique<Background>();
  if (!folder.empty()) janitor_ = std::thread([this] { RunJanitor(); });
  return Status::Ok();
}

EventBus::~EventBus() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  janitor_woken_.notify_all();
  if (janitor_.joinable()) janitor_.join();
  thread_.reset();
}

// ---------------------------------------------------------------------------------------------
// From all threads

void EventBus::Post(const TenantIdentity& tenant, std::function<void(EventChannel&)> call) {
  thread_->Post(
      [this, tenant, call = std::move(call)] {
        const LogFor log_for(tenant);
        call(ChannelOf(tenant));
      },
      tenant.number);
}

void EventBus::PostFor(const EventReader& reader, std::function<void(EventChannel&)> call) {
  Post(reader.is_operator ? kOperators : reader.tenant, std::move(call));
}

void EventBus::Publish(const TenantIdentity& tenant, Event event, EventOrigin origin) {
  {
    const std::lock_guard lock(mutex_);
    size_t& waiting = waiting_[tenant.number];
    if (waiting >= kMostWaitingEvents) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      Log(LogLevel::kWarning, kLogInit, "an event of {} is dropped, since {} wait to be kept",
          tenant.name, waiting);
      return;
    }
    ++waiting;
  }
  const auto keep = [this, tenant, event = std::move(event), origin] {
    const LogFor log_for(tenant);
    GuardedAndLogged("an event", [&] { Keep(tenant, event, origin); });
    const std::lock_guard lock(mutex_);
    if (--waiting_[tenant.number] == 0) waiting_.erase(tenant.number);
  };
  thread_->Post(keep, tenant.number);
}

// Returns false for an event that the channel has had before.
bool EventBus::CountedAdd(EventChannel& channel, const Event& event) {
  const bool is_new = channel.Add(event);
  std::atomic<uint64_t>& counter = is_new ? published_[static_cast<size_t>(event.type)] : repeated_;
  counter.fetch_add(1, std::memory_order_relaxed);
  return is_new;
}

// The operators' turn is the tenant's, who makes work for them.
void EventBus::Keep(const TenantIdentity& tenant, const Event& event, EventOrigin origin) {
  if (!CountedAdd(ChannelOf(tenant), event)) return;
  if (options_.publisher != nullptr && origin == EventOrigin::kHere) {
    options_.publisher->Publish(tenant, event);
  }
  if (!MayFillMore(tenant, event)) return;
  Event for_operators = event;
  for_operators.tenant = tenant.name;
  ChannelOf(kOperators).Add(std::move(for_operators));
}

bool EventBus::MayFillMore(const TenantIdentity& tenant, const Event& event) {
  const auto now = std::chrono::steady_clock::now();
  const size_t bytes = kRowBytes + event.data.size() + event.subject.size() + tenant.name.size();
  if (!shares_.Take(tenant.name, now, static_cast<double>(bytes)).has_value()) return true;
  unshared_.fetch_add(1, std::memory_order_relaxed);
  if (!share_notices_.Take(tenant.name, now).has_value()) {
    Log(LogLevel::kWarning, kLogInit,
        "{} has used up its share of the operators' events: more of them are told to it alone",
        tenant.name);
  }
  return false;
}

void EventBus::PublishToOperators(Event event) {
  Post(kOperators, [this, event = std::move(event)](EventChannel& channel) {
    if (CountedAdd(channel, event) && options_.publisher != nullptr)
      options_.publisher->PublishToOperators(event);
  });
}

// An event counts as waiting until it was kept and told.
void EventBus::Flush(std::chrono::milliseconds within) {
  const auto end = std::chrono::steady_clock::now() + within;
  const auto waiting = [this] {
    const std::lock_guard lock(mutex_);
    return !waiting_.empty();
  };
  while (waiting() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void EventBus::Subscribe(const EventReader& reader, uint64_t subscription, EventOrder order,
                         Subscribing calls) {
  PostFor(reader, [this, subscription, order = std::move(order),
                   calls = std::move(calls)](EventChannel& channel) {
    const size_t before = channel.subscribers();
    const Status status = channel.Subscribe(subscription, order, calls.open);
    CountSubscribers(channel, before);
    if (!status.ok()) calls.refuse(status);
  });
}

void EventBus::Resume(const EventReader& reader, uint64_t subscription) {
  PostFor(reader, [subscription](EventChannel& channel) { channel.Resume(subscription); });
}

void EventBus::Unsubscribe(const EventReader& reader, uint64_t subscription) {
  PostFor(reader, [this, subscription](EventChannel& channel) {
    const size_t before = channel.subscribers();
    channel.Unsubscribe(subscription);
    CountSubscribers(channel, before);
    // The log may be idle from now on.
    const std::lock_guard lock(mutex_);
    any_open_ = true;
    janitor_woken_.notify_all();
  });
}

EventBus::Counters EventBus::counters() {
  Counters now;
  for (const std::atomic<uint64_t>& count : published_) {
    now.published.push_back(count.load(std::memory_order_relaxed));
  }
  now.repeated = repeated_.load(std::memory_order_relaxed);
  now.dropped = dropped_.load(std::memory_order_relaxed);
  now.unshared = unshared_.load(std::memory_order_relaxed);
  now.subscribers = subscribers_.load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  for (const auto& [tenant, waiting] : waiting_) now.waiting += waiting;
  return now;
}

void EventBus::Read(const EventReader& reader, EventOrder order, size_t most,
                    std::function<void(const Result<EventChannel::Page>&)> done) {
  PostFor(reader, [order = std::move(order), most, done = std::move(done)](EventChannel& channel) {
    done(channel.Read(order, most));
  });
}

// ---------------------------------------------------------------------------------------------
// On the bus's thread

void EventBus::CountSubscribers(EventChannel& channel, size_t before) {
  // Wraps around where there are fewer than before, and so does the sum.
  subscribers_.fetch_add(channel.subscribers() - before, std::memory_order_relaxed);
}

EventChannel& EventBus::ChannelOf(const TenantIdentity& tenant) {
  Opened& opened = channels_[tenant.number];
  opened.used = ++uses_;
  opened.used_at = std::chrono::steady_clock::now();
  if (opened.channel == nullptr) {
    OpenChannel(tenant, &opened);
    CloseLeastUsed();
  }
  return *channels_[tenant.number].channel;
}

void EventBus::OpenChannel(const TenantIdentity& tenant, Opened* opened) {
  if (!options_.folder.empty()) {
    Result<std::unique_ptr<EventLog>> log = EventLog::Open(
        options_.folder + "/" + FileNameOf(tenant), options_.retention, options_.now_seconds);
    if (log.ok()) {
      opened->channel = std::make_unique<EventChannel>(std::move(*log), tag_);
      opened->in_file = true;
      const std::lock_guard lock(mutex_);
      any_open_ = true;
      janitor_woken_.notify_all();
      return;
    }
    Log(LogLevel::kWarning, kLogInit, "events of {} are kept in memory only: {}", tenant.name,
        log.status().message());
  }
  opened->channel = std::make_unique<EventChannel>(
      EventLog::InMemory(options_.retention, options_.now_seconds), memory_tag_);
}

void EventBus::RunJanitor() {
  pthread_setname_np(pthread_self(), "hz-event-logs");
  std::unique_lock lock(mutex_);
  while (!ending_) {
    janitor_woken_.wait(lock, [this] { return ending_ || any_open_; });
    janitor_woken_.wait_for(lock, kIdleLogCloses, [this] { return ending_; });
    if (ending_) return;
    lock.unlock();
    thread_->Post([this] { CloseIdle(); });
    lock.lock();
  }
}

void EventBus::CloseIdle() {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(channels_, [now](const auto& entry) {
    const Opened& opened = entry.second;
    return opened.in_file && !opened.channel->has_subscribers() &&
           now - opened.used_at >= kIdleLogCloses;
  });
  const bool any = std::any_of(channels_.begin(), channels_.end(), [](const auto& entry) {
    return entry.second.in_file && !entry.second.channel->has_subscribers();
  });
  const std::lock_guard lock(mutex_);
  any_open_ = any;
}

// A log in memory would be lost, and a channel with subscribers is needed.
void EventBus::CloseLeastUsed() {
  if (options_.folder.empty() || channels_.size() <= kMostIdleLogs) return;
  auto least = channels_.end();
  for (auto it = channels_.begin(); it != channels_.end(); ++it) {
    if (!it->second.in_file || it->second.channel->has_subscribers()) continue;
    if (least == channels_.end() || it->second.used < least->second.used) least = it;
  }
  // The newest one has just been asked for.
  if (least != channels_.end() && least->second.used != uses_) channels_.erase(least);
}

}  // namespace harmonaize::daemon
