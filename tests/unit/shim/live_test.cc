// What the face adds to a communicator that is there: operators, teams, registrations, its own
// checks and its lines in the log. What communicators do is tested in tests/integration.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "include/harmonaize.h"
#include "src/ipc/inline_segment.h"
#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"
#include "tests/support/text_checks.h"

struct Team {
  int ranks, rank, stride;
};
extern "C" Team ncclTeamWorld(ncclComm_t);
extern "C" Team ncclTeamLsa(ncclComm_t);
extern "C" Team ncclTeamRail(ncclComm_t);
extern "C" int ncclTeamRankToWorld(ncclComm_t, Team, int);
extern "C" int ncclTeamRankToLsa(ncclComm_t, Team, int);
extern "C" ncclResult_t ncclCommQueryProperties(ncclComm_t, void*);

namespace {
std::atomic<int> reduces_seen{0};
}

// A profiler's ncclReduce, in front of the library's.
extern "C" ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count,
                                   ncclDataType_t datatype, ncclRedOp_t op, int root,
                                   ncclComm_t comm, cudaStream_t stream) {
  ++reduces_seen;
  return pncclReduce(sendbuff, recvbuff, count, datatype, op, root, comm, stream);
}

namespace harmonaize::testing {
namespace {

class ShimLive : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_ = std::make_unique<DaemonProcess>(); }
  static void TearDownTestSuite() { daemon_.reset(); }
  static inline std::unique_ptr<DaemonProcess> daemon_;
};

bool LastErrorHas(ncclComm_t comm, const char* part) {
  return std::string(ncclGetLastError(comm)).find(part) != std::string::npos;
}

TEST_F(ShimLive, AProfilerMayStandInFront) {
  RunAsThreads(1, [](int, ncclComm_t comm) {
    float value = 3;
    EXPECT_NCCL(ncclReduce(&value, &value, 1, ncclFloat, ncclSum, 0, comm, nullptr));
  });
  EXPECT_EQ(reduces_seen, 1);
}

TEST_F(ShimLive, TheScalarOfAnOperatorIsReadWhenItsResidenceSays) {
  RunAsThreads(2, [](int rank, ncclComm_t comm) {
    for (const bool at_once : {true, false}) {
      double scalar = rank + 1;
      ncclRedOp_t op;
      ASSERT_NCCL(ncclRedOpCreatePreMulSum(
          &op, &scalar, ncclDouble, at_once ? ncclScalarHostImmediate : ncclScalarDevice, comm));
      EXPECT_GE(op, ncclNumOps);
      scalar = 10 * (rank + 1);
      double value = 1;
      EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclDouble, op, comm, nullptr));
      EXPECT_EQ(value, at_once ? 3.0 : 30.0);
      EXPECT_NCCL(ncclRedOpDestroy(op, comm));
      EXPECT_EQ(ncclRedOpDestroy(op, comm), ncclInvalidArgument);
    }
    EXPECT_EQ(ncclRedOpDestroy(ncclMax, comm), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas(comm, "built in"));
  });
}

TEST_F(ShimLive, OperatorsArgumentsAreChecked) {
  RunAsThreads(1, [](int, ncclComm_t comm) {
    float scalar = 1;
    float value = 1;
    ncclRedOp_t op;
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, nullptr, ncclFloat, ncclScalarDevice, comm),
              ncclInvalidArgument);
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, static_cast<ncclDataType_t>(99),
                                       ncclScalarDevice, comm),
              ncclInvalidArgument);
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat,
                                       static_cast<ncclScalarResidence_t>(77), comm),
              ncclInvalidArgument);
    ASSERT_NCCL(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarDevice, comm));
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt, op, comm, nullptr), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas(comm, "made for float32")) << ncclGetLastError(comm);
    EXPECT_NCCL(ncclRedOpDestroy(op, comm));
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, op, comm, nullptr), ncclInvalidArgument);
  });
}

