#include "perf/fabric/probe_traffic.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "perf/fabric/traffic.h"

namespace harmonaize::fabric {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRoundTripPatience(200);
constexpr std::chrono::seconds kTransferPatience(5);
constexpr int kWarmUpRoundTrips = 20;
constexpr size_t kMessage = 64;
constexpr size_t kPiece = 128 * 1024;
constexpr double kWarmUp = 0.5;

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

/// Both ends by one thread: what a wake-up takes would hide what a switch takes.
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

/// Many connections at once, all senders in one thread and all receivers in another.
class Load {
 public:
  Status Connect(const Laboratory& laboratory, const TransferSet& set) {
    for (size_t i = 0; i < set.size(); ++i) {
      const Way way{InFabric(laboratory, set[i].from), InFabric(laboratory, set[i].to), -1};
      for (int c = 0; c < set[i].connections; ++c) {
        Result<Connection> connection = fabric::Connect(laboratory, way, kTransferPatience);
        if (!connection.ok()) return connection.status();
        ::fcntl(connection->sender.get(), F_SETFL, O_NONBLOCK);
        ::fcntl(connection->receiver.get(), F_SETFL, O_NONBLOCK);
        connections_.push_back(std::move(*connection));
        transfers_.push_back(i);
      }
    }
    return Status::Ok();
  }

  /// Bytes a second of each transfer of the set.
  std::vector<double> Run(size_t transfers, double seconds) {
    const auto start = Clock::now();
    const auto end = start + std::chrono::duration<double>(seconds);
    std::thread sending([&] { Send(end); });
    std::vector<int64_t> bytes(transfers);
    Receive(start + std::chrono::duration<double>(seconds * kWarmUp), end, &bytes);
    sending.join();
    std::vector<double> rates;
    for (const int64_t count : bytes) {
      rates.push_back(static_cast<double>(count) / (seconds * (1 - kWarmUp)));
    }
    return rates;
  }

 private:
  using End = std::chrono::time_point<Clock, std::chrono::duration<double>>;

  template <typename Serve>
  static void PollUntil(std::vector<pollfd>* sockets, End end, Serve serve) {
    while (Clock::now() < end) {
      if (::poll(sockets->data(), sockets->size(), 5) <= 0) continue;
      for (size_t i = 0; i < sockets->size(); ++i) {
        if ((*sockets)[i].revents == 0) continue;
        // A connection that is gone carries nothing more; its rate shows that.
        if (!serve(i)) (*sockets)[i].fd = -1;
      }
    }
  }

  void Send(End end) {
    const std::vector<char> piece(kPiece);
    std::vector<pollfd> sockets;
    for (const Connection& one : connections_) sockets.push_back({one.sender.get(), POLLOUT, 0});
    PollUntil(&sockets, end, [&](size_t i) {
      return ::send(sockets[i].fd, piece.data(), piece.size(), MSG_NOSIGNAL) > 0 ||
             errno == EAGAIN || errno == EINTR;
    });
  }

  void Receive(End from, End end, std::vector<int64_t>* bytes) {
    std::vector<char> piece(kPiece);
    std::vector<pollfd> sockets;
    for (const Connection& one : connections_) sockets.push_back({one.receiver.get(), POLLIN, 0});
    PollUntil(&sockets, end, [&](size_t i) {
      const ssize_t got = ::recv(sockets[i].fd, piece.data(), piece.size(), 0);
      if (got > 0 && Clock::now() >= from) (*bytes)[transfers_[i]] += got;
      return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    });
  }

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
  const std::vector<double> rates = load.Run(next.transfers.size(), effort.seconds);
  ConcurrentTransfers& measured = measurements->concurrent.emplace_back();
  for (size_t i = 0; i < rates.size(); ++i) {
    const TransferRequest& one = next.transfers[i];
    measured.push_back({one.from, one.to, one.connections, rates[i]});
  }
  return Status::Ok();
}

}  // namespace harmonaize::fabric
