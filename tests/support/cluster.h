#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nccl.h"
#include "tests/support/daemon_process.h"
#include "tests/support/shared_by_processes.h"

namespace harmonaize::testing {

/// Daemons that take each other for daemons of other hosts, on the loopback device, with a key.
/// Host n has the address 127.0.0.(n + 1).
class TestCluster {
 public:
  /// `config` is more text for each provider.toml; it must not have a section [cluster]. `key` is
  /// the cluster's key, if it is to be another one. For `keep_logs` see DaemonProcess. `port` is
  /// where all daemons listen; 0: each at one of its own.
  explicit TestCluster(int hosts, const std::string& config = "",
                       const std::string& cluster_keys = "", const std::string& key = "",
                       bool keep_logs = false, int port = 0);

  int hosts() const { return static_cast<int>(daemons_.size()); }
  DaemonProcess& daemon(int host) { return *daemons_[static_cast<size_t>(host)]; }
  /// Starts the daemon of one more host.
  void AddHost();
  /// Starts a daemon in place of one that was stopped or killed.
  void Restart(int host);

 private:
  std::string ConfigWith(int host, const std::string& key_path) const;

  const std::string config_;
  const std::string cluster_keys_;
  const std::string key_;
  const bool keep_logs_;
  const int port_;
  std::vector<std::unique_ptr<DaemonProcess>> daemons_;
};

/// Runs `body` for each rank in a process of its own, at the daemon of its host; returns the wait
/// statuses by rank. `body` returns the exit status; gtest failures inside it count as status 1.
/// The ranks can share an id: `ShareId` makes it at rank 0 and passes it to all.
class HostedRanks {
 public:
  HostedRanks(TestCluster* cluster, std::vector<int> host_of_rank);
  ~HostedRanks();
  HostedRanks(const HostedRanks&) = delete;
  HostedRanks& operator=(const HostedRanks&) = delete;

  int ranks() const { return static_cast<int>(host_of_rank_.size()); }
  void Start(const std::function<int(int rank)>& body);
  pid_t process(int rank) const { return processes_[static_cast<size_t>(rank)]; }
  std::vector<int> Wait();

  /// In a rank: returns id number `slot` (0 to 15), made by `maker`.
  ncclUniqueId ShareId(int slot, bool maker);
  /// In a rank: returns a communicator of all ranks, by id number 0, which rank 0 makes. Failures
  /// are gtest's; returns nullptr then.
  ncclComm_t Join(int rank);
  /// In a rank: publishes an id that was made otherwise.
  void PublishId(int slot, const ncclUniqueId& id);

 private:
  struct Board;

  TestCluster* const cluster_;
  const std::vector<int> host_of_rank_;
  std::unique_ptr<SharedByProcesses<Board>> board_;
  std::vector<pid_t> processes_;
};

/// Runs `body` for each rank with a communicator of all of them, which is destroyed afterwards.
/// Failures are gtest's.
void RunOnHosts(TestCluster* cluster, const std::vector<int>& host_of_rank,
                const std::function<void(int rank, ncclComm_t communicator)>& body);

}  // namespace harmonaize::testing
