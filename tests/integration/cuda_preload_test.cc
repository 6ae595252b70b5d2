// Communicators that stock NCCL carries beside the daemon (docs/cuda-preload.md), with stand-ins
// for stock NCCL and for CUDA's driver. Each rank is a process of its own, because the way is
// chosen once a process.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "include/harmonaize.h"
#include "src/base/json_text.h"
#include "tests/integration/command_line.h"
#include "tests/support/cluster.h"
#include "tests/support/daemon_process.h"
#include "tests/support/hosts_case.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

void SetContext(bool has_one) {
  void* const driver = dlopen(STAND_IN_CUDA, RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(driver, nullptr) << dlerror();
  static int place = 0;
  reinterpret_cast<void (*)(void*)>(dlsym(driver, "StandInSetContext"))(has_one ? &place : nullptr);
}

/// How often this process has called a function of the stand-in; -1: it has not loaded it.
int StockCalls(const char* function) {
  void* const stock = dlopen(STAND_IN_NCCL, RTLD_NOW | RTLD_NOLOAD);
  if (stock == nullptr) return -1;
  return reinterpret_cast<int (*)(const char*)>(dlsym(stock, "StandInCount"))(function);
}

void ExpectSum(ncclComm_t comm, int rank, int ranks) {
  float value = static_cast<float>(rank + 1);
  EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr));
  EXPECT_EQ(value, static_cast<float>(ranks * (ranks + 1) / 2));
}

