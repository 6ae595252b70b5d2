#include "daemon/probing/probe_work.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/probing/probe_processors.h"
#include "daemon/runtime/guarded.h"

namespace harmonaize::daemon {
namespace {

/// Most targets of one task.
constexpr size_t kMostTargets = 4096;
/// Most connections to one target.
constexpr int kMostConnections = 64;
/// Most connections of one task.
constexpr int64_t kMostConnectionsInAll = 16384;
/// Most samples of round trips to one target.
constexpr int kMostSamples = 10000;
/// Longest delay of a run, in seconds.
constexpr double kMostDelay = 0.1;

/// Longest wait, in milliseconds, for the connections of round trips: often no way leads to NICs on
/// other rails, and nobody says so.
constexpr std::chrono::milliseconds kRoundTripPatience(1000);
/// Longest wait, in milliseconds, for the connections of a set.
constexpr std::chrono::milliseconds kConnectPatience(5000);
/// Longest wait, in milliseconds, for one round trip.
constexpr std::chrono::milliseconds kPingPatience(1000);
/// Round trips before each burst that do not count.
constexpr int kWarmUpRoundTrips = 5;
/// Number of samples that are taken in one place; see VisitProcessors.
constexpr int kBurst = 10;
/// Pause between bursts, in milliseconds: the other end falls asleep in it, and wakes elsewhere.
constexpr std::chrono::milliseconds kBetweenBursts(2);

Status CheckTargets(const std::vector<ProbeTarget>& targets, size_t nics) {
  if (targets.size() > kMostTargets) return InvalidArgument("{} targets", targets.size());
  int64_t connections = 0;
  for (const ProbeTarget& target : targets) {
    const bool sound = target.nic >= 0 && static_cast<size_t>(target.nic) < nics &&
                       target.port > 0 && target.port <= 0xffff && target.connections > 0 &&
                       target.connections <= kMostConnections && target.transfer >= 0 &&
                       ProbeTokenFrom(target.token).has_value();
    if (!sound) return InvalidArgument("the target {}:{}", target.address, target.port);
    connections += target.connections;
  }
  if (connections > kMostConnectionsInAll) return InvalidArgument("{} connections", connections);
  return Status::Ok();
}

/// Returns each target as many times as it has connections.
std::vector<ProbeTarget> OneForEachConnection(const std::vector<ProbeTarget>& targets) {
  std::vector<ProbeTarget> all;
  for (const ProbeTarget& target : targets) {
    all.insert(all.end(), static_cast<size_t>(target.connections), target);
  }
  return all;
}

}  // namespace

Status CheckProbeTask(const ProbeRoundTripsMessage& task, size_t nics) {
  if (task.samples < 1 || task.samples > kMostSamples) {
    return InvalidArgument("{} samples", task.samples);
  }
  return CheckTargets(task.targets, nics);
}

Status CheckProbeTask(const ProbeConnectMessage& task, size_t nics) {
  if (task.step == 0) return InvalidArgument("a set without a number");
  return CheckTargets(task.targets, nics);
}

Status CheckProbeTask(const ProbeRunMessage& task) {
  // The comparisons refuse a value that is no number.
  if (!(task.seconds > 0 && task.seconds <= kMostProbeSeconds)) {
    return InvalidArgument("transfers of {} s", task.seconds);
  }
  if (!(task.delay >= 0 && task.delay <= kMostDelay)) {
    return InvalidArgument("a delay of {} s", task.delay);
  }
  return Status::Ok();
}

ProbeWork::ProbeWork(std::vector<ProbeNic> nics, Report report)
    : nics_(std::move(nics)), report_(std::move(report)), thread_([this] { Run(); }) {}

ProbeWork::~ProbeWork() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

void ProbeWork::Post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  posted_.notify_one();
}

void ProbeWork::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    posted_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
    if (stop_) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    const auto carry_out = [this](const auto& one) {
      Guarded([&] { CarryOut(one); },
              [&](const Status& why) {
                report_({.probe = one.probe, .step = one.step, .status = why});
              });
    };
    std::visit(carry_out, task);
    lock.lock();
  }
}

void ProbeWork::CarryOut(const ProbeRoundTripsMessage& task) {
  ProbeResultMessage result{.probe = task.probe, .step = task.step};
  result.samples.resize(task.targets.size());
  const std::vector<Result<FileDescriptor>> sockets =
      ConnectAll(task.targets, 0, kRoundTripPatience);
  std::vector<bool> reachable;
  for (const Result<FileDescriptor>& socket : sockets) {
    reachable.push_back(socket.ok());
    if (socket.ok() || socket.status().code() == Code::kRemoteError) continue;
    result.status = socket.status();
  }
  VisitProcessors processors;
  const int bursts = (task.samples + kBurst - 1) / kBurst;
  for (int burst = 0; burst < bursts && !stop_; ++burst) {
    const int left = task.samples - burst * kBurst;
    const ProbePlaces places = ProbePlacesOf(burst);
    processors.Go(places.own, kOwnProbePlaces);
    for (size_t i = 0; i < sockets.size() && !stop_; ++i) {
      // A connection that breaks on the way is not reachable either.
      reachable[i] =
          reachable[i] &&
          Ping(*sockets[i], places.other, std::min(left, kBurst), &result.samples[i]).ok();
    }
    std::this_thread::sleep_for(kBetweenBursts);
  }
  for (size_t i = 0; i < sockets.size(); ++i) {
    if (!reachable[i]) result.samples[i].clear();
  }
  if (!stop_) report_(std::move(result));
}

