#include "daemon/events/event_bus.h"

#include <fmt/format.h>
#include <openssl/sha.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "daemon/events/event_publisher.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "src/base/kernel_files.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Most events of one tenant that wait to be kept. It bounds the memory; more come only while the
/// disk is slow.
constexpr size_t kMostWaiting = 4096;
/// Most logs that are open without a subscriber. Each takes some descriptors and some memory.
constexpr size_t kMostIdleLogs = 64;
/// Bytes of a folder's tag. Two daemons have the same one never.
constexpr size_t kTagBytes = 8;

/// Stands for the operators among the tenants.
const TenantIdentity kOperators{
    .number = UINT32_MAX, .across_hosts = UINT32_MAX, .user = 0, .name = "the operators"};

std::string Hex(const uint8_t* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

/// Returns the name of a tenant's log: its own name may be a path, and long.
std::string FileNameOf(const TenantIdentity& tenant) {
  if (tenant.number == kOperators.number) return "operators.sqlite3";
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const uint8_t*>(tenant.name.data()), tenant.name.size(), digest.data());
  return Hex(digest.data(), 16) + ".sqlite3";
}

Result<std::string> DrawTag() {
  std::array<uint8_t, kTagBytes> drawn{};
  if (getrandom(drawn.data(), drawn.size(), 0) != static_cast<ssize_t>(drawn.size())) {
    return ErrnoError(errno, "cannot draw a random number");
  }
  return Hex(drawn.data(), drawn.size());
}

/// Reads the folder's tag, or draws one.
Result<std::string> TagOf(const std::string& folder) {
  const std::string path = folder + "/tag";
  std::string tag = FirstLine(path);
  const bool good =
      tag.size() == 2 * kTagBytes && tag.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (good) return tag;
  HZ_ASSIGN_OR_RETURN(tag, DrawTag());
  std::ofstream file(path, std::ios::trunc);
  file << tag << '\n';
  file.close();
  if (!file.good()) return SystemError("cannot write {}", path);
  return tag;
}

}  // namespace

Result<std::unique_ptr<EventBus>> EventBus::Create(Options options) {
  std::unique_ptr<EventBus> bus(new EventBus(std::move(options)));
  HZ_RETURN_IF_ERROR(bus->Open());
  return bus;
}

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
  HZ_ASSIGN_OR_RETURN(memory_tag_, DrawTag());
  if (!folder.empty()) {
    HZ_ASSIGN_OR_RETURN(tag_, TagOf(folder));
  }
  thread_ = std::make_unique<Background>();
  return Status::Ok();
}

EventBus::~EventBus() {
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
    if (waiting >= kMostWaiting) {
      Log(LogLevel::kWarning, kLogInit, "an event of {} is dropped, since {} wait to be kept",
          tenant.name, waiting);
      return;
    }
    ++waiting;
  }
  Post(tenant, [this, tenant, event = std::move(event), origin](EventChannel& channel) {
    {
      const std::lock_guard lock(mutex_);
      if (--waiting_[tenant.number] == 0) waiting_.erase(tenant.number);
    }
    if (!channel.Add(event)) return;
    if (options_.publisher != nullptr && origin == EventOrigin::kHere) {
      options_.publisher->Publish(tenant, event);
    }
    // The operators' turn is here: it is the tenant that makes work for them.
    Event for_operators = event;
    for_operators.tenant = tenant.name;
    ChannelOf(kOperators).Add(std::move(for_operators));
  });
}

void EventBus::PublishToOperators(Event event) {
  Post(kOperators, [this, event = std::move(event)](EventChannel& channel) {
    if (!channel.Add(event)) return;
    if (options_.publisher != nullptr) options_.publisher->PublishToOperators(event);
  });
}

void EventBus::Subscribe(const EventReader& reader, uint64_t subscription, EventOrder order,
                         Subscribing calls) {
  PostFor(reader, [subscription, order = std::move(order),
                   calls = std::move(calls)](EventChannel& channel) {
    const Status status = channel.Subscribe(subscription, order, calls.open);
    if (!status.ok()) calls.refuse(status);
  });
}

void EventBus::Resume(const EventReader& reader, uint64_t subscription) {
  PostFor(reader, [subscription](EventChannel& channel) { channel.Resume(subscription); });
}

void EventBus::Unsubscribe(const EventReader& reader, uint64_t subscription) {
  PostFor(reader, [subscription](EventChannel& channel) { channel.Unsubscribe(subscription); });
}

void EventBus::Read(const EventReader& reader, EventOrder order, size_t most,
                    std::function<void(const Result<EventChannel::Page>&)> done) {
  PostFor(reader, [order = std::move(order), most, done = std::move(done)](EventChannel& channel) {
    done(channel.Read(order, most));
  });
}

// ---------------------------------------------------------------------------------------------
// On the bus's thread

EventChannel& EventBus::ChannelOf(const TenantIdentity& tenant) {
  Opened& opened = channels_[tenant.number];
  if (opened.channel == nullptr) {
    opened.channel = OpenChannel(tenant);
    opened.used = ++uses_;
    CloseLeastUsed();
    return *channels_[tenant.number].channel;
  }
  opened.used = ++uses_;
  return *opened.channel;
}

std::unique_ptr<EventChannel> EventBus::OpenChannel(const TenantIdentity& tenant) {
  if (!options_.folder.empty()) {
    Result<std::unique_ptr<EventLog>> log = EventLog::Open(
        options_.folder + "/" + FileNameOf(tenant), options_.retention, options_.now_seconds);
    if (log.ok()) return std::make_unique<EventChannel>(std::move(*log), tag_);
    Log(LogLevel::kWarning, kLogInit, "events of {} are kept in memory only: {}", tenant.name,
        log.status().message());
  }
  return std::make_unique<EventChannel>(
      EventLog::InMemory(options_.retention, options_.now_seconds), memory_tag_);
}

// A log in memory would be lost, and a channel with subscribers is needed.
void EventBus::CloseLeastUsed() {
  if (options_.folder.empty() || channels_.size() <= kMostIdleLogs) return;
  auto least = channels_.end();
  for (auto it = channels_.begin(); it != channels_.end(); ++it) {
    if (it->second.channel == nullptr || it->second.channel->has_subscribers()) continue;
    if (least == channels_.end() || it->second.used < least->second.used) least = it;
  }
  // The newest one has just been asked for.
  if (least != channels_.end() && least->second.used != uses_) channels_.erase(least);
}

}  // namespace harmonaize::daemon
