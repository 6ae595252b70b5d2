// HARMONAIZE_FALLBACK=nccl. The choice is made once in a process, so each test makes it in a child.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "include/harmonaize.h"

struct Team {
  int ranks, rank, stride;
};
extern "C" Team ncclTeamWorld(ncclComm_t);

namespace {

#define CHILD_EXPECT(condition)                                                        \
  do {                                                                                 \
    if (!(condition)) {                                                                \
      std::fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, \
                   ncclGetLastError(nullptr));                                         \
      _exit(1);                                                                        \
    }                                                                                  \
  } while (false)

/// Whether `body` ran to its end in a child process whose environment names `library`.
bool RunsInChild(const char* fallback, const char* library, const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("HARMONAIZE_SOCKET", "/nonexistent/harmonaized.sock", 1);
    setenv("HARMONAIZE_FALLBACK", fallback, 1);
    setenv("HARMONAIZE_NCCL_LIBRARY", library, 1);
    body();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string StockCalls() {
  void* stock = dlopen(FAKE_STOCK, RTLD_NOW | RTLD_NOLOAD);
  if (stock == nullptr) return "not loaded";
  const auto calls = reinterpret_cast<const char* (*)()>(dlsym(stock, "FakeStockCalls"));
  return calls();
}

bool LastErrorHas(const char* part) {
  return std::string(ncclGetLastError(nullptr)).find(part) != std::string::npos;
}

TEST(ShimFallback, EveryCallGoesToStock) {
  EXPECT_TRUE(RunsInChild("nccl", FAKE_STOCK, [] {
    ncclUniqueId id = {};
    int version = 0;
    CHILD_EXPECT(ncclGetVersion(&version) == ncclSuccess && version == 22703);
    CHILD_EXPECT(ncclGroupStart() == ncclRemoteError);
    CHILD_EXPECT(ncclGetUniqueId(&id) == ncclRemoteError);
    CHILD_EXPECT(id.internal[0] == 'F');
    id.internal[127] = 'L';
    ncclComm_t comm = nullptr;
    CHILD_EXPECT(ncclCommInitRank(&comm, 3, id, 2) == ncclRemoteError);
    CHILD_EXPECT(comm != nullptr);
    int64_t buffer[5] = {};
    CHILD_EXPECT(ncclReduce(buffer, buffer, 5, ncclInt64, ncclMin, 1, comm,
                            reinterpret_cast<cudaStream_t>(buffer)) == ncclRemoteError);
    void* memory = nullptr;
    CHILD_EXPECT(ncclMemAlloc(&memory, 8) == ncclRemoteError);
    CHILD_EXPECT(ncclMemFree(buffer) == ncclRemoteError);
    CHILD_EXPECT(ncclCommDestroy(comm) == ncclRemoteError);
    const Team team = ncclTeamWorld(comm);
    CHILD_EXPECT(team.ranks == 11 && team.rank == 12 && team.stride == 13);
    CHILD_EXPECT(ncclGroupEnd() == ncclRemoteError);
    CHILD_EXPECT(LastErrorHas("the fake's last error"));
    CHILD_EXPECT(StockCalls() ==
                 "ncclGroupStart ncclGetUniqueId ncclCommInitRank ncclReduce ncclMemAlloc "
                 "ncclMemFree ncclCommDestroy ncclTeamWorld ncclGroupEnd ");
  }));
}

TEST(ShimFallback, WhatStockLacksIsAnError) {
  EXPECT_TRUE(RunsInChild("nccl", FAKE_STOCK, [] {
    CHILD_EXPECT(ncclAlltoAll(nullptr, nullptr, 0, ncclInt8, nullptr, nullptr) == ncclInvalidUsage);
    CHILD_EXPECT(ncclCommGrow(nullptr, 2, nullptr, 0, nullptr, nullptr) == ncclInvalidUsage);
    cudaStream_t stream = nullptr;
    CHILD_EXPECT(hzStreamCreate(&stream) == ncclInvalidUsage);
  }));
}

TEST(ShimFallback, ThreadsAgreeOnTheChoice) {
  EXPECT_TRUE(RunsInChild("nccl", FAKE_STOCK, [] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] { CHILD_EXPECT(ncclGroupStart() == ncclRemoteError); });
    }
    for (std::thread& thread : threads) thread.join();
    CHILD_EXPECT(StockCalls() == "ncclGroupStart ncclGroupStart ncclGroupStart ncclGroupStart ");
  }));
}

TEST(ShimFallback, OurselvesAreNotStock) {
  EXPECT_TRUE(RunsInChild("nccl", OURS, [] {
    ncclUniqueId id;
    CHILD_EXPECT(ncclGetUniqueId(&id) == ncclSystemError);
    CHILD_EXPECT(LastErrorHas("/nonexistent/harmonaized.sock"));
  }));
}

TEST(ShimFallback, OurselvesByTheNameOfStockAreNotStockEither) {
  EXPECT_TRUE(RunsInChild("nccl", "libnccl.so.2", [] {
    ncclUniqueId id;
    CHILD_EXPECT(ncclGetUniqueId(&id) == ncclSystemError);
  }));
}

TEST(ShimFallback, NeverUnlessAsked) {
  for (const char* fallback : {"", "none", "nvidia"}) {
    EXPECT_TRUE(RunsInChild(fallback, FAKE_STOCK, [] {
      ncclUniqueId id;
      CHILD_EXPECT(ncclGetUniqueId(&id) == ncclSystemError);
      CHILD_EXPECT(LastErrorHas("/nonexistent/harmonaized.sock"));
      CHILD_EXPECT(StockCalls() == "not loaded");
    })) << fallback;
  }
}

TEST(ShimFallback, FoundInTheLoadersPath) {
  const std::string file = FAKE_STOCK;
  const std::string directory = file.substr(0, file.rfind('/'));
  const std::string own = OURS;
  // Our own directory stands first, as it does in a program that was started with it.
  const std::string path = own.substr(0, own.rfind('/')) + ":" + directory;
  EXPECT_TRUE(RunsInChild("nccl", "", [&] {
    setenv("LD_LIBRARY_PATH", path.c_str(), 1);
    CHILD_EXPECT(ncclGroupStart() == ncclRemoteError);
  }));
}

}  // namespace
