#include "tests/support/cluster.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

constexpr int kIds = 16;

/// A key of the test's own; its file goes when the daemons have read it.
class KeyFile {
 public:
  explicit KeyFile(const std::string& key) {
    const int fd = mkstemp(path_);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(write(fd, key.data(), key.size()), static_cast<ssize_t>(key.size()));
    EXPECT_EQ(fchown(fd, 0, DaemonProcess::group()), 0);
    EXPECT_EQ(fchmod(fd, 0640), 0);
    close(fd);
  }
  ~KeyFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }

 private:
  char path_[32] = "/tmp/harmonaize-key-XXXXXX";
};

}  // namespace

TestCluster::TestCluster(int hosts, const std::string& config, const std::string& cluster_keys,
                         const std::string& key, bool keep_logs, int port)
    : config_(config),
      cluster_keys_(cluster_keys),
      key_(key.empty() ? "a key that only this test's daemons know, 32 bytes and more\n" : key),
      keep_logs_(keep_logs),
      port_(port) {
  for (int host = 0; host < hosts; ++host) AddHost();
}

void TestCluster::AddHost() {
  const KeyFile file(key_);
  daemons_.push_back(std::make_unique<DaemonProcess>(ConfigWith(hosts(), file.path()), keep_logs_));
}

std::string TestCluster::ConfigWith(int host, const std::string& key_path) const {
  return config_ + "\n[cluster]\naddress = \"127.0.0." + std::to_string(host + 1) + ":" +
         std::to_string(port_) + "\"\nkey_file = \"" + key_path + "\"\n" + cluster_keys_;
}

void TestCluster::Restart(int host) {
  const KeyFile file(key_);
  daemons_[static_cast<size_t>(host)].reset();
  daemons_[static_cast<size_t>(host)] =
      std::make_unique<DaemonProcess>(ConfigWith(host, file.path()), keep_logs_);
}

struct HostedRanks::Board {
  struct Entry {
    std::atomic<int> there{0};
    ncclUniqueId id;
  };
  Entry entries[kIds];
};

HostedRanks::HostedRanks(TestCluster* cluster, std::vector<int> host_of_rank)
    : cluster_(cluster),
      host_of_rank_(std::move(host_of_rank)),
      board_(std::make_unique<SharedByProcesses<Board>>()) {}

HostedRanks::~HostedRanks() {
  for (const pid_t process : processes_) {
    if (process > 0) kill(process, SIGKILL);
  }
  Wait();
}

void HostedRanks::Start(const std::function<int(int)>& body) {
  for (int rank = 0; rank < ranks(); ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int host = host_of_rank_[static_cast<size_t>(rank)];
      setenv("HARMONAIZE_SOCKET", cluster_->daemon(host).socket_path().c_str(), 1);
      const int status = body(rank);
      _exit(::testing::Test::HasFailure() && status == 0 ? 1 : status);
    }
    processes_.push_back(child);
  }
}

std::vector<int> HostedRanks::Wait() {
  std::vector<int> statuses;
  for (pid_t& process : processes_) {
    int status = 0;
    if (process > 0) waitpid(process, &status, 0);
    process = -1;
    statuses.push_back(status);
  }
  return statuses;
}

ncclUniqueId HostedRanks::ShareId(int slot, bool maker) {
  if (maker) {
    ncclUniqueId id{};
    EXPECT_NCCL(ncclGetUniqueId(&id));
    PublishId(slot, id);
  }
  Board::Entry& entry = (*board_)->entries[slot];
  while (entry.there.load(std::memory_order_acquire) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return entry.id;
}

ncclComm_t HostedRanks::Join(int rank) {
  const ncclUniqueId id = ShareId(0, rank == 0);
  ncclComm_t communicator = nullptr;
  EXPECT_NCCL(ncclCommInitRank(&communicator, ranks(), id, rank));
  return communicator;
}

void HostedRanks::PublishId(int slot, const ncclUniqueId& id) {
  (*board_)->entries[slot].id = id;
  (*board_)->entries[slot].there.store(1, std::memory_order_release);
}

void RunOnHosts(TestCluster* cluster, const std::vector<int>& host_of_rank,
                const std::function<void(int, ncclComm_t)>& body) {
  HostedRanks ranks(cluster, host_of_rank);
  ranks.Start([&](int rank) {
    const ncclComm_t communicator = ranks.Join(rank);
    if (communicator == nullptr) return 1;
    body(rank, communicator);
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  const std::vector<int> statuses = ranks.Wait();
  for (size_t rank = 0; rank < statuses.size(); ++rank) {
    EXPECT_EQ(statuses[rank], 0) << "rank " << rank;
  }
}

}  // namespace harmonaize::testing
