// What the face answers without a daemon: its own checks, texts, and the refusals.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <limits>
#include <string>
#include <thread>

#include "include/harmonaize.h"

extern "C" ncclResult_t ncclDevCommCreate(ncclComm_t, const void*, void*);
extern "C" ncclResult_t ncclDevCommDestroy(ncclComm_t, const void*);
extern "C" ncclResult_t ncclLLA2ACreateRequirement(int, int, void*, void*);
extern "C" ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t, size_t, int, void**);

namespace {

bool LastErrorHas(const char* part) {
  return std::string(ncclGetLastError(nullptr)).find(part) != std::string::npos;
}

class ShimFace : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("HARMONAIZE_SOCKET", "/nonexistent/harmonaized.sock", 1);
    unsetenv("HARMONAIZE_FALLBACK");
    unsetenv("NCCL_COMM_ID");
  }
};

TEST_F(ShimFace, Version) {
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, 22809);
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
  EXPECT_TRUE(LastErrorHas("ncclGetVersion: version is NULL"));
  EXPECT_STRNE(hzGetVersion(), "");
}

TEST_F(ShimFace, EveryResultHasAText) {
  for (int result = ncclSuccess; result < ncclNumResults; ++result) {
    EXPECT_STRNE(ncclGetErrorString(static_cast<ncclResult_t>(result)), "");
  }
  EXPECT_STREQ(ncclGetErrorString(static_cast<ncclResult_t>(99)), "unknown result code");
}

TEST_F(ShimFace, WithoutADaemonTheSocketIsNamed) {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSystemError);
  EXPECT_TRUE(LastErrorHas("/nonexistent/harmonaized.sock")) << ncclGetLastError(nullptr);
  cudaStream_t stream = nullptr;
  EXPECT_EQ(hzStreamCreate(&stream), ncclSystemError);
  EXPECT_EQ(stream, nullptr);
}

TEST_F(ShimFace, NamedIdsNeedNoDaemonAndAreEqual) {
  setenv("NCCL_COMM_ID", "127.0.0.1:29500", 1);
  ncclUniqueId one;
  ncclUniqueId other;
  EXPECT_EQ(ncclGetUniqueId(&one), ncclSuccess);
  EXPECT_EQ(ncclGetUniqueId(&other), ncclSuccess);
  EXPECT_EQ(std::string(one.internal, sizeof one), std::string(other.internal, sizeof other));
  unsetenv("NCCL_COMM_ID");
}

TEST_F(ShimFace, ANameThatIsNoAddressIsRefused) {
  setenv("NCCL_COMM_ID", "no-port", 1);
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclInvalidArgument);
  EXPECT_TRUE(LastErrorHas("ncclGetUniqueId: NCCL_COMM_ID is 'no-port'"))
      << ncclGetLastError(nullptr);
  unsetenv("NCCL_COMM_ID");
}

TEST_F(ShimFace, ArgumentsAreCheckedByName) {
  ncclComm_t comm = nullptr;
  ncclUniqueId id = {};
  EXPECT_EQ(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument);
  EXPECT_TRUE(LastErrorHas("comm is NULL"));
  EXPECT_EQ(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
  EXPECT_TRUE(LastErrorHas("nranks is 0"));
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
  EXPECT_TRUE(LastErrorHas("rank is 2, not in [0, 2)"));
  ncclConfig_t config = {};
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInvalidArgument);
  EXPECT_TRUE(LastErrorHas("NCCL_CONFIG_INITIALIZER"));
  EXPECT_EQ(ncclCommInitRankScalable(&comm, 2, 0, 3, &id, nullptr), ncclInvalidArgument);
  EXPECT_TRUE(LastErrorHas("nId is 3"));
  // An id that nobody made.
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclInvalidArgument);
  EXPECT_EQ(comm, nullptr);
  const int devices[] = {0, 1, 0};
  ncclComm_t comms[3] = {};
  EXPECT_EQ(ncclCommInitAll(comms, 3, devices), ncclInvalidUsage);
  EXPECT_TRUE(LastErrorHas("device 0 at 0 and at 2"));
  EXPECT_EQ(ncclCommInitAll(comms, 0, nullptr), ncclInvalidArgument);
}

