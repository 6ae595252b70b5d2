#include "daemon/tenant/connection.h"

#include <fcntl.h>

#include <array>
#include <cerrno>

namespace harmonaize::daemon {

Result<std::vector<FileDescriptor>> Connection::Duplicates(std::span<const int> descriptors) {
  std::vector<FileDescriptor> duplicates;
  for (const int descriptor : descriptors) {
    duplicates.emplace_back(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    if (!duplicates.back().valid()) return ErrnoError(errno, "cannot hand a descriptor over");
  }
  return duplicates;
}

void Connection::SetOnOutgoing(std::function<void()> on_outgoing) {
  receptions_thread_ = std::this_thread::get_id();
  on_outgoing_ = std::move(on_outgoing);
}

void Connection::Say(std::vector<std::byte> bytes, std::vector<FileDescriptor> descriptors) {
  Outgoing said{std::move(bytes), std::move(descriptors)};
  if (on_outgoing_ == nullptr) return SendOrCut(said);
  {
    const std::lock_guard lock(outgoing_mutex_);
    outgoing_.push_back(std::move(said));
  }
  if (std::this_thread::get_id() == receptions_thread_) return SendOutgoing();
  if (!with_engine_) TellOfOutgoing();
}

void Connection::CutSoon() {
  if (on_outgoing_ == nullptr) return Cut();
  {
    const std::lock_guard lock(outgoing_mutex_);
    cut_soon_ = true;
  }
  if (std::this_thread::get_id() == receptions_thread_) return SendOutgoing();
  TellOfOutgoing();
}

void Connection::TellOfOutgoing() {
  if (!Guarded(on_outgoing_, [this](const Status&) { Cut(); })) Cut();
}

void Connection::SendOutgoing() {
  while (true) {
    Outgoing next;
    {
      const std::lock_guard lock(outgoing_mutex_);
      if (outgoing_.empty()) {
        if (std::exchange(cut_soon_, false)) Cut();
        return;
      }
      next = std::move(outgoing_.front());
      outgoing_.pop_front();
    }
    SendOrCut(next);
  }
}

void Connection::SendOrCut(const Outgoing& outgoing) {
  // Nothing here may throw: the message would be lost, and the connection not be cut.
  std::array<int, kMaxDescriptorsPerMessage> descriptors;
  const size_t count = std::min(descriptors.size(), outgoing.descriptors.size());
  for (size_t i = 0; i < count; ++i) descriptors[i] = outgoing.descriptors[i].get();
  if (!socket_.Send(outgoing.bytes, std::span(descriptors).first(count)).ok()) Cut();
}

}  // namespace harmonaize::daemon
