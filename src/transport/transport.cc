#include "src/transport/transport.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "src/base/random.h"
#include "src/transport/link/links.h"
#include "src/transport/link/message_board.h"
#include "src/transport/tcp/congestion_control.h"
#include "src/transport/tcp/poller.h"

namespace harmonaize::transport {
namespace {

// Least TransportOptions::dead_after_ns.
constexpr uint64_t kMinDeadAfterNs = 100'000'000;

Status CheckOptions(const TransportOptions& options) {
  if (!options.key.present() && !options.allow_unauthenticated) {
    return InvalidArgument(
        "daemons of different hosts need a cluster key, the same on all: make a file with `head -c "
        "32 /dev/urandom | base64`; a laboratory without one must say so (allow_unauthenticated)");
  }
  if (options.dead_after_ns < kMinDeadAfterNs) {
    return InvalidArgument("a peer is taken for dead after {} ms at least, not after {} ms",
                           kMinDeadAfterNs / 1'000'000, options.dead_after_ns / 1'000'000);
  }
  HZ_RETURN_IF_ERROR(CheckCongestionControl(options.congestion_control));
  if (options.rails.size() > kMaxRails) {
    return InvalidArgument("{} rails; the limit is {}", options.rails.size(), kMaxRails);
  }
  size_t connections = 0;
  for (const RailOptions& rail : options.rails) {
    if (rail.connections < 1 || (rail.source_port != 0 && rail.connections > 1)) {
      return InvalidArgument("the rail '{}' is to have {} connections{}", rail.device,
                             rail.connections,
                             rail.connections < 1 ? "; the least is 1" : " from one port");
    }
    connections += static_cast<size_t>(rail.connections);
    if (rail.kind != RailOptions::Kind::kTcp) continue;
    if (rail.address.empty() || rail.address.IsWildcard()) {
      return InvalidArgument("the rail '{}' needs the address of its device", rail.device);
    }
  }
  if (connections > kMaxConnections) {
    return InvalidArgument("the rails are to have {} connections to each peer; the limit is {}",
                           connections, kMaxConnections);
  }
  return Status::Ok();
}

/// Memory registered with each UCX rail.
class RailRegistrations final : public MemoryRegistration {
 public:
  ~RailRegistrations() override {
    for (const auto& [rail, memory] : mapped_) rail->Unmap(memory);
  }
  void Add(UcxRail* rail, ucp_mem_h memory) { mapped_.emplace_back(rail, memory); }

 private:
  std::vector<std::pair<UcxRail*, ucp_mem_h>> mapped_;
};

class TransportCore final : public Transport, public Poller::Handler {
 public:
  TransportCore(TransportOptions options, TransportEvents* events, const InstanceId& instance,
                std::unique_ptr<Poller> poller, FileDescriptor timer)
      : options_(std::move(options)),
        instance_(instance),
        poller_(std::move(poller)),
        timer_(std::move(timer)),
        links_(poller_.get(), &board_, &options_, events, instance) {}
  ~TransportCore() override { poller_->Remove(timer_.get(), this); }

  Status WatchTimer() { return poller_->Add(timer_.get(), EPOLLIN, this); }

  const InstanceId& instance() const override { return instance_; }

  Result<NetworkAddress> Listen(const NetworkAddress& address) override {
    return links_.Listen(address);
  }

  void Connect(const NetworkAddress& address, ConnectDone done) override {
    links_.Connect(address, std::move(done));
    SetTimer();
  }

  void Disconnect(PeerId peer, const std::string& reason) override {
    links_.Disconnect(peer, reason);
  }

  Status SendControl(PeerId peer, std::span<const std::byte> message,
                     ControlSender sender) override {
    if (message.size() > kMaxControlBytes) {
      return InvalidArgument("a control message of {} bytes; the limit is {}", message.size(),
                             kMaxControlBytes);
    }
    return links_.SendControl(peer, sender, message);
  }