TEST_F(ShimLive, OperationsArgumentsAreNamed) {
  RunAsThreads(2, [](int rank, ncclComm_t comm) {
    float value[2] = {};
    EXPECT_EQ(ncclScatter(value, value, 1, ncclFloat, 2, comm, nullptr), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas(comm, "ncclScatter: root is 2, not in [0, 2)"));
    EXPECT_EQ(ncclRecv(value, 1, ncclFloat, 7, comm, nullptr), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas(comm, "peer is 7"));
    EXPECT_EQ(ncclAllGather(value, nullptr, 1, ncclFloat, comm, nullptr), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas(comm, "recvbuff is NULL"));
    EXPECT_EQ(ncclAlltoAll(value, value, SIZE_MAX / 4, ncclFloat, comm, nullptr),
              ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas(comm, "count is"));
    EXPECT_EQ(
        ncclAllReduce(value, value, 1, static_cast<ncclDataType_t>(99), ncclSum, comm, nullptr),
        ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas(comm, "datatype is 99"));
    // Buffers that a rank does not use, and any buffer of nothing, may be NULL.
    EXPECT_NCCL(
        ncclReduce(value, rank == 0 ? value : nullptr, 1, ncclFloat, ncclSum, 0, comm, nullptr));
    EXPECT_NCCL(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, comm, nullptr));
  });
}

