#include "src/transport/tcp/tcp_channel.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/clock.h"
#include "src/memory/fault_guard.h"
#include "src/memory/missing_pages.h"

namespace harmonaize::transport {
namespace {

// Batches that one connection may write before others have their turn.
constexpr int kBatchesAtOnce = 8;
// A queue to which nothing is added is gone after the time it takes to pass through it. But others
// add to it, above all the connections that were hashed to the same way. So it is forgotten this
// many times more slowly.
constexpr uint64_t kQueueMemory = 8;

}  // namespace

TcpChannel::TcpChannel(Poller* poller, MessageBoard* board, TenantMix* tenants, Owner* owner,
                       PeerId peer, std::string name, FileDescriptor socket)
    : poller_(poller),
      board_(board),
      tenants_(tenants),
      owner_(owner),
      peer_(peer),
      name_(std::move(name)),
      stream_(std::move(socket)),
      paces_(std::make_shared<RailPaces>(poller)) {}

TcpChannel::~TcpChannel() {
  if (started_ && stream_.open()) poller_->Remove(stream_.fd(), this);
  ForgetWaits();
}

void TcpChannel::KeepRates(std::shared_ptr<OwnerRates> rates) {
  rates_ = std::move(rates);
  queue_.SetRates(rates_.get(), this);
}

void TcpChannel::ForgetWaits() {
  paces_->Forget(this);
  if (rates_ != nullptr) rates_->Forget(this);
}

Status TcpChannel::Start() {
  HZ_RETURN_IF_ERROR(poller_->Add(stream_.fd(), EPOLLIN, this));
  started_ = true;
  return Status::Ok();
}

void TcpChannel::OnReady(uint32_t events) {
  if ((events & EPOLLOUT) != 0) WatchForRoom(false);
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) Read();
  Flush();
}

void TcpChannel::Fail(const std::string& reason) {
  if (failed_) return;
  failed_ = true;
  owner_->OnChannelBroken(this, fmt::format("{}: {}", name_, reason));
}

// ---- Writing ----

void TcpChannel::Send(Request* send) {
  send->channel = this;
  unsent_ += send->size;
  if (send->size > kMaxEagerBytes) {
    Offer(send);  // out of turn: it is only a header, and its answer takes a while
  } else {
    queue_.Push(send);
  }
  // Sends that begin together go in one call, and small ones in one packet.
  poller_->Later(this);
}

Backlog TcpChannel::BacklogAt(uint64_t now_ns) {
  Backlog backlog{.bytes = unsent_};
  tcp_info info{};
  socklen_t length = sizeof info;
  if (unacknowledged_ && stream_.open() &&
      getsockopt(stream_.fd(), IPPROTO_TCP, TCP_INFO, &info, &length) == 0) {
    const size_t held = info.tcpi_notsent_bytes + size_t{info.tcpi_unacked} * info.tcpi_snd_mss;
    backlog.bytes += held;
    unacknowledged_ = held > 0 || batch_size_ > 0;
    queueing_ns_ = uint64_t{1000} * (info.tcpi_rtt - std::min(info.tcpi_min_rtt, info.tcpi_rtt));
    asked_ns_ = now_ns;
    backlog.bytes_per_ns = static_cast<double>(info.tcpi_delivery_rate) * 1e-9;
  }
  const uint64_t forgotten = (now_ns - asked_ns_) / kQueueMemory;
  backlog.queueing_ns = queueing_ns_ - std::min(queueing_ns_, forgotten);
  return backlog;
}