/// Waits until the file is there: ranks tell each other, and the test, where they are.
void AwaitFile(const std::string& path) {
  for (int i = 0; i < 3000 && access(path.c_str(), F_OK) != 0; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
}
void MakeFile(const std::string& path) {
  fclose(fopen(path.c_str(), "w"));
}

class CudaPreload : public ::testing::Test {
 protected:
  void SetUp() override {
    daemon_ = std::make_unique<DaemonProcess>("[ranks]\nlate_after_seconds = 0.5\n");
    setenv("HARMONAIZE_NCCL_LIBRARY", STAND_IN_NCCL, 1);
  }
  void TearDown() override {
    unsetenv("HARMONAIZE_CUDA");
    daemon_.reset();
  }

  /// Runs `body` as so many ranks of a communicator, of which those have a context that
  /// `has_context` says.
  static void Run(int ranks, const std::function<bool(int)>& has_context,
                  const std::function<void(int, ncclComm_t)>& body) {
    const std::vector<int> statuses = RunAsProcesses(ranks, [&](int rank) {
      SetContext(has_context(rank));
      ncclComm_t comm = nullptr;
      EXPECT_NCCL(JoinNamed("carried", ranks, rank, &comm));
      if (comm == nullptr) return 3;
      body(rank, comm);
      return 0;
    });
    for (const int status : statuses) EXPECT_EQ(status, 0);
  }
  static bool All(int) { return true; }
  static bool None(int) { return false; }

  /// The communicators in `harmonaize status`.
  json Communicators() const {
    const Ended ended = RunCommand({"status", "--json"}, daemon_->socket_path());
    const json status = ReadJson(ended.output);
    json all = json::array();
    if (!status.is_object()) return all;
    for (const json& tenant : status["tenants"]) {
      for (const json& one : tenant["communicators"]) all.push_back(one);
    }
    return all;
  }
  std::string File(const char* name) const { return daemon_->folder() + "/" + name; }

  std::unique_ptr<DaemonProcess> daemon_;
};

TEST_F(CudaPreload, StockCarriesWhatAllRanksUseAGpuFor) {
  const std::string socket = daemon_->socket_path();
  Run(3, All, [&](int rank, ncclComm_t comm) {
    for (int i = 0; i < 10; ++i) ExpectSum(comm, rank, 3);
    EXPECT_EQ(StockCalls("ncclAllReduce"), 10);
    EXPECT_EQ(StockCalls("ncclGetUniqueId"), rank == 0 ? 1 : 0);
    int device = 0;
    EXPECT_NCCL(ncclCommCuDevice(comm, &device));
    EXPECT_EQ(device, 5);
    int ranks = 0;
    EXPECT_NCCL(ncclCommCount(comm, &ranks));
    EXPECT_EQ(ranks, 3);
    if (rank == 0) {
      const json all = Communicators();
      EXPECT_EQ(all.size(), 1u) << all;
      for (const json& one : all) {
        EXPECT_EQ(one["kind"], "cuda (stock NCCL)");
        EXPECT_GE(one["operations"].get<int>(), 10) << "what is shown goes to the daemon";
        EXPECT_GE(one["stock_nccl"]["calls"].get<int>(), 10 + 9 + 9);
        EXPECT_EQ(one["stock_nccl"]["bytes"].get<int>(), 4 * one["stock_nccl"]["calls"].get<int>());
      }
      const Ended table = RunCommand({"status"}, socket);
      EXPECT_NE(table.output.find("cuda (stock NCCL): 30 calls"), std::string::npos)
          << table.output;
    }
    ExpectSum(comm, rank, 3);
    EXPECT_NCCL(ncclCommDestroy(comm));
    EXPECT_EQ(StockCalls("ncclCommDestroy"), 1);
  });
}

TEST_F(CudaPreload, TheDaemonCarriesWhatNoRankUsesAGpuFor) {
  Run(2, None, [&](int rank, ncclComm_t comm) {
    ExpectSum(comm, rank, 2);
    EXPECT_EQ(StockCalls("ncclAllReduce"), -1) << "stock NCCL is loaded for nothing";
    if (rank == 0) {
      EXPECT_EQ(Communicators()[0]["kind"], "host");
    }
    ExpectSum(comm, rank, 2);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST_F(CudaPreload, TheDaemonCarriesWhereOneRankUsesNoGpu) {
  Run(
      3, [](int rank) { return rank != 1; },
      [](int rank, ncclComm_t comm) {
        ExpectSum(comm, rank, 3);
        EXPECT_LE(StockCalls("ncclAllReduce"), 0);
        EXPECT_NCCL(ncclCommDestroy(comm));
      });
}

TEST_F(CudaPreload, TheDaemonCarriesAllWhereTheUserSaysSo) {
  setenv("HARMONAIZE_CUDA", "off", 1);
  Run(2, All, [](int rank, ncclComm_t comm) {
    ExpectSum(comm, rank, 2);
    EXPECT_EQ(StockCalls("ncclAllReduce"), -1);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST_F(CudaPreload, TheDaemonCarriesAllWhereOneRankSaysSo) {
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    if (rank == 1) setenv("HARMONAIZE_CUDA", "off", 1);
    SetContext(true);
    ncclComm_t comm = nullptr;
    EXPECT_NCCL(JoinNamed("mixed", 2, rank, &comm));
    ExpectSum(comm, rank, 2);
    EXPECT_LE(StockCalls("ncclAllReduce"), 0);
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>({0, 0}));
}

TEST_F(CudaPreload, AThreadMaySayThatItsDataLiesInHostMemory) {
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    SetContext(true);
    EXPECT_EQ(hzUseHostMemory(1), 0);
    ncclComm_t host = nullptr;
    EXPECT_NCCL(JoinNamed("host", 2, rank, &host));
    ExpectSum(host, rank, 2);
    void* memory = nullptr;
    EXPECT_NCCL(ncclMemAlloc(&memory, 64));
    EXPECT_EQ(StockCalls("ncclMemAlloc"), -1) << "stock NCCL is loaded for nothing";
    EXPECT_EQ(hzUseHostMemory(0), 1);
    ncclComm_t carried = nullptr;
    EXPECT_NCCL(JoinNamed("carried", 2, rank, &carried));
    ExpectSum(host, rank, 2);
    ExpectSum(carried, rank, 2);
    EXPECT_EQ(StockCalls("ncclAllReduce"), 1);
    EXPECT_NCCL(ncclMemFree(memory));
    EXPECT_NCCL(ncclCommDestroy(host));
    EXPECT_NCCL(ncclCommDestroy(carried));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>({0, 0}));
}

// The home of the communicator is on another host than some of its ranks.
TEST_F(CudaPreload, RanksOfTwoHostsDecideAlike) {
  TestCluster cluster(2);
  for (const bool all : {true, false}) {
    HostedRanks ranks(&cluster, {0, 1, 1});
    ranks.Start([&](int rank) {
      SetContext(all || rank != 2);
      const ncclComm_t comm = ranks.Join(rank);
      ExpectSum(comm, rank, 3);
      EXPECT_EQ(StockCalls("ncclAllReduce") > 0, all);
      EXPECT_NCCL(ncclCommDestroy(comm));
      return 0;
    });
    EXPECT_EQ(ranks.Wait(), std::vector<int>(3, 0));
  }
}

TEST_F(CudaPreload, OneProcessHasCommunicatorsOfBothKinds) {
  Run(2, All, [](int rank, ncclComm_t carried) {
    SetContext(false);
    ncclComm_t host = nullptr;
    ASSERT_NCCL(JoinNamed("host", 2, rank, &host));
    SetContext(true);
    std::vector<float> large(100'000, static_cast<float>(rank + 1));
    for (int i = 0; i < 3; ++i) {
      ExpectSum(carried, rank, 2);
      EXPECT_NCCL(ncclAllReduce(large.data(), large.data(), large.size(), ncclFloat, ncclMax, host,
                                nullptr));
    }
    EXPECT_EQ(large.back(), 2.0f);
    // In one group.
    float one = 1;
    float other = 1;
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, carried, nullptr));
    EXPECT_NCCL(ncclAllReduce(&other, &other, 1, ncclFloat, ncclSum, host, nullptr));
    EXPECT_EQ(one, 1) << "before the end of the group";
    EXPECT_NCCL(ncclGroupEnd());
    EXPECT_EQ(one, 2);
    EXPECT_EQ(other, 2);
    EXPECT_EQ(StockCalls("ncclAllReduce"), 4);
    EXPECT_NCCL(ncclCommDestroy(host));
    ExpectSum(carried, rank, 2);
    EXPECT_NCCL(ncclCommDestroy(carried));
  });
}

TEST_F(CudaPreload, PartsOfACarriedCommunicatorAreCarried) {
  Run(4, All, [](int rank, ncclComm_t comm) {
    ncclComm_t part = nullptr;
    ASSERT_NCCL(ncclCommSplit(comm, rank % 2, -rank, &part, nullptr));
    int own = -1;
    EXPECT_NCCL(ncclCommUserRank(part, &own));
    EXPECT_EQ(own, rank < 2 ? 1 : 0);
    ExpectSum(part, own, 2);
    ncclComm_t none = comm;
    // In a group.
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclCommSplit(comm, rank == 3 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &none, nullptr));
    EXPECT_NCCL(ncclGroupEnd());
    EXPECT_EQ(none != nullptr, rank == 3);
    if (none != nullptr) ExpectSum(none, 0, 1);
    EXPECT_EQ(StockCalls("ncclAllReduce"), rank == 3 ? 2 : 1);
    for (const ncclComm_t one : {none, part, comm}) EXPECT_NCCL(ncclCommDestroy(one));
  });
}

TEST_F(CudaPreload, ACommunicatorMadeInAGroupOrWithoutBlockingIsCarried) {
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    SetContext(true);
    ncclUniqueId id;
    setenv("NCCL_COMM_ID", "grouped:1", 1);
    EXPECT_NCCL(ncclGetUniqueId(&id));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclCommInitRankConfig(&comm, 2, id, rank, &config));
    EXPECT_NCCL(ncclGroupEnd());
    ncclResult_t state = ncclInternalError;
    EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
    EXPECT_EQ(state, ncclSuccess);
    ExpectSum(comm, rank, 2);
    EXPECT_EQ(StockCalls("ncclAllReduce"), 1);
    EXPECT_NCCL(ncclCommFinalize(comm));
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

/// Expects that the daemon has found nothing wrong.
void ExpectWell(ncclComm_t comm) {
  ncclResult_t state = ncclInternalError;
  EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
  EXPECT_EQ(state, ncclSuccess) << ncclGetLastError(comm);
}

TEST_F(CudaPreload, RanksExchangeInAnyOrderInAGroup) {
  Run(3, All, [](int rank, ncclComm_t comm) {
    const int next = (rank + 1) % 3;
    const int previous = (rank + 2) % 3;
    for (int i = 0; i < 20; ++i) {
      const auto mine = static_cast<float>(100 * rank + i);
      float other = -1;
      float itself = -1;
      EXPECT_NCCL(ncclGroupStart());
      if ((rank + i) % 2 == 0) {
        EXPECT_NCCL(ncclRecv(&other, 1, ncclFloat, previous, comm, nullptr));
      }
      EXPECT_NCCL(ncclSend(&mine, 1, ncclFloat, next, comm, nullptr));
      EXPECT_NCCL(ncclSend(&mine, 1, ncclFloat, rank, comm, nullptr));
      EXPECT_NCCL(ncclRecv(&itself, 1, ncclFloat, rank, comm, nullptr));
      if ((rank + i) % 2 != 0) {
        EXPECT_NCCL(ncclRecv(&other, 1, ncclFloat, previous, comm, nullptr));
      }
      EXPECT_NCCL(ncclGroupEnd());
      EXPECT_EQ(other, static_cast<float>(100 * previous + i));
      EXPECT_EQ(itself, mine);
    }
    // What was shown to the daemon has ended as well: otherwise this would wait.
    ExpectSum(comm, rank, 3);
    ExpectWell(comm);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST_F(CudaPreload, ThreadsOfOneProcessAreRanks) {
  const std::vector<int> statuses = RunAsProcesses(1, [](int) {
    setenv("NCCL_COMM_ID", "threads:1", 1);
    ncclUniqueId id;
    EXPECT_NCCL(ncclGetUniqueId(&id));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([rank, id] {
        SetContext(true);
        ncclComm_t comm = nullptr;
        ASSERT_NCCL(ncclCommInitRank(&comm, 3, id, rank));
        for (int i = 0; i < 50; ++i) ExpectSum(comm, rank, 3);
        ExpectWell(comm);
        EXPECT_NCCL(ncclCommDestroy(comm));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(StockCalls("ncclAllReduce"), 150);
    return 0;
  });
  EXPECT_EQ(statuses[0], 0);
}

TEST_F(CudaPreload, TheOperationsGoOnWithoutTheDaemon) {
  const std::string ready = File("ready");
  const std::string killed = File("killed");
  Run(2, All, [&](int rank, ncclComm_t comm) {
    ExpectSum(comm, rank, 2);
    if (rank == 0) {
      AwaitFile(ready);
      kill(daemon_->pid(), SIGKILL);
      MakeFile(killed);
    } else {
      MakeFile(ready);
      AwaitFile(killed);
    }
    for (int i = 0; i < 20; ++i) {
      ExpectSum(comm, rank, 2);
      ExpectWell(comm);
      std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_NCCL(ncclCommDestroy(comm));
    EXPECT_EQ(StockCalls("ncclAllReduce"), 21);
  });
  daemon_->Kill();
}

TEST_F(CudaPreload, MemoryOfAThreadWithAContextIsStocks) {
  Run(1, All, [](int, ncclComm_t comm) {
    void* device = nullptr;
    EXPECT_NCCL(ncclMemAlloc(&device, 64));
    SetContext(false);
    void* host = nullptr;
    EXPECT_NCCL(ncclMemAlloc(&host, 64));
    EXPECT_EQ(StockCalls("ncclMemAlloc"), 1);
    EXPECT_NCCL(ncclMemFree(host));
    EXPECT_EQ(StockCalls("ncclMemFree"), 0);
    EXPECT_NCCL(ncclMemFree(device));
    EXPECT_EQ(StockCalls("ncclMemFree"), 1);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST_F(CudaPreload, AFailureOfStockIsToldInItsWords) {
  Run(1, All, [](int, ncclComm_t comm) {
    double value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclDouble, ncclSum, comm, nullptr),
              ncclInvalidArgument);
    EXPECT_STREQ(ncclGetLastError(comm),
                 "ncclAllReduce: stock NCCL: the stand-in sums up to 256 floats");
    ncclComm_t grown = nullptr;
    EXPECT_EQ(ncclCommGrow(comm, 2, nullptr, -1, &grown, nullptr), ncclInvalidUsage);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST_F(CudaPreload, TheDaemonTellsWhoHasNotCalled) {
  const std::string go_on = File("go-on");
  Run(2, All, [&](int rank, ncclComm_t comm) {
    ExpectSum(comm, rank, 2);
    if (rank == 1) AwaitFile(go_on);
    // Waits in stock NCCL for the other, while another thread looks.
    std::thread looks;
    bool told = false;
    if (rank == 0) {
      looks = std::thread([&] {
        for (int i = 0; i < 1000 && !told; ++i) {
          std::this_thread::sleep_for(milliseconds(20));
          for (const json& one : Communicators()) {
            for (const json& waiting : one["waiting"]) {
              told = told || (waiting["operation"].get<std::string>().find("AllReduce") == 0 &&
                              waiting["missing_ranks"] == json::array({1}));
            }
          }
        }
        MakeFile(go_on);
      });
    }
    ExpectSum(comm, rank, 2);
    if (looks.joinable()) looks.join();
    EXPECT_EQ(told, rank == 0);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST_F(CudaPreload, TheDaemonTellsWhoHasDied) {
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    SetContext(true);
    ncclComm_t comm = nullptr;
    EXPECT_NCCL(JoinNamed("dies", 2, rank, &comm));
    ExpectSum(comm, rank, 2);
    if (rank == 1) kill(getpid(), SIGKILL);
    // As a watchdog does, beside a thread that waits in stock NCCL.
    std::thread waits([comm] {
      float value = 1;
      ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr);
    });
    ncclResult_t state = ncclSuccess;
    for (int i = 0; i < 3000 && state == ncclSuccess; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
    }
    EXPECT_EQ(state, ncclRemoteError);
    EXPECT_NE(std::string(ncclGetLastError(comm)).find("rank 1"), std::string::npos)
        << ncclGetLastError(comm);
    EXPECT_NCCL(ncclCommAbort(comm));
    waits.join();
    return 0;
  });
  EXPECT_EQ(statuses[0], 0);
  EXPECT_TRUE(WIFSIGNALED(statuses[1]));
}

TEST_F(CudaPreload, TheDaemonTellsWhoDisagrees) {
  const std::string told[] = {File("told-0"), File("told-1")};
  Run(2, All, [&](int rank, ncclComm_t comm) {
    // Stock NCCL would wait for ever, so what it gets is the same. The second operation is not.
    ExpectSum(comm, rank, 2);
    std::vector<float> block(2, 1.0f);
    if (rank == 0) {
      EXPECT_NE(ncclBroadcast(block.data(), block.data(), 1, ncclFloat, 0, comm, nullptr),
                ncclSuccess)
          << "the stand-in has none";
    } else {
      EXPECT_NE(ncclReduce(block.data(), block.data(), 1, ncclFloat, ncclSum, 0, comm, nullptr),
                ncclSuccess);
    }
    ncclResult_t state = ncclSuccess;
    for (int i = 0; i < 1000 && state == ncclSuccess; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
    }
    EXPECT_EQ(state, ncclInvalidUsage);
    const std::string text = ncclGetLastError(comm);
    EXPECT_NE(text.find("Broadcast"), std::string::npos) << text;
    EXPECT_NE(text.find("Reduce"), std::string::npos) << text;
    MakeFile(told[rank]);
    AwaitFile(told[1 - rank]);
    EXPECT_NCCL(ncclCommAbort(comm));
  });
}

}  // namespace
}  // namespace harmonaize::testing