TEST_F(ShimLive, DividingAndShrinkingCheckTheirArguments) {
  RunAsThreads(2, [](int rank, ncclComm_t comm) {
    ncclComm_t made = nullptr;
    EXPECT_EQ(ncclCommSplit(comm, -2, 0, &made, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclCommSplit(comm, 0, 0, nullptr, nullptr), ncclInvalidArgument);
    int self[] = {rank};
    EXPECT_EQ(ncclCommShrink(comm, self, 1, &made, nullptr, NCCL_SHRINK_DEFAULT),
              ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas(comm, "calling rank"));
    int twice[] = {1 - rank, 1 - rank};
    EXPECT_EQ(ncclCommShrink(comm, twice, 2, &made, nullptr, NCCL_SHRINK_DEFAULT),
              ncclInvalidArgument);
    EXPECT_EQ(ncclCommShrink(comm, twice, 1, &made, nullptr, 8), ncclInvalidArgument);
    EXPECT_EQ(ncclCommShrink(comm, twice, 0, &made, nullptr, 0), ncclInvalidArgument);
    EXPECT_EQ(ncclCommGrow(comm, 2, nullptr, -1, &made, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclCommRevoke(comm, 1), ncclInvalidArgument);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.minCTAs = -1;
    EXPECT_EQ(ncclCommSplit(comm, 0, 0, &made, &config), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas(comm, "config.minCTAs"));
  });
}

TEST_F(ShimLive, RegistrationsBelongToTheirCommunicator) {
  RunAsThreads(1, [](int, ncclComm_t comm) {
    alignas(4096) static char memory[8192];
    void* handle = nullptr;
    EXPECT_EQ(ncclCommRegister(comm, nullptr, 8, &handle), ncclInvalidArgument);
    EXPECT_EQ(ncclCommRegister(comm, memory, 0, &handle), ncclInvalidArgument);
    ASSERT_NCCL(ncclCommRegister(comm, memory, 8, &handle));
    EXPECT_NCCL(ncclCommDeregister(comm, handle));
    EXPECT_EQ(ncclCommDeregister(comm, handle), ncclInvalidArgument);
    ncclWindow_t window = nullptr;
    EXPECT_EQ(ncclCommWindowRegister(comm, memory + 8, 8, &window, NCCL_WIN_COLL_SYMMETRIC),
              ncclInvalidArgument);
    EXPECT_EQ(ncclCommWindowRegister(comm, memory, 8, &window, 64), ncclInvalidArgument);
    ASSERT_NCCL(ncclCommWindowRegister(comm, memory + 8, 8, &window, NCCL_WIN_DEFAULT));
    EXPECT_NCCL(ncclCommWindowDeregister(comm, window));
    // The communicator's end releases what is left.
    EXPECT_NCCL(ncclCommRegister(comm, memory, 8, &handle));
  });
}

TEST_F(ShimLive, AWindowKnowsItsAddress) {
  RunAsThreads(1, [](int, ncclComm_t comm) {
    alignas(4096) static char memory[8192];
    ncclWindow_t window = nullptr;
    ASSERT_NCCL(ncclCommWindowRegister(comm, memory, sizeof memory, &window,
                                       NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING));
    void* address = nullptr;
    EXPECT_NCCL(ncclWinGetUserPtr(comm, window, &address));
    EXPECT_EQ(address, memory);
    EXPECT_EQ(ncclWinGetUserPtr(comm, window, nullptr), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommWindowDeregister(comm, window));
    EXPECT_EQ(ncclWinGetUserPtr(comm, window, &address), ncclInvalidArgument);
  });
}

TEST_F(ShimLive, ASuspendedCommunicatorTakesNothingUntilItIsResumed) {
  RunAsThreads(2, [](int, ncclComm_t comm) {
    float value = 1;
    EXPECT_EQ(ncclCommSuspend(comm, 2), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
    EXPECT_NCCL(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr),
              ncclInvalidUsage);
    EXPECT_TRUE(LastErrorHas(comm, "call ncclCommResume first"));
    ncclComm_t made = nullptr;
    EXPECT_EQ(ncclCommSplit(comm, 0, 0, &made, nullptr), ncclInvalidUsage);
    uint64_t suspended = 0;
    EXPECT_NCCL(ncclCommMemStats(comm, ncclStatGpuMemSuspended, &suspended));
    EXPECT_EQ(suspended, 1u);
    EXPECT_NCCL(ncclCommResume(comm));
    EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_EQ(value, 2);
    EXPECT_NCCL(ncclCommMemStats(comm, ncclStatGpuMemSuspended, &suspended));
    EXPECT_EQ(suspended, 0u);
  });
}

TEST_F(ShimLive, TheMemoryOfACommunicatorIsThatOfItsInlinePath) {
  RunAsThreads(2, [](int, ncclComm_t comm) {
    uint64_t freed = 1;
    uint64_t stays = 0;
    uint64_t total = 0;
    EXPECT_NCCL(ncclCommMemStats(comm, ncclStatGpuMemSuspend, &freed));
    EXPECT_NCCL(ncclCommMemStats(comm, ncclStatGpuMemPersist, &stays));
    EXPECT_NCCL(ncclCommMemStats(comm, ncclStatGpuMemTotal, &total));
    EXPECT_EQ(freed, 0u);
    EXPECT_EQ(stays, InlineLayout(2).bytes());
    EXPECT_EQ(total, stays);
    EXPECT_EQ(ncclCommMemStats(comm, static_cast<ncclCommMemStat_t>(4), &total),
              ncclInvalidArgument);
    EXPECT_EQ(ncclCommMemStats(comm, ncclStatGpuMemTotal, nullptr), ncclInvalidArgument);
  });
}

TEST_F(ShimLive, EveryOperationTakesOptionsOfItsOwn) {
  RunAsThreads(2, [](int rank, ncclComm_t comm) {
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.maxCTAs = 4;
    config.userProfilerTag = 7;
    float one = static_cast<float>(rank + 1);
    float send[2] = {one, 10 * one};
    float receive[2] = {};
    EXPECT_NCCL(ncclAllReduceConfig(&one, receive, 1, ncclFloat, ncclSum, comm, nullptr, &config));
    EXPECT_EQ(receive[0], 3);
    EXPECT_NCCL(ncclBroadcastConfig(&one, receive, 1, ncclFloat, 1, comm, nullptr, &config));
    EXPECT_EQ(receive[0], 2);
    EXPECT_NCCL(ncclReduceConfig(&one, receive, 1, ncclFloat, ncclMax, 0, comm, nullptr, nullptr));
    EXPECT_EQ(receive[0], 2);
    EXPECT_NCCL(ncclAllGatherConfig(&one, receive, 1, ncclFloat, comm, nullptr, &config));
    EXPECT_EQ(receive[1], 2);
    EXPECT_NCCL(
        ncclReduceScatterConfig(send, receive, 1, ncclFloat, ncclSum, comm, nullptr, &config));
    EXPECT_EQ(receive[0], rank == 0 ? 3 : 30);
    EXPECT_NCCL(ncclAlltoAllConfig(send, receive, 1, ncclFloat, comm, nullptr, &config));
    EXPECT_EQ(receive[1], rank == 0 ? 2 : 20);
    EXPECT_NCCL(ncclGatherConfig(&one, receive, 1, ncclFloat, 0, comm, nullptr, &config));
    EXPECT_EQ(receive[1], rank == 0 ? 2 : 20);
    EXPECT_NCCL(ncclScatterConfig(send, receive, 1, ncclFloat, 1, comm, nullptr, &config));
    EXPECT_EQ(receive[0], rank == 0 ? 2 : 20);
  });
}

TEST_F(ShimLive, OptionsThatCannotBeMetAreRefused) {
  RunAsThreads(1, [](int, ncclComm_t comm) {
    float value = 1;
    const auto reduce = [&](const ncclCollConfig_t& config) {
      return ncclAllReduceConfig(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr, &config);
    };
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.algSelection = "ring";
    EXPECT_EQ(reduce(config), ncclInvalidUsage);
    EXPECT_TRUE(LastErrorHas(comm, "ncclAllReduceConfig: Harmonaize does not have NCCL's"));
    config.forceAlgSelection = 0;
    EXPECT_NCCL(reduce(config));
    config.launchCompletionEvent = reinterpret_cast<cudaEvent_t>(&value);
    EXPECT_EQ(reduce(config), ncclInvalidUsage);
    // An older structure, which ended before both.
    config.size = offsetof(ncclCollConfig_t, algSelection);
    EXPECT_NCCL(reduce(config));
    config.magic = 1;
    EXPECT_EQ(reduce(config), ncclInvalidArgument);
  });
}

/// The answer of ncclCommQueryProperties in NCCL 2.29.2, which was the first to have it.
struct FirstProperties {
  size_t size = sizeof(FirstProperties);
  unsigned magic = 0xcafebeef;
  unsigned version = 22902;
  int rank = -1, ranks = -1, device = -1, nvml_device = -1;
  bool device_side = true, multimem = true;
  int gin = -1;
};

TEST_F(ShimLive, PropertiesAreAnsweredAsFarAsTheCallersHeaderGoes) {
  RunAsThreads(2, [](int rank, ncclComm_t comm) {
    struct {
      FirstProperties known;
      int behind = 77;
    } answer;
    ASSERT_NCCL(ncclCommQueryProperties(comm, &answer.known));
    EXPECT_EQ(answer.known.rank, rank);
    EXPECT_EQ(answer.known.ranks, 2);
    EXPECT_FALSE(answer.known.device_side);
    EXPECT_FALSE(answer.known.multimem);
    EXPECT_EQ(answer.known.gin, 0);
    EXPECT_EQ(answer.behind, 77);
    EXPECT_EQ(answer.known.size, sizeof answer.known);
    answer.known.magic = 1;
    EXPECT_EQ(ncclCommQueryProperties(comm, &answer.known), ncclInvalidArgument);
    EXPECT_EQ(ncclCommQueryProperties(comm, nullptr), ncclInvalidArgument);
  });
}

TEST_F(ShimLive, Teams) {
  RunAsThreads(3, [](int rank, ncclComm_t comm) {
    const Team world = ncclTeamWorld(comm);
    EXPECT_EQ(world.ranks, 3);
    EXPECT_EQ(world.rank, rank);
    EXPECT_EQ(world.stride, 1);
    const Team host = ncclTeamLsa(comm);
    EXPECT_EQ(host.ranks, 3);
    EXPECT_EQ(host.rank, rank);
    const Team rail = ncclTeamRail(comm);
    EXPECT_EQ(rail.ranks, 1);
    EXPECT_EQ(rail.rank, 0);
    for (int other = 0; other < 3; ++other) {
      EXPECT_EQ(ncclTeamRankToWorld(comm, host, other), other);
      EXPECT_EQ(ncclTeamRankToLsa(comm, world, other), other);
    }
    EXPECT_EQ(ncclTeamRankToWorld(comm, rail, 0), rank);
  });
}

/// What `body` has logged of these subsystems.
std::string LogOf(const char* subsystems, const std::function<void()>& body) {
  const std::string path = ::testing::TempDir() + "shim_live." + std::to_string(getpid());
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_SUBSYS", subsystems, 1);
  setenv("NCCL_DEBUG_FILE", path.c_str(), 1);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  ncclResetDebugInit();
  body();
  for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) unsetenv(name);
  ncclResetDebugInit();
#pragma GCC diagnostic pop
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  unlink(path.c_str());
  return text.str();
}

/// How many of NCCL's INFO lines say this.
int NcclLines(const std::string& text, const std::string& expression) {
  return LinesLike(text, "[^ :]+:[0-9]+:[0-9]+ \\[[0-9]+\\] NCCL INFO " + expression);
}

TEST_F(ShimLive, TheLifeOfACommunicatorIsLoggedAsNcclLogsIt) {
  const std::string text = LogOf("INIT", [] {
    RunAsThreads(2, [](int rank, ncclComm_t comm) {
      ncclComm_t part = nullptr;
      ASSERT_NCCL(ncclCommSplit(comm, 4, 1 - rank, &part, nullptr));
      // Both are there before one leaves.
      float value = 0;
      EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr));
      EXPECT_NCCL(ncclCommAbort(part));
    });
    // In a group, and all at once.
    ncclComm_t comms[2] = {};
    EXPECT_NCCL(ncclCommInitAll(comms, 2, nullptr));
    for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
  });
  const std::string comm = "comm 0x[0-9a-f]+ ";
  const std::string device = "cudaDev [0-9]+ nvmlDev [0-9]+ busId 0 ";
  for (const std::string function : {"ncclCommInitRank", "ncclCommInitAll"}) {
    for (const std::string stage : {"START", "COMPLETE"}) {
      for (const std::string rank : {"0", "1"}) {
        EXPECT_EQ(NcclLines(text, function + " " + comm + "rank " + rank + " nranks 2 " + device +
                                      "commId 0x[0-9a-f]+ - Init " + stage),
                  1)
            << function << rank << stage << "\n"
            << text;
      }
    }
  }
  EXPECT_EQ(NcclLines(text, "ncclCommSplit " + comm + "rank [01] nranks 2 " + device +
                                "parent 0x[0-9a-f]+ childCount 0 color 4 key [01] - Init COMPLETE"),
            2)
      << text;
  const std::string who = comm + "rank [01] nranks 2 cudaDev [0-9]+ busId 0 - ";
  EXPECT_EQ(NcclLines(text, who + "Abort COMPLETE"), 2) << text;
  EXPECT_EQ(NcclLines(text, who + "Destroy COMPLETE"), 4) << text;
  // All ranks of a communicator tell the same id.
  const size_t id = text.find("commId 0x", text.find("ncclCommInitRank "));
  ASSERT_NE(id, std::string::npos) << text;
  const std::string of_first = text.substr(id, text.find(' ', id + 9) - id);
  EXPECT_EQ(NcclLines(text, "ncclCommInitRank .* " + of_first + " - Init COMPLETE"), 2) << text;
}

