#include "perf/network/host_runner.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "src/base/clock.h"

namespace harmonaize::perf {
namespace {

constexpr uint64_t kConnectNanoseconds = 20'000'000'000;
constexpr int kSleepMilliseconds = 100;

/// Sent by each process to the others.
struct Introduction {
  int host = 0;
  transport::InstanceId instance{};
  char address[64] = {};
};

}  // namespace

Result<std::unique_ptr<HostRunner>> HostRunner::Create(Bootstrap* bootstrap,
                                                       const FabricRails* rails, int host) {
  std::unique_ptr<HostRunner> runner(new HostRunner(bootstrap, rails, host));
  HZ_ASSIGN_OR_RETURN(std::vector<transport::RailOptions> options, rails->RailsOf(host));
  transport::TransportOptions transport_options;
  transport_options.allow_unauthenticated = true;  // in the laboratory
  transport_options.rails = options;
  HZ_ASSIGN_OR_RETURN(runner->transport_,
                      transport::Transport::Create(std::move(transport_options), runner.get()));
  runner->wake_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!runner->wake_.valid()) return ErrnoError(errno, "eventfd");
  const auto wake = [fd = runner->wake_.get()] {
    const uint64_t one = 1;
    // The write fails only when the event is raised already.
    if (::write(fd, &one, sizeof one) < 0) return;
  };
  HZ_ASSIGN_OR_RETURN(runner->executor_,
                      Executor::Create({.workers = 1, .processors = 1, .wake_owner = wake}));
  HZ_RETURN_IF_ERROR(runner->Connect());
  return runner;
}

HostRunner::~HostRunner() = default;

Status HostRunner::Connect() {
  HZ_ASSIGN_OR_RETURN(std::vector<transport::RailOptions> options, rails_->RailsOf(host_));
  HZ_ASSIGN_OR_RETURN(const transport::NetworkAddress listening,
                      transport_->Listen(options.front().address));
  Introduction mine;
  mine.host = host_;
  mine.instance = transport_->instance();
  const std::string text = listening.ToString();
  std::memcpy(mine.address, text.data(), std::min(text.size(), sizeof mine.address - 1));
  HZ_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                      bootstrap_->AllGather({reinterpret_cast<const char*>(&mine), sizeof mine}));

  std::vector<Introduction> introductions;
  for (const std::string& one : all) {
    std::memcpy(&introductions.emplace_back(), one.data(), sizeof(Introduction));
    hosts_.push_back(introductions.back().host);
  }
  Status failed;
  for (int process = 0; process < bootstrap_->process(); ++process) {
    HZ_ASSIGN_OR_RETURN(
        const transport::NetworkAddress address,
        transport::NetworkAddress::Parse(introductions[static_cast<size_t>(process)].address));
    transport_->Connect(address, [&failed](const Result<transport::PeerId>& peer) {
      if (!peer.ok()) failed = peer.status();
    });
  }
  const uint64_t give_up = MonotonicNanoseconds() + kConnectNanoseconds;
  while (up_.size() + 1 < introductions.size() && failed.ok()) {
    transport_->Progress();
    if (MonotonicNanoseconds() > give_up) return RemoteError("not all hosts were reached");
  }
  HZ_RETURN_IF_ERROR(failed);
  std::vector<transport::PeerId> peers(static_cast<size_t>(rails_->hosts()), 0);
  for (const Introduction& one : introductions) {
    for (const auto& [instance, id] : up_) {
      if (instance == one.instance) peers[static_cast<size_t>(one.host)] = id;
    }
  }
  port_ = std::make_unique<TransportPort>(
      transport_.get(), std::move(peers),
      [this](const MessageName& name, size_t bytes) { return rail_table_->Next(name, bytes); });
  execution_ = std::make_unique<NetworkExecution>(executor_.get(), port_.get());
  return bootstrap_->Barrier();
}

void HostRunner::OnPeerUp(transport::PeerId peer, const transport::PeerInfo& info) {
  up_.emplace_back(info.instance, peer);
}

void HostRunner::OnPeerLost(transport::PeerId /*peer*/, const std::string& reason) {
  failure_ = RemoteError("a host was lost: {}", reason);
}

void HostRunner::OnControl(transport::PeerId /*peer*/, std::span<const std::byte> /*message*/) {}

Status HostRunner::Run(const Operation& operation) {
  rail_table_ = operation.rails;
  NetworkBinding binding;
  binding.program = operation.program;
  binding.count = operation.count;
  binding.inputs = operation.inputs;
  binding.outputs = operation.outputs;
  binding.operation = ++operation_;
  binding.slice_elements = std::max<uint64_t>(1, operation.slice_bytes / sizeof(float));
  binding.slices_at_once = operation.slices_at_once;
  binding.wire = operation.wire;
  HZ_RETURN_IF_ERROR(execution_->Start(binding));
  while (!execution_->done()) Turn();
  return failure_.ok() ? execution_->status() : failure_;
}

void HostRunner::Turn() {
  bool progress = transport_->Progress() > 0;
  progress |= executor_->Help();
  while (Execution* const done = executor_->TakeFinished()) {
    NetworkExecution::OnExecuted(done);
    progress = true;
  }
  if (!failure_.ok()) execution_->Cancel(failure_);
  if (!progress && !execution_->done()) Sleep();
}

// Sleeps, because all hosts share the machine's processors with the routers between them.
void HostRunner::Sleep() {
  if (!transport_->Arm()) return;
  pollfd events[] = {{transport_->fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  ::poll(events, 2, kSleepMilliseconds);
  uint64_t rung = 0;
  if ((events[1].revents & POLLIN) != 0 && ::read(wake_.get(), &rung, sizeof rung) < 0) return;
}

}  // namespace harmonaize::perf