  Status PostSend(PeerId peer, RailChoice way, const MessageTag& tag,
                  std::span<const std::byte> bytes, Completion completion) override;
  Status Limit(PeerId peer, size_t rail, const RailLimits& limits) override;
  Status PostReceive(PeerId peer, const MessageTag& tag, std::span<std::byte> buffer,
                     Completion completion) override;
  void Cancel(PeerId peer, uint64_t operation) override;
  Result<std::unique_ptr<MemoryRegistration>> RegisterMemory(std::span<std::byte> memory) override;

  int Progress() override;
  int fd() const override { return poller_->fd(); }
  bool Arm() override {
    return !poller_->has_later() && !board_.HasCompletions() && !links_.HasNews() &&
           links_.ArmRails();
  }
  TransportCounters counters() const override;
  std::vector<LinkTraffic> Traffic(std::span<const PeerId> peers) const override {
    return links_.Traffic(peers);
  }
  uint64_t HeardNs(PeerId peer) const override {
    const Link* const link = links_.Up(peer);
    return link != nullptr ? link->control->last_heard_ns() : 0;
  }

  void OnReady(uint32_t) override {
    uint64_t expirations = 0;
    tick_due_ = read(timer_.get(), &expirations, sizeof expirations) == sizeof expirations;
  }

 private:
  void SetTimer();
  void Receive(Request* receive, Arrival* arrival);