TEST_F(ShimLive, ANonBlockingCommunicatorIsCompleteWhenItIsSeenToBe) {
  const std::string text = LogOf("INIT", [] {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclUniqueId id;
    ASSERT_NCCL(ncclGetUniqueId(&id));
    ncclComm_t comms[2] = {};
    for (int rank = 0; rank < 2; ++rank) {
      ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config);
    }
    for (int look = 0; look < 3; ++look) {
      for (const ncclComm_t comm : comms) {
        ncclResult_t state = ncclInProgress;
        while (state == ncclInProgress) EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
      }
    }
    for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
  });
  EXPECT_EQ(NcclLines(text, "ncclCommInitRankConfig .* - Init START"), 2) << text;
  EXPECT_EQ(NcclLines(text, "ncclCommInitRankConfig .* - Init COMPLETE"), 2) << text;
}

TEST_F(ShimLive, OperationsAreLoggedAsNcclLogsThem) {
  const std::string text = LogOf("COLL,INIT", [] {
    RunAsThreads(1, [](int, ncclComm_t comm) {
      float value = 1;
      EXPECT_NCCL(ncclBroadcast(&value, &value, 1, ncclFloat, 0, comm, nullptr));
      EXPECT_NCCL(ncclBroadcast(&value, &value, 1, ncclFloat, 0, comm, nullptr));
      EXPECT_EQ(ncclBroadcast(&value, &value, 1, ncclFloat, 5, comm, nullptr), ncclInvalidArgument);
    });
  });
  for (const char* part :
       {"INFO Broadcast: opCount 0 sendbuff 0x", "INFO Broadcast: opCount 1 sendbuff 0x",
        " count 1 datatype 7 op 0 root 0 comm 0x", " [nranks=1] stream ", "[0] [harmonaize] INFO",
        "[0] NCCL INFO Broadcast", "WARN ncclBroadcast: root is 5", "rank 0 nranks 1"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

}  // namespace
}  // namespace harmonaize::testing
