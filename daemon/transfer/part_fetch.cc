#include "daemon/transfer/part_fetch.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

namespace harmonaize::daemon {
namespace {

/// Time for which the thread waits for another range: a reader asks for the next one at once.
constexpr std::chrono::milliseconds kLinger{50};
/// Time for which a server that is full, or a connection that breaks, is tried again.
constexpr std::chrono::seconds kTryFor{2};
/// Each try takes the server some tenths of a millisecond of a processor.
constexpr std::chrono::milliseconds kTryEvery{50};

Status Replaced() {
  return Status(Code::kUnavailable,
                "another host has replaced this part of a checkpoint meanwhile");
}

}  // namespace

Status PartFetch::Read(uint64_t at, std::span<std::byte> into, Done done) {
  const std::lock_guard lock(mutex_);
  HZ_RETURN_IF_ERROR(Start());
  ranges_.push_back({.at = at, .into = into, .done = std::move(done)});
  asked_.notify_one();
  return Status::Ok();
}

/// Starts the thread, if it does not run. Requires: the lock is held.
Status PartFetch::Start() {
  if (is_running_) return Status::Ok();
  // It has let go of the lock for good.
  if (thread_.joinable()) thread_.join();
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    return SystemError("cannot start a thread: {}", error.what());
  }
  is_running_ = true;
  return Status::Ok();
}

PartFetch::~PartFetch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (socket_ != nullptr) socket_->Cut();
    asked_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void PartFetch::Run() {
  Range range;
  while (AwaitRange(&range)) {
    const Status fetched = Fetch(range);
    if (is_stopping()) return;
    range.done(fetched);
    range = {};
  }
}

/// Waits for the next range. Returns false if there is none, and the thread ends.
bool PartFetch::AwaitRange(Range* range) {
  std::unique_lock lock(mutex_);
  asked_.wait_for(lock, kLinger, [this] { return stopping_ || !ranges_.empty(); });
  if (stopping_) return false;
  if (ranges_.empty()) {
    socket_.reset();
    is_running_ = false;
    return false;
  }
  *range = std::move(ranges_.front());
  ranges_.pop_front();
  return true;
}

bool PartFetch::is_stopping() {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

Status PartFetch::Fetch(const Range& range) {
  const auto until = std::chrono::steady_clock::now() + kTryFor;
  for (;;) {
    const Status fetched = FetchOnce(range);
    if (fetched.ok()) return fetched;
    {
      const std::lock_guard lock(mutex_);
      socket_.reset();
      if (stopping_) return fetched;
    }
    // What the server has said is final; that it says nothing is not.
    if (fetched.code() != Code::kRemoteError || std::chrono::steady_clock::now() >= until) {
      return fetched;
    }
    std::this_thread::sleep_for(kTryEvery);
  }
}

Status PartFetch::Connect() {
  if (socket_ != nullptr) return Status::Ok();
  HZ_ASSIGN_OR_RETURN(std::unique_ptr<SecureSocket> socket,
                      SecureSocket::Connect(address_, settings_));
  const std::lock_guard lock(mutex_);
  if (stopping_) return RemoteError("the transfer was given up");
  socket_ = std::move(socket);
  return Status::Ok();
}

Status PartFetch::FetchOnce(const Range& range) {
  HZ_RETURN_IF_ERROR(Connect());
  const TransferRequest request = {.ticket = ticket_, .at = range.at, .bytes = range.into.size()};
  HZ_RETURN_IF_ERROR(socket_->Send(std::as_bytes(std::span(&request, 1))));
  TransferAnswer answer{};
  const std::span<std::byte> answer_bytes = std::as_writable_bytes(std::span(&answer, 1));
  HZ_RETURN_IF_ERROR(socket_->Receive(answer_bytes));
  if (answer == TransferAnswer::kVoid) return Replaced();
  if (answer != TransferAnswer::kGood) {
    return Status(Code::kUnavailable,
                  "another host does not have this part of a checkpoint any more");
  }
  // In pieces, so that the end of this object waits for one piece at most.
  for (uint64_t done = 0; done < range.into.size();) {
    const uint64_t bytes = std::min<uint64_t>(kTransferPiece, range.into.size() - done);
    HZ_RETURN_IF_ERROR(socket_->Receive(range.into.subspan(done, bytes)));
    done += bytes;
  }
  HZ_RETURN_IF_ERROR(socket_->Receive(answer_bytes));
  return answer == TransferAnswer::kGood ? Status::Ok() : Replaced();
}

}  // namespace harmonaize::daemon