  const TransportOptions options_;
  const InstanceId instance_;
  const std::unique_ptr<Poller> poller_;
  const FileDescriptor timer_;
  uint64_t timer_period_ns_ = 0;
  bool tick_due_ = false;
  bool looks_next_ = false;  // Progress, though it may have written something
  MessageBoard board_;
  Links links_;
};

Status Lost() {
  return RemoteError("the link to this peer daemon is lost");
}

Status NoSuchRail(size_t rail, const Link& link) {
  return InvalidArgument("rail {} to a peer daemon that is reached by {}", rail,
                         link.channels.size());
}

Status TransportCore::PostSend(PeerId peer, RailChoice way, const MessageTag& tag,
                               std::span<const std::byte> bytes, Completion completion) {
  Link* link = links_.Up(peer);
  if (link == nullptr) return Lost();
  if (way.rail >= link->channels.size()) return NoSuchRail(way.rail, *link);
  Request* send = board_.NewRequest(true, peer, tag, const_cast<std::byte*>(bytes.data()),
                                    bytes.size(), completion);
  send->first_connection = way.first_connection;
  send->share = way.share;
  send->left = way.left;
  link->channels[way.rail]->Send(send);
  return Status::Ok();
}

Status TransportCore::Limit(PeerId peer, size_t rail, const RailLimits& limits) {
  Link* link = links_.Up(peer);
  if (link == nullptr) return Lost();
  if (rail >= link->channels.size()) return NoSuchRail(rail, *link);
  link->channels[rail]->Limit(limits);
  return Status::Ok();
}

Status TransportCore::PostReceive(PeerId peer, const MessageTag& tag, std::span<std::byte> buffer,
                                  Completion completion) {
  if (links_.Up(peer) == nullptr) return Lost();
  Request* receive = board_.NewRequest(false, peer, tag, buffer.data(), buffer.size(), completion);
  Arrival* arrival = board_.TakeArrival(peer, tag);
  if (arrival == nullptr) {
    board_.Post(receive);
  } else {
    Receive(receive, arrival);
  }
  return Status::Ok();
}

void TransportCore::Receive(Request* receive, Arrival* arrival) {
  Channel* channel = arrival->channel;
  const bool fits = arrival->total <= receive->size;
  receive->state = Request::State::kMoving;
  if (arrival->offered && fits) return channel->Accept(arrival, receive);
  if (fits) {
    std::copy(arrival->data.begin(), arrival->data.end(), receive->data);
    receive->moved = receive->total = arrival->total;
  }
  board_.Complete(receive, fits ? Status::Ok() : TooLarge(*receive, arrival->total));
  if (arrival->offered) return channel->Refuse(arrival);
  channel->OnConsumed(arrival);
  board_.Free(arrival);
}

void TransportCore::Cancel(PeerId peer, uint64_t operation) {
  if (links_.Up(peer) == nullptr) return;
  board_.MarkCancelled(peer, operation);
  const Status cancelled = InvalidUsage("the operation was cancelled on this host");
  board_.ForEachRequestOf(peer, operation, [&](Request* request) {
    request->state == Request::State::kPosted ? board_.Complete(request, cancelled)
                                              : request->channel->Abort(request, cancelled);
  });
  board_.TakeArrivalsOf(peer, operation, [&](Arrival* arrival) {
    if (arrival->offered) return arrival->channel->Refuse(arrival);
    arrival->channel->OnConsumed(arrival);
    board_.Free(arrival);
  });
}

Result<std::unique_ptr<MemoryRegistration>> TransportCore::RegisterMemory(
    std::span<std::byte> memory) {
  auto registrations = std::make_unique<RailRegistrations>();
  for (const auto& rail : links_.ucx_rails()) {
    if (rail == nullptr) continue;
    HZ_ASSIGN_OR_RETURN(ucp_mem_h mapped, rail->Map(memory));
    registrations->Add(rail.get(), mapped);
  }
  return std::unique_ptr<MemoryRegistration>(std::move(registrations));
}

int TransportCore::Progress() {
  int done = poller_->RunLater();
  // Messages that were just written are not answered yet, so the next call polls for the answers.
  looks_next_ = done > 0 && !looks_next_;
  if (!looks_next_) done += poller_->Poll();
  const bool tick = std::exchange(tick_due_, false);
  done += links_.Progress(tick);
  done += board_.RunCompletions();
  done += poller_->RunLater();
  // A running timer is checked when it fires.
  if (tick || (done > 0 && timer_period_ns_ == 0)) SetTimer();
  return done;
}

/// Runs the timer while anything can be late; an idle transport is not woken.
void TransportCore::SetTimer() {
  const uint64_t period = links_.TickPeriod();
  if (period == timer_period_ns_) return;
  timer_period_ns_ = period;
  itimerspec setting{};
  setting.it_value.tv_sec = static_cast<time_t>(period / 1'000'000'000);
  setting.it_value.tv_nsec = static_cast<long>(period % 1'000'000'000);
  setting.it_interval = setting.it_value;
  timerfd_settime(timer_.get(), 0, &setting, nullptr);
}

TransportCounters TransportCore::counters() const {
  TransportCounters counters;
  const ReceptionCounters reception = links_.reception_counters();
  counters.connections_accepted = reception.accepted;
  counters.connections_refused = reception.refused;
  counters.connections_evicted = reception.evicted;
  for (const auto& rail : links_.ucx_rails()) {
    if (rail != nullptr) counters.foreign_messages += rail->foreign_messages();
  }
  counters.requests_under_way = board_.requests_under_way();
  counters.arrivals_waiting = board_.arrivals_waiting();
  counters.arrival_bytes = board_.arrival_bytes();
  return counters;
}

}  // namespace

Result<std::unique_ptr<Transport>> Transport::Create(TransportOptions options,
                                                     TransportEvents* events) {
  HZ_RETURN_IF_ERROR(CheckOptions(options));
  InstanceId instance;
  HZ_RETURN_IF_ERROR(FillRandom(instance));
  HZ_ASSIGN_OR_RETURN(std::unique_ptr<Poller> poller, Poller::Create());
  FileDescriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer.valid()) return ErrnoError(errno, "cannot make a timer");
  auto core = std::make_unique<TransportCore>(std::move(options), events, instance,
                                              std::move(poller), std::move(timer));
  HZ_RETURN_IF_ERROR(core->WatchTimer());
  return std::unique_ptr<Transport>(std::move(core));
}

}  // namespace harmonaize::transport
