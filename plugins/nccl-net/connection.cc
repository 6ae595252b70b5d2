#include "plugins/nccl-net/connection.h"

#include <algorithm>
#include <utility>

namespace harmonaize::nccl_net {

Result<Request*> Connection::Post(std::span<const Posted> messages) {
  if (!failure_.ok()) return failure_;
  if (session().inherited()) {
    return InvalidUsage("this process was forked from the one that made the connection");
  }
  if (free_.empty()) {
    if (requests_.size() >= kMostRequests) return static_cast<Request*>(nullptr);
    requests_.push_back(std::make_unique<Request>());
    free_.push_back(requests_.back().get());
  }
  Request* const request = free_.back();
  request->connection = this;
  request->transfers.clear();
  request->ended = 0;
  for (const Posted& message : messages) {
    HZ_ASSIGN_OR_RETURN(Transfer transfer, MakeTransfer(message));
    request->transfers.push_back(std::move(transfer));
  }
  free_.pop_back();
  // The first of the messages decides whether the request can be made now.
  for (Transfer& transfer : request->transfers) {
    const Status status = transfer.Advance();
    if (!status.ok() && status.code() != Code::kInProgress) {
      failure_ = status;
      return failure_;
    }
    if (&transfer == &request->transfers.front() && transfer.untouched()) {
      Retire(request);
      return static_cast<Request*>(nullptr);
    }
  }
  for (const Posted& message : messages) ++numbers_[message.tag];
  return request;
}

Result<Transfer> Connection::MakeTransfer(const Posted& message) {
  Transfer::Data data{
      .memory = static_cast<std::byte*>(message.data), .bytes = message.bytes, .place = {}};
  if (message.bytes > Transfer::kMostBytes) {
    return InvalidArgument("a message of {} bytes: they have {} at most", message.bytes,
                           Transfer::kMostBytes);
  }
  if (message.registration != nullptr && message.bytes > 0) {
    HZ_ASSIGN_OR_RETURN(data.place,
                        message.registration->Find(session(), message.data, message.bytes));
  }
  return Transfer(&carrier_->port(), slots_.get(), pipe_, sends_,
                  {message.tag, numbers_[message.tag]}, data);
}

Status Connection::Test(Request* request) {
  if (!failure_.ok()) return failure_;
  for (size_t i = request->ended; i < request->transfers.size(); ++i) {
    const Status status = request->transfers[i].Advance();
    if (status.code() == Code::kInProgress) return CheckHealthNowAndThen();
    if (!status.ok()) return failure_ = status;
    if (i == request->ended) ++request->ended;
  }
  looks_ = 0;
  return Status::Ok();
}

// The daemon tells the end of every message as long as it is there.
Status Connection::CheckHealthNowAndThen() {
  if (++looks_ % kLooksPerCheck == 0) {
    const Status alive = session().CheckAlive();
    if (!alive.ok()) return failure_ = alive;
  }
  return {Code::kInProgress, ""};
}

void Connection::Retire(Request* request) {
  request->transfers.clear();
  free_.push_back(request);
}

void Connection::Close() {
  if (std::exchange(closed_, true) || session().inherited()) return;
  static_cast<void>(carrier_->port().ClosePipe(pipe_));
}

bool Connection::Abandoned() {
  if (session().inherited() || session().lost()) return true;
  return std::all_of(requests_.begin(), requests_.end(), [](const auto& request) {
    return std::all_of(request->transfers.begin(), request->transfers.end(),
                       [](Transfer& transfer) { return transfer.Abandon(); });
  });
}

}  // namespace harmonaize::nccl_net
