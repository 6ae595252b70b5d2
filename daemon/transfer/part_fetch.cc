#include "daemon/transfer/part_fetch.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace harmonaize::daemon {

Status PartFetch::Read(uint64_t at, std::span<std::byte> into, Done done) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error& error) {
      return SystemError("cannot start a thread: {}", error.what());
    }
  }
  ranges_.push_back({.at = at, .into = into, .done = std::move(done)});
  asked_.notify_one();
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
  for (;;) {
    Range range;
    {
      std::unique_lock lock(mutex_);
      asked_.wait(lock, [this] { return stopping_ || !ranges_.empty(); });
      if (stopping_) return;
      range = std::move(ranges_.front());
      ranges_.pop_front();
    }
    const Status fetched = Fetch(range);
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      if (!fetched.ok()) socket_.reset();
    }
    range.done(fetched);
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

Status PartFetch::Fetch(const Range& range) {
  HZ_RETURN_IF_ERROR(Connect());
  const TransferRequest request = {.ticket = ticket_, .at = range.at, .bytes = range.into.size()};
  HZ_RETURN_IF_ERROR(socket_->Send(std::as_bytes(std::span(&request, 1))));
  TransferAnswer answer{};
  const std::span<std::byte> answer_bytes = std::as_writable_bytes(std::span(&answer, 1));
  HZ_RETURN_IF_ERROR(socket_->Receive(answer_bytes));
  if (answer != TransferAnswer::kGood) {
    return RemoteError("another host does not have this part of a checkpoint any more");
  }
  // In pieces, so that the end of this object waits for one piece at most.
  for (uint64_t done = 0; done < range.into.size();) {
    const uint64_t bytes = std::min<uint64_t>(kTransferPiece, range.into.size() - done);
    HZ_RETURN_IF_ERROR(socket_->Receive(range.into.subspan(done, bytes)));
    done += bytes;
  }
  HZ_RETURN_IF_ERROR(socket_->Receive(answer_bytes));
  if (answer == TransferAnswer::kGood) return Status::Ok();
  return RemoteError("another host has replaced this part of a checkpoint meanwhile");
}

}  // namespace harmonaize::daemon
