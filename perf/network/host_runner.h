#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "perf/harness/bootstrap.h"
#include "src/base/status.h"
#include "src/executor/host/executor.h"
#include "src/executor/network/fabric_rails.h"
#include "src/executor/network/network_execution.h"
#include "src/executor/network/rail_table.h"
#include "src/executor/network/transport_port.h"
#include "src/transport/transport.h"

namespace harmonaize::perf {

/// One host of a benchmark: a transport to all others and an executor, in one thread.
class HostRunner final : private transport::TransportEvents {
 public:
  /// Called by every process of the job. `host` is this process's host in the fabric; processes are
  /// hosts in the order of the job's ranks.
  static Result<std::unique_ptr<HostRunner>> Create(Bootstrap* bootstrap, const FabricRails* rails,
                                                    int host);
  ~HostRunner();

  /// Returns the fabric's hosts by process.
  const std::vector<int>& hosts() const { return hosts_; }

  /// One operation on this host. Its messages number hosts as the fabric does.
  struct Operation {
    const NetworkProgram* program = nullptr;
    RailTable* rails = nullptr;
    uint64_t count = 0;  ///< float32 elements of a unit.
    std::span<const MemoryView> inputs;
    std::span<const MemoryView> outputs;
    uint64_t slice_bytes = 0;
    int slices_at_once = 0;
    WireFormat wire = WireFormat::kSame;  ///< NetworkBinding::wire.
  };
  /// Carries the operation out once, with all other hosts.
  Status Run(const Operation& operation);

 private:
  HostRunner(Bootstrap* bootstrap, const FabricRails* rails, int host)
      : bootstrap_(bootstrap), rails_(rails), host_(host) {}

  void OnPeerUp(transport::PeerId peer, const transport::PeerInfo& info) override;
  void OnPeerLost(transport::PeerId peer, const std::string& reason) override;
  void OnControl(transport::PeerId peer, std::span<const std::byte> message) override;

  Status Connect();
  void Turn();
  void Sleep();

  Bootstrap* const bootstrap_;
  const FabricRails* const rails_;
  const int host_;
  std::vector<int> hosts_;
  std::unique_ptr<transport::Transport> transport_;
  std::vector<std::pair<transport::InstanceId, transport::PeerId>> up_;
  FileDescriptor wake_;  // rung by the executor
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<TransportPort> port_;
  std::unique_ptr<NetworkExecution> execution_;
  RailTable* rail_table_ = nullptr;  // of the operation
  uint64_t operation_ = 0;
  Status failure_;
};

}  // namespace harmonaize::perf