void ProbeWork::CarryOut(const ProbeConnectMessage& task) {
  ProbeResultMessage result{.probe = task.probe, .step = task.step};
  std::vector<Result<FileDescriptor>> sockets =
      ConnectAll(OneForEachConnection(task.targets), task.step, kConnectPatience);
  set_ = task.step;
  connections_.clear();
  for (Result<FileDescriptor>& socket : sockets) {
    if (socket.ok()) {
      connections_.push_back(std::move(*socket));
    } else {
      result.status = socket.status();
    }
  }
  if (!stop_) report_(std::move(result));
}

void ProbeWork::CarryOut(const ProbeRunMessage& task) {
  const auto start = After(ProbeClock::now(), task.delay);
  std::vector<int> sockets;
  for (const FileDescriptor& connection : connections_) {
    if (task.set == set_) sockets.push_back(connection.get());
  }
  if (sockets.empty()) return;
  std::this_thread::sleep_until(start);
  SendUntil(sockets, After(start, task.seconds), stop_);
  // Drops data that lies in the kernel still, so that it is not in the way of the next set.
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  for (const int socket : sockets) {
    ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
  connections_.clear();
}

std::vector<Result<FileDescriptor>> ProbeWork::ConnectAll(const std::vector<ProbeTarget>& targets,
                                                          uint64_t set,
                                                          std::chrono::milliseconds patience) {
  const auto deadline = ProbeClock::now() + patience;
  const auto own = [&](const ProbeTarget& target) {
    return nics_[static_cast<size_t>(target.nic)].address;
  };
  std::vector<Result<FileDescriptor>> sockets;
  for (const ProbeTarget& target : targets) {
    sockets.push_back(
        BeginConnect(own(target), target.address, static_cast<uint16_t>(target.port)));
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!sockets[i].ok()) continue;
    Status status =
        FinishConnect(*sockets[i], own(targets[i]), targets[i].address, deadline, stop_);
    if (status.ok()) status = Introduce(*sockets[i], targets[i], set, deadline);
    if (!status.ok()) sockets[i] = status;
  }
  return sockets;
}

Status ProbeWork::Introduce(const FileDescriptor& socket, const ProbeTarget& target, uint64_t set,
                            ProbeClock::time_point deadline) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const auto hello = EncodeProbeHello({.token = *ProbeTokenFrom(target.token),
                                       .set = set,
                                       .transfer = static_cast<uint32_t>(target.transfer)});
  if (::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(hello.size())) {
    return RemoteError("{} does not listen", target.address);
  }
  pollfd readable{socket.get(), POLLIN, 0};
  while (::poll(&readable, 1, 5) <= 0) {
    if (stop_ || ProbeClock::now() >= deadline) {
      return RemoteError("{} does not answer over TCP", target.address);
    }
  }
  char answer = 0;
  if (::recv(socket.get(), &answer, 1, MSG_DONTWAIT) != 1 || answer != kProbeWelcome) {
    return RemoteError("{} does not take part in this probe", target.address);
  }
  return Status::Ok();
}

// Stays awake all the time: the time of a wake-up would hide that of a switch.
Status ProbeWork::Ping(const FileDescriptor& socket, uint8_t place, int samples,
                       std::vector<double>* seconds) {
  char message[kProbePingBytes] = {static_cast<char>(place)};
  for (int i = -kWarmUpRoundTrips; i < samples && !stop_; ++i) {
    const auto start = ProbeClock::now();
    if (::send(socket.get(), message, sizeof(message), MSG_NOSIGNAL) != sizeof(message)) {
      return RemoteError("a round trip failed");
    }
    for (size_t got = 0; got < sizeof(message);) {
      const ssize_t more = ::recv(socket.get(), message, sizeof(message) - got, MSG_DONTWAIT);
      if (more > 0) got += static_cast<size_t>(more);
      if (more > 0) continue;
      const bool waits = more < 0 && (errno == EAGAIN || errno == EINTR);
      if (!waits || stop_ || ProbeClock::now() - start > kPingPatience) {
        return RemoteError("a round trip failed");
      }
      ::sched_yield();
    }
    const std::chrono::duration<double> took = ProbeClock::now() - start;
    if (i >= 0) seconds->push_back(took.count());
  }
  return Status::Ok();
}

}  // namespace harmonaize::daemon
