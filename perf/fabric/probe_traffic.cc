#include "perf/fabric/probe_traffic.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "perf/fabric/traffic.h"
#include "src/probing/plain_traffic.h"

namespace harmonaize::fabric {
namespace {

using Clock = ProbeClock;

constexpr std::chrono::milliseconds kRoundTripPatience(200);
constexpr std::chrono::seconds kTransferPatience(5);
constexpr int kWarmUpRoundTrips = 20;
constexpr size_t kMessage = 64;

Endpoint InFabric(const Laboratory& laboratory, Endpoint probed) {
  return {laboratory.fabric().Hosts()[static_cast<size_t>(probed.host)], probed.nic};
}

Status PassOn(int from, int to) {
  char message[kMessage] = {};
  if (::send(from, message, sizeof(message), MSG_NOSIGNAL) != sizeof(message) ||
      ::recv(to, message, sizeof(message), MSG_WAITALL) != sizeof(message)) {
    return ErrnoError(errno, "a round trip failed");
  }
  return Status::Ok();
}

/// One thread serves both ends: the time of a wake-up would hide that of a switch.
Status SampleRoundTrips(Connection& connection, int samples, std::vector<double>* seconds) {
  for (FileDescriptor* end : {&connection.sender, &connection.receiver}) {
    const int on = 1;
    ::setsockopt(end->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const timeval limit{.tv_sec = kTransferPatience.count(), .tv_usec = 0};
    ::setsockopt(end->get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }
  for (int i = -kWarmUpRoundTrips; i < samples; ++i) {
    const auto start = Clock::now();
    HZ_RETURN_IF_ERROR(PassOn(connection.sender.get(), connection.receiver.get()));
    HZ_RETURN_IF_ERROR(PassOn(connection.receiver.get(), connection.sender.get()));
    const std::chrono::duration<double> took = Clock::now() - start;
    if (i >= 0) seconds->push_back(took.count());
  }
  return Status::Ok();
}

Status MeasureRoundTrips(const Laboratory& laboratory, Endpoint from, Endpoint to,
                         const ProbeEffort& effort, Measurements* measurements) {
  RoundTrip trip{.from = from, .to = to, .seconds = {}};
  Result<Connection> connection = Connect(
      laboratory, {InFabric(laboratory, from), InFabric(laboratory, to), -1}, kRoundTripPatience);
  trip.reachable = connection.ok();
  if (!connection.ok() && connection.status().code() != Code::kRemoteError) {
    return connection.status();
  }
  if (connection.ok()) {
    HZ_RETURN_IF_ERROR(SampleRoundTrips(*connection, effort.round_trips, &trip.seconds));
  }
  measurements->round_trips.push_back(std::move(trip));
  return Status::Ok();
}

/// Many connections at once, with all senders in one thread and all receivers in another.
class Load {
 public:
  Status Connect(const Laboratory& laboratory, const TransferSet& set) {
    for (size_t i = 0; i < set.size(); ++i) {
      const Way way{InFabric(laboratory, set[i].from), InFabric(laboratory, set[i].to), -1};
      for (int c = 0; c < set[i].connections; ++c) {
        HZ_ASSIGN_OR_RETURN(Connection connection,
                            fabric::Connect(laboratory, way, kTransferPatience));
        connections_.push_back(std::move(connection));
        transfers_.push_back(i);
      }
    }
    return Status::Ok();
  }

  /// Returns the bytes a second of each transfer of the set.
  std::vector<double> Run(size_t transfers, double seconds) {
    std::vector<int> senders;
    std::vector<int> receivers;
    for (const Connection& one : connections_) {
      senders.push_back(one.sender.get());
      receivers.push_back(one.receiver.get());
    }
    const StopFlag never(false);
    const auto start = ProbeClock::now();
    const auto end = After(start, seconds);
    std::thread sending([&] { SendUntil(senders, end, never); });
    const std::vector<int64_t> bytes =
        CountUntil(receivers, After(start, seconds * kProbeWarmUp), end, never);
    sending.join();
    std::vector<double> rates(transfers);
    for (size_t i = 0; i < bytes.size(); ++i) {
      rates[transfers_[i]] += static_cast<double>(bytes[i]) / (seconds * (1 - kProbeWarmUp));
    }
    return rates;
  }

 private:
  std::vector<Connection> connections_;
  std::vector<size_t> transfers_;  // by connection
};

}  // namespace

Measurements NothingMeasured(const Laboratory& laboratory) {
  Measurements measurements;
  for (const int host : laboratory.fabric().Hosts()) {
    const Node& node = laboratory.fabric().nodes[static_cast<size_t>(host)];
    ProbedHost& probed = measurements.hosts.emplace_back();
    probed.name = node.name;
    for (const Nic& nic : node.nics) probed.nics.push_back({nic.device, nic.address});
  }
  return measurements;
}

Status CarryOut(const Laboratory& laboratory, const NextMeasurements& next,
                const ProbeEffort& effort, Measurements* measurements) {
  for (const auto& [from, to] : next.round_trips) {
    HZ_RETURN_IF_ERROR(MeasureRoundTrips(laboratory, from, to, effort, measurements));
  }
  if (next.transfers.empty()) return Status::Ok();
  Load load;
  HZ_RETURN_IF_ERROR(load.Connect(laboratory, next.transfers));
  const double seconds = std::min(effort.seconds * next.times_as_long, kMostProbeSeconds);
  const std::vector<double> rates = load.Run(next.transfers.size(), seconds);
  ConcurrentTransfers& measured = measurements->concurrent.emplace_back();
  for (size_t i = 0; i < rates.size(); ++i) {
    const TransferRequest& one = next.transfers[i];
    measured.push_back({one.from, one.to, one.connections, rates[i]});
  }
  return Status::Ok();
}

}  // namespace harmonaize::fabric