TEST_F(ShimFace, NullCommunicators) {
  float buffer[4] = {};
  int number = 0;
  EXPECT_EQ(ncclAllReduce(buffer, buffer, 4, ncclFloat, ncclSum, nullptr, nullptr),
            ncclInvalidArgument);
  EXPECT_TRUE(LastErrorHas("ncclAllReduce: comm is NULL"));
  EXPECT_EQ(ncclCommCount(nullptr, &number), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpDestroy(ncclSum, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommFinalize(nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(nullptr), ncclSuccess);
}

TEST_F(ShimFace, StreamsOfOthersAreRefused) {
  int nothing = 0;
  const auto stream = reinterpret_cast<cudaStream_t>(&nothing);
  EXPECT_EQ(hzStreamSynchronize(nullptr), ncclInvalidArgument);
  EXPECT_EQ(hzStreamQuery(stream), ncclInvalidArgument);
  EXPECT_EQ(hzStreamDestroy(stream), ncclInvalidArgument);
  EXPECT_TRUE(LastErrorHas("hzStreamCreate"));
}

TEST_F(ShimFace, Groups) {
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  // What fails inside is told at the end again.
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, nullptr, nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
}

TEST_F(ShimFace, SimulationOfNothing) {
  ncclSimInfo_t simulation = NCCL_SIM_INFO_INITIALIZER;
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupSimulateEnd(&simulation), ncclSuccess);
  EXPECT_EQ(simulation.estimatedTime, 0.0f);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  ncclSimInfo_t raw = {};
  EXPECT_EQ(ncclGroupSimulateEnd(&raw), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
}

TEST_F(ShimFace, Memory) {
  void* memory = &memory;
  EXPECT_EQ(ncclMemAlloc(&memory, 0), ncclSuccess);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(ncclMemFree(nullptr), ncclSuccess);
  EXPECT_EQ(ncclMemAlloc(nullptr, 8), ncclInvalidArgument);
  ASSERT_EQ(ncclMemAlloc(&memory, 100), ncclSuccess);
  static_cast<char*>(memory)[99] = 1;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u);
  EXPECT_EQ(ncclMemFree(static_cast<char*>(memory) + 1), ncclInvalidArgument);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  EXPECT_EQ(ncclMemFree(memory), ncclInvalidArgument);
  EXPECT_NE(ncclMemAlloc(&memory, std::numeric_limits<size_t>::max()), ncclSuccess);
  EXPECT_EQ(memory, nullptr);
}

TEST_F(ShimFace, DeviceSideIsRefused) {
  EXPECT_EQ(ncclDevCommCreate(nullptr, nullptr, nullptr), ncclInvalidUsage);
  EXPECT_TRUE(
      LastErrorHas("ncclDevCommCreate: Harmonaize does not have communication from inside GPU "
                   "kernels, which needs GPUs: call the operations of nccl.h from the host"));
  void* pointer = nullptr;
  EXPECT_EQ(ncclGetPeerDevicePointer(nullptr, 0, 0, &pointer), ncclInvalidUsage);
  EXPECT_EQ(ncclDevCommDestroy(nullptr, nullptr), ncclInvalidUsage);
  EXPECT_EQ(ncclLLA2ACreateRequirement(1, 1, nullptr, nullptr), ncclInvalidUsage);
}

TEST_F(ShimFace, OneSidedOperationsNameTheWayOut) {
  ncclWaitSignalDesc_t wait = {};
  EXPECT_EQ(ncclPutSignal(nullptr, 0, ncclInt8, 0, nullptr, 0, 0, 0, 0, nullptr, nullptr),
            ncclInvalidUsage);
  EXPECT_EQ(ncclWaitSignal(1, &wait, nullptr, nullptr), ncclInvalidUsage);
  EXPECT_EQ(ncclSignal(0, 0, 0, 0, nullptr, nullptr), ncclInvalidUsage);
  EXPECT_TRUE(
      LastErrorHas("ncclSignal: Harmonaize does not have one-sided operations: send with "
                   "ncclSend, and receive with ncclRecv, in one group"));
}

TEST_F(ShimFace, EncryptionIsTheProviders) {
  ncclEncryptionConfig_t config = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  EXPECT_EQ(ncclSetEncryption(&config), ncclSuccess);
  config.mode = NCCL_ENCRYPTION_MODE_PSK;
  config.psk = "secret";
  EXPECT_EQ(ncclSetEncryption(&config), ncclInvalidUsage);
  EXPECT_TRUE(LastErrorHas("ask the provider"));
  config.magic = 0;
  EXPECT_EQ(ncclSetEncryption(&config), ncclInvalidArgument);
  EXPECT_EQ(ncclSetEncryption(nullptr), ncclInvalidArgument);
}

TEST_F(ShimFace, AParameterIsReadByNameAndByHandle) {
  setenv("HARMONAIZE_DAEMON_TIMEOUT", "300", 1);
  const char* text = nullptr;
  int length = 0;
  EXPECT_EQ(ncclParamGetParameter("HARMONAIZE_DAEMON_TIMEOUT", &text, &length), ncclSuccess);
  EXPECT_STREQ(text, "300");
  EXPECT_EQ(length, 3);
  ncclParamHandle_t handle = nullptr;
  ASSERT_EQ(ncclParamBind(&handle, "HARMONAIZE_DAEMON_TIMEOUT"), ncclSuccess);
  EXPECT_EQ(ncclParamGetStr(handle, &text), ncclSuccess);
  EXPECT_STREQ(text, "300");
  int16_t small = 0;
  EXPECT_EQ(ncclParamGetI16(handle, &small), ncclSuccess);
  EXPECT_EQ(small, 300);
  uint64_t large = 0;
  EXPECT_EQ(ncclParamGetU64(handle, &large), ncclSuccess);
  EXPECT_EQ(large, 300u);
  char bytes[4] = {};
  EXPECT_EQ(ncclParamGet(handle, bytes, 4, &length), ncclSuccess);
  EXPECT_STREQ(bytes, "300");
  EXPECT_EQ(length, 4);
  unsetenv("HARMONAIZE_DAEMON_TIMEOUT");
  EXPECT_EQ(ncclParamGetStr(handle, &text), ncclSuccess);
  EXPECT_STREQ(text, "") << "not set";
}

TEST_F(ShimFace, AParameterIsNotCutShort) {
  setenv("HARMONAIZE_DAEMON_TIMEOUT", "300", 1);
  ncclParamHandle_t handle = nullptr;
  ASSERT_EQ(ncclParamBind(&handle, "HARMONAIZE_DAEMON_TIMEOUT"), ncclSuccess);
  int8_t tiny = 7;
  EXPECT_EQ(ncclParamGetI8(handle, &tiny), ncclInvalidArgument);
  EXPECT_TRUE(
      LastErrorHas("HARMONAIZE_DAEMON_TIMEOUT is '300', not a whole number from -128 to "
                   "127"))
      << ncclGetLastError(nullptr);
  EXPECT_EQ(tiny, 7);
  char bytes[3] = {};
  int length = 9;
  EXPECT_EQ(ncclParamGet(handle, bytes, 3, &length), ncclInvalidArgument);
  EXPECT_EQ(ncclParamGet(handle, bytes, -1, &length), ncclInvalidArgument);
  EXPECT_EQ(length, 0);
  EXPECT_EQ(bytes[0], '\0');
  unsetenv("HARMONAIZE_DAEMON_TIMEOUT");
}

TEST_F(ShimFace, UnknownParametersAreRefused) {
  ncclParamHandle_t handle = nullptr;
  EXPECT_EQ(ncclParamBind(&handle, "NCCL_IB_HCA"), ncclInvalidArgument);
  EXPECT_TRUE(LastErrorHas("Harmonaize reads no variable NCCL_IB_HCA"));
  EXPECT_EQ(handle, nullptr);
  const char* text = "before";
  int length = 9;
  EXPECT_EQ(ncclParamGetParameter("NCCL_IB_HCA", &text, &length), ncclInvalidArgument);
  EXPECT_EQ(text, nullptr);
  EXPECT_EQ(length, 0);
  // A handle that nobody made.
  EXPECT_EQ(ncclParamGetStr(reinterpret_cast<ncclParamHandle_t>(&length), &text),
            ncclInvalidArgument);
}

TEST_F(ShimFace, EveryListedParameterCanBeBound) {
  const char** names = nullptr;
  int count = 0;
  ASSERT_EQ(ncclParamGetAllParameterKeys(&names, &count), ncclSuccess);
  ASSERT_GE(count, 16);
  for (int i = 0; i < count; ++i) {
    ncclParamHandle_t handle = nullptr;
    EXPECT_EQ(ncclParamBind(&handle, names[i]), ncclSuccess) << names[i];
    if (i == 0) continue;
    EXPECT_LT(std::string(names[i - 1]), names[i]);
  }
  ncclParamDumpAll();
}

TEST_F(ShimFace, ErrorsBelongToTheirThread) {
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
  std::thread([] {
    // A thread without an error of its own is told of the process's last: watchdogs ask so.
    EXPECT_TRUE(LastErrorHas("version is NULL"));
    int device = 0;
    EXPECT_EQ(ncclCommCuDevice(nullptr, &device), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas("ncclCommCuDevice"));
  }).join();
  EXPECT_TRUE(LastErrorHas("version is NULL"));
}

}  // namespace