RailTraffic TcpChannel::Traffic() const {
  RailTraffic traffic = before_;
  traffic.connections = 1;
  traffic.received_bytes = stream_.read_bytes();
  if (const auto queue_ns = arrival_delay_.QueueNs(MonotonicNanoseconds())) {
    traffic.arrival_queue_seconds = static_cast<double>(*queue_ns) * 1e-9;
  }
  queue_.AddTraffic(&traffic.jobs);
  tcp_info info{};
  socklen_t length = sizeof info;
  if (!stream_.open() || getsockopt(stream_.fd(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) {
    return traffic;
  }
  traffic.sent_bytes += info.tcpi_bytes_acked;
  traffic.sent_packets += info.tcpi_data_segs_out;
  traffic.resent_packets += info.tcpi_total_retrans;
  traffic.busy_seconds += static_cast<double>(info.tcpi_busy_time) * 1e-6;
  if (info.tcpi_min_rtt != UINT32_MAX) {
    traffic.round_trip_seconds = static_cast<double>(info.tcpi_rtt) * 1e-6;
    traffic.least_round_trip_seconds = static_cast<double>(info.tcpi_min_rtt) * 1e-6;
  }
  return traffic;
}

void TcpChannel::Limit(const RailLimits& limits) {
  paces_->Set(limits);
  queue_.SetPaces(*paces_, this);
}

void TcpChannel::Note(uint32_t type, const MessageTag& tag, uint64_t slot, uint64_t answer,
                      uint64_t total) {
  notes_.push_back(Header{type, 0, tag, total, slot, answer, 0});
}

/// Flushes later, with all that is added until then. A closed channel may be gone by that time.
void TcpChannel::FlushLater() {
  if (!failed_) poller_->Later(this);
}

void TcpChannel::Flush() {
  // The poller wakes a writer that waits for room; an earlier try would be a wasted call.
  if (failed_ || waits_for_room_ || !started_ || stream_.frozen()) return;
  if (stream_.owes() && !WriteOwed()) return;
  for (int i = 0; i < kBatchesAtOnce; ++i) {
    if (batch_size_ == 0) FillBatch();
    if (batch_size_ == 0) return;
    if (!WriteBatch()) return;
  }
  WatchForRoom(true);  // more is left; the others first
}

void TcpChannel::FillBatch() {
  batch_written_ = 0;
  size_t bytes = 0;
  while (batch_size_ < kBatch) {
    if (TakeNote()) continue;
    const SendQueue::Turn turn = queue_.Next();
    if (turn.send == nullptr) return;
    const size_t more = turn.bulk ? AddBulk(turn.send) : AddSend(turn.send);
    queue_.Charge(*turn.send, more);
    tenants_->Charge(turn.send->share, more);
    bytes += more;
    // A batch has one frame of a large message, so that small messages get between frames. While
    // others wait for its bytes, it has few bytes of small messages, too.
    if (turn.bulk || (InBits() && bytes >= kSharedBulkBytes)) return;
  }
}

bool TcpChannel::TakeNote() {
  if (notes_taken_ == notes_.size()) {
    notes_.clear();
    notes_taken_ = 0;
    return false;
  }
  AddToBatch(notes_[notes_taken_++], nullptr, nullptr);
  return true;
}

void TcpChannel::AddToBatch(const Header& header, const std::byte* payload, Request* owner) {
  batch_[batch_size_++] = Outgoing{header, payload, owner};
}

/// Adds a send to the batch. Returns the bytes added.
size_t TcpChannel::AddSend(Request* send) {
  const size_t cost = send->size + sizeof(Header);
  if (eager_unconsumed_ + cost <= kEagerWindow) {
    eager_unconsumed_ += cost;
    send->state = Request::State::kStreaming;
    AddToBatch(Header{kEager, static_cast<uint32_t>(send->size), send->tag, send->size, 0, 0, 0},
               send->data, send);
    return cost;
  }
  Offer(send);
  return sizeof(Header);
}

void TcpChannel::Offer(Request* send) {
  send->state = Request::State::kOffered;
  Note(kOffer, send->tag, 0, send->slot(), send->size);
}

/// Adds a frame of a large message to the batch. Returns the bytes added.
size_t TcpChannel::AddBulk(Request* send) {
  const size_t frame = InBits() ? kSharedBulkBytes : kBulkBytes;
  const size_t bytes = std::min(send->size - send->moved, frame);
  AddToBatch(Header{kBulk, static_cast<uint32_t>(bytes), send->tag, send->size, send->remote_slot,
                    send->moved, 0},
             send->data + send->moved, send);
  return bytes + sizeof(Header);
}

/// Stamps the batch for ArrivalDelay. If a batch is written in parts, its later frames seem to take
/// longer; but of all frames only the quickest counts.
void TcpChannel::StampBatch() {
  const uint64_t now_ns = MonotonicNanoseconds();
  for (size_t i = 0; i < batch_size_; ++i) batch_[i].header.sent_ns = now_ns;
}

/// Writes the bytes owed from the stream's last move. Returns whether more can be written.
bool TcpChannel::WriteOwed() {
  if (stream_.WriteOwed() < 0) {
    Fail(std::strerror(errno));
    return false;
  }
  unacknowledged_ = true;
  if (stream_.owes()) WatchForRoom(true);
  return !stream_.owes();
}

/// Writes the batch. Returns whether more can be written.
bool TcpChannel::WriteBatch() {
  if (batch_written_ == 0) StampBatch();
  std::array<iovec, 2 * kBatch> parts;
  int count = 0;
  size_t skip = batch_written_;
  const auto add = [&](const void* data, size_t bytes) {
    const size_t skipped = std::min(skip, bytes);
    skip -= skipped;
    if (bytes == skipped) return;
    parts[static_cast<size_t>(count++)] = {
        static_cast<std::byte*>(const_cast<void*>(data)) + skipped, bytes - skipped};
  };
  size_t total = 0;
  for (size_t i = 0; i < batch_size_; ++i) {
    add(&batch_[i].header, sizeof(Header));
    add(batch_[i].payload, batch_[i].header.payload);
    total += sizeof(Header) + batch_[i].header.payload;
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = static_cast<size_t>(count);
  const ssize_t sent = stream_.Write(message);
  if (sent < 0 && errno == EINTR) return true;
  if (sent < 0 && errno == EFAULT && FoundLoss([this] { TouchBatch(); })) return true;
  if (sent < 0 && errno == EAGAIN) {
    WatchForRoom(true);
    return false;
  }
  if (sent < 0) {
    Fail(std::strerror(errno));
    return false;
  }
  batch_written_ += static_cast<size_t>(sent);
  unacknowledged_ = true;
  send_buffer_.SetShared(stream_.fd(), tenants_->shared());
  send_buffer_.OnWritten(stream_.fd(), static_cast<size_t>(sent));
  send_rate_.OnWritten(static_cast<size_t>(sent), MonotonicNanoseconds());
  queue_.SetRate(send_rate_.bytes_per_second());
  if (batch_written_ < total) {
    WatchForRoom(true);
    return false;
  }
  OnBatchWritten();
  return true;
}

void TcpChannel::TouchBatch() const {
  for (size_t i = 0; i < batch_size_; ++i) {
    const Outgoing& frame = batch_[i];
    if (frame.payload != nullptr) TouchPages(frame.payload, frame.header.payload);
  }
}

void TcpChannel::OnBatchWritten() {
  for (size_t i = 0; i < batch_size_; ++i) {
    Request* owner = batch_[i].owner;
    if (owner == nullptr) continue;
    owner->moved += batch_[i].header.payload;
    unsent_ -= batch_[i].header.payload;
    if (owner->moved == owner->size) {
      board_->Complete(owner, Status::Ok());
    } else {
      queue_.ReturnBulk(owner);
    }
  }
  batch_size_ = 0;
  if (!detached_.empty()) std::vector<std::byte>().swap(detached_);
}

/// Detaches a request from its frames. A frame that has begun must end; if its request ends
/// earlier, the rest of the payload is kept here.
void TcpChannel::Detach(Request* request) {
  request->Unlink();
  unsent_ -= request->size - request->moved;
  for (size_t i = 0; i < batch_size_; ++i) {
    Outgoing& frame = batch_[i];
    if (frame.owner != request) continue;
    frame.owner = nullptr;
    // Frames of several requests may be detached; earlier ones must not move.
    const size_t bytes = frame.header.payload;
    std::vector<std::byte> kept(detached_.size() + bytes);
    std::copy(detached_.begin(), detached_.end(), kept.begin());
    std::copy_n(frame.payload, bytes, kept.data() + detached_.size());
    for (size_t j = 0; j < batch_size_; ++j) {
      const std::byte* payload = batch_[j].payload;
      if (j == i || payload == nullptr || detached_.empty()) continue;
      if (payload < detached_.data() || payload >= detached_.data() + detached_.size()) continue;
      batch_[j].payload = kept.data() + (payload - detached_.data());
    }
    frame.payload = kept.data() + detached_.size();
    detached_.swap(kept);
    return;
  }
}

void TcpChannel::WatchForRoom(bool wanted) {
  if (waits_for_room_ == wanted || !stream_.open()) return;
  waits_for_room_ = wanted;
  poller_->Change(stream_.fd(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, this);
}

// ---- Moving ----

void TcpChannel::Poke() {
  Note(kConsumed, MessageTag(), 0, 0);
  Flush();
}

Status TcpChannel::Freeze() {
  if (stream_.frozen()) return Status::Ok();
  HZ_RETURN_IF_ERROR(stream_.Freeze());
  poller_->Remove(stream_.fd(), this);
  ForgetWaits();
  return Status::Ok();
}

uint64_t TcpChannel::Drain() {
  while (!failed_ && Receive()) Digest();
  return stream_.read_bytes();
}

Status TcpChannel::Continue(FileDescriptor socket, uint64_t expected) {
  before_ = Traffic();
  before_.jobs.clear();  // the queue goes on counting
  HZ_RETURN_IF_ERROR(stream_.Continue(std::move(socket), expected));
  HZ_RETURN_IF_ERROR(poller_->Add(stream_.fd(), EPOLLIN, this));
  waits_for_room_ = false;
  send_buffer_ = SendBuffer();
  arrival_delay_ = ArrivalDelay();
  Flush();
  return Status::Ok();
}

// ---- Requests that others end ----

void TcpChannel::Accept(Arrival* offer, Request* receive) {
  receive->channel = this;
  receive->total = offer->total;
  receive->remote_slot = offer->remote_slot;
  Note(kClear, offer->tag, offer->remote_slot, receive->slot());
  board_->Free(offer);
  FlushLater();
}

void TcpChannel::Refuse(Arrival* offer) {
  Note(kStop, offer->tag, offer->remote_slot, 0);
  board_->Free(offer);
  FlushLater();
}

void TcpChannel::OnConsumed(Arrival* arrival) {
  Consumed(arrival->total);
  FlushLater();
}

void TcpChannel::Consumed(size_t payload) {
  consumed_unsaid_ += payload + sizeof(Header);
  if (consumed_unsaid_ < kEagerWindow / 4) return;
  Note(kConsumed, MessageTag(), 0, 0, consumed_unsaid_);
  consumed_unsaid_ = 0;
}

void TcpChannel::Abort(Request* request, const Status& status) {
  if (request->is_send) {
    const bool offered = request->state == Request::State::kOffered;
    const bool cleared = request->remote_slot != 0;
    Detach(request);
    // Before the receiver is ready it knows the send by tag and slot, afterwards by its own slot.
    if (offered || cleared) {
      Note(kAbandon, request->tag, request->remote_slot, request->slot());
    }
  } else {
    if (target_request_ == request) {
      target_request_ = nullptr;
      target_ = nullptr;
    }
    if (request->remote_slot != 0) Note(kStop, request->tag, request->remote_slot, 0);
  }
  board_->Complete(request, status);
  Flush();
}

void TcpChannel::Close(const Status& status) {
  failed_ = true;
  if (started_ && stream_.open()) poller_->Remove(stream_.fd(), this);
  ForgetWaits();
  stream_.Close();
  board_->ForEachRequest([this](const Request& request) { return request.channel == this; },
                         [&](Request* request) { board_->Complete(request, status); });
  if (filling_ != nullptr) board_->Free(filling_);
  filling_ = nullptr;
  target_request_ = nullptr;
  target_ = nullptr;
  batch_size_ = 0;
  unsent_ = 0;
}

}  // namespace harmonaize::transport
