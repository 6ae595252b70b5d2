// Checkpoints under users who speak the daemon's protocol by hand.

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/ipc/messages.h"
#include "tests/integration/saving_ranks.h"
#include "tests/support/daemon_process.h"
#include "tests/support/eventually.h"
#include "tests/support/hostile_session.h"
#include "tests/support/other_users.h"

namespace harmonaize::testing {
namespace {

HelloRequest HelloOf(const std::string& job) {
  HelloRequest hello;
  SetFieldText(hello.job_name, job);
  return hello;
}

/// Returns a memfd that can be lent.
FileDescriptor MakeMemory(uint64_t bytes, int seals = F_SEAL_SHRINK) {
  FileDescriptor memory(memfd_create("lent", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(memory.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(memory.get(), F_ADD_SEALS, seals), 0);
  return memory;
}

/// A process of a job that lends buffers and saves parts by hand.
class HandSaver {
 public:
  HandSaver(const DaemonProcess& daemon, const std::string& name, const std::string& job,
            int ranks = 1)
      : session_(daemon.socket_path(), HelloOf(job)) {
    for (int rank = 0; rank < ranks; ++rank) {
      members_.push_back(session_.Join(name, ranks, rank));
    }
    for (const uint32_t member : members_) EXPECT_TRUE(session_.WaitUntilReady(member));
  }

  HostileSession& session() { return session_; }
  uint32_t member(int rank = 0) const { return members_[static_cast<size_t>(rank)]; }

  Result<uint32_t> Lend(int rank, uint64_t bytes) {
    return LendFile(rank, MakeMemory(bytes).get(), bytes);
  }
  Result<uint32_t> LendFile(int rank, int descriptor, uint64_t bytes) {
    LendBufferRequest lend;
    lend.bytes = bytes;
    lend.member = member(rank);
    HZ_RETURN_IF_ERROR(session_.Ask(lend, std::span(&descriptor, 1)));
    return session_.LastReply<LendBufferReply>().buffer;
  }
  Result<BeginSaveReply> Begin(uint32_t buffer, uint64_t step) {
    BeginSaveRequest begin;
    begin.buffer = buffer;
    begin.step = step;
    HZ_RETURN_IF_ERROR(session_.Ask(begin));
    return session_.LastReply<BeginSaveReply>();
  }
  Status Commit(uint32_t buffer, uint64_t bytes, uint32_t flags = 0) {
    CommitSaveRequest commit;
    commit.buffer = buffer;
    commit.bytes = bytes;
    commit.flags = flags;
    return session_.Ask(commit);
  }

 private:
  HostileSession session_;
  std::vector<uint32_t> members_;
};

constexpr uint64_t kBytes = 64 << 10;

TEST(HostileCheckpoints, NobodyReachesAnothersPartByNumbersThatItGuesses) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const DaemonProcess daemon;
  std::filesystem::permissions(daemon.folder(), std::filesystem::perms(0755));
  HandSaver saver(daemon, "a", "train");
  const Result<uint32_t> buffer = saver.Lend(0, kBytes);
  ASSERT_TRUE(buffer.ok()) << buffer.status().message();
  const Result<BeginSaveReply> begun = saver.Begin(*buffer, 7);
  ASSERT_TRUE(begun.ok() && begun->waits == 0);
  ASSERT_TRUE(saver.Commit(*buffer, kBytes).ok());
  // Returns the bytes of the part, as this session sees it.
  const auto bytes_seen_by = [&](HandSaver& other) {
    OpenPartRequest open;
    open.member = other.member();
    open.save = begun->save;
    EXPECT_TRUE(other.session().Ask(open).ok());
    return other.session().LastReply<OpenPartReply>().bytes;
  };
  const auto expect_out_of_reach = [&](HandSaver& other) {
    for (uint32_t guess = 0; guess < 2 * *buffer + 8; ++guess) {
      ReturnBufferRequest give_back;
      give_back.buffer = guess;
      EXPECT_FALSE(other.session().Ask(give_back).ok()) << guess;
      EXPECT_FALSE(other.Begin(guess, 8).ok()) << guess;
      EXPECT_FALSE(other.Commit(guess, kBytes).ok()) << guess;
    }
    for (const uint32_t member : {other.member() + 1, kNoMember}) {
      OpenPartRequest open;
      open.member = member;
      open.save = begun->save;
      EXPECT_FALSE(other.session().Ask(open).ok());
      SavedRequest saved;
      saved.member = member;
      EXPECT_FALSE(other.session().Ask(saved).ok());
    }
  };
  const auto expect_unseen = [&](HandSaver& other) {
    EXPECT_EQ(bytes_seen_by(other), 0u);
    FetchPartRequest fetch;
    fetch.member = other.member();
    fetch.save = begun->save;
    fetch.bytes = 1;
    EXPECT_FALSE(other.session().Ask(fetch).ok());
  };
  const pid_t stranger = StartAs(kAlice, [&] {
    HandSaver alice(daemon, "b", "train");
    expect_out_of_reach(alice);
    expect_unseen(alice);
    return 0;
  });
  EXPECT_EQ(StatusOf(stranger), 0);
  HandSaver other_job(daemon, "c", "another");
  expect_out_of_reach(other_job);
  expect_unseen(other_job);
  HandSaver other_process(daemon, "d", "train");
  expect_out_of_reach(other_process);
  EXPECT_EQ(bytes_seen_by(other_process), kBytes);
}

TEST(HostileCheckpoints, WhatIsNoMemoryOfTheProcessesOwnIsNotTaken) {
  const DaemonProcess daemon;
  HandSaver saver(daemon, "a", "train");
  const auto expect_refused = [&](const char* what, FileDescriptor file, uint64_t bytes = kBytes) {
    ASSERT_TRUE(file.valid()) << what;
    EXPECT_FALSE(saver.LendFile(0, file.get(), bytes).ok()) << what;
  };
  const auto opened = [](const char* path, int flags) {
    FileDescriptor file(open(path, flags | O_CLOEXEC, 0600));
    return file;
  };
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor written(ends[1]);
  expect_refused("a pipe", FileDescriptor(ends[0]));
  expect_refused("a device", opened("/dev/zero", O_RDWR));
  expect_refused("a folder", opened("/dev/shm", O_RDONLY | O_DIRECTORY));
  expect_refused("a file of tmpfs", opened("/dev/shm", O_RDWR | O_TMPFILE));
  expect_refused("a file of a disk", opened(::testing::TempDir().c_str(), O_RDWR | O_TMPFILE));
  const FileDescriptor memory = MakeMemory(kBytes);
  const std::string path = fmt::format("/proc/self/fd/{}", memory.get());
  expect_refused("a place in the tree", opened(path.c_str(), O_PATH));
  expect_refused("memory that cannot be written", opened(path.c_str(), O_RDONLY));
  expect_refused("memory that can shrink", MakeMemory(kBytes, F_SEAL_GROW));
  expect_refused("memory that cannot be sealed", MakeMemory(kBytes, F_SEAL_SHRINK | F_SEAL_SEAL));
  expect_refused("memory that is sealed already", MakeMemory(kBytes, F_SEAL_SHRINK | F_SEAL_WRITE));
  expect_refused("memory that ends before", MakeMemory(kBytes - 1));
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 63, UINT64_MAX}) {
    expect_refused("a size that cannot be", MakeMemory(kBytes), bytes);
  }
  // Sparse memory costs nothing, and counts in full.
  expect_refused("more than may be", MakeMemory(uint64_t{1} << 46), uint64_t{1} << 46);
  LendBufferRequest lend;
  lend.bytes = kBytes;
  lend.member = saver.member();
  EXPECT_FALSE(saver.session().Ask(lend).ok()) << "no memory";
  const int two[] = {memory.get(), memory.get()};
  EXPECT_FALSE(saver.session().Ask(lend, two).ok()) << "two of them";
  ASSERT_TRUE(saver.LendFile(0, memory.get(), kBytes).ok());
  EXPECT_NE(ftruncate(memory.get(), 1), 0);
  EXPECT_NE(fallocate(memory.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBytes), 0);
  EXPECT_EQ(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0), MAP_FAILED);
  EXPECT_FALSE(saver.LendFile(0, memory.get(), kBytes).ok()) << "a second time";
}

TEST(HostileCheckpoints, PartsAreSavedInOrderAndOnceInARound) {
  const DaemonProcess daemon;
  HandSaver saver(daemon, "a", "train", 2);
  const Result<uint32_t> one = saver.Lend(0, kBytes);
  const Result<uint32_t> another = saver.Lend(0, kBytes);
  const Result<uint32_t> of_second = saver.Lend(1, kBytes);
  ASSERT_TRUE(one.ok() && another.ok() && of_second.ok());
  EXPECT_FALSE(saver.Commit(*one, kBytes).ok()) << "nothing was begun";
  EXPECT_FALSE(saver.Begin(*one, uint64_t{1} << 63).ok()) << "no such step";
  for (const uint32_t buffer : {*one, *another, *of_second}) {
    ASSERT_TRUE(saver.Begin(buffer, INT64_MAX).ok());
  }
  EXPECT_FALSE(saver.Commit(*one, kBytes + 1).ok()) << "more than the buffer has";
  EXPECT_FALSE(saver.Commit(*one, UINT64_MAX).ok());
  EXPECT_TRUE(saver.Commit(*one, 0).ok()) << "a rank may have nothing";
  EXPECT_FALSE(saver.Commit(*one, kBytes).ok()) << "a second time";
  EXPECT_FALSE(saver.Commit(*another, kBytes).ok()) << "in another buffer";
  const Result<BeginSaveReply> early = saver.Begin(*another, 1);
  EXPECT_TRUE(early.ok() && early->waits != 0) << "before the others have theirs";
  EXPECT_TRUE(saver.Commit(*of_second, kBytes).ok());
  EXPECT_FALSE(saver.Begin(*one, 1).ok()) << "over the newest";
  SavedRequest ask;
  ask.member = saver.member();
  ASSERT_TRUE(saver.session().Ask(ask).ok());
  EXPECT_EQ(saver.session().LastReply<SavedReply>().round, 1u);
}

TEST(HostileCheckpoints, FewCheckpointsWaitForPartsThatNobodyStores) {
  const StoreFolder store;
  const DaemonProcess daemon(fmt::format("[checkpoint]\nstore = \"{}\"\n", store.path()));
  HandSaver saver(daemon, "a", "train", 2);
  const Result<uint32_t> turns[] = {saver.Lend(1, 1), saver.Lend(1, 1)};
  const auto outcome = [&] {
    SavedRequest ask;
    ask.member = saver.member();
    EXPECT_TRUE(saver.session().Ask(ask).ok());
    return saver.session().LastReply<SavedReply>();
  };
  constexpr int kMostFollowed = 1024;
  for (int round = 0; round < kMostFollowed + 2; ++round) {
    if (round == kMostFollowed) {
      EXPECT_EQ(outcome().not_stored, 0u);
    }
    // Rank 0 wants it stored, and takes its part away before anybody can.
    const Result<uint32_t> buffer = saver.Lend(0, 1);
    ASSERT_TRUE(buffer.ok()) << buffer.status().message();
    ASSERT_TRUE(saver.Begin(*buffer, 1).ok());
    ASSERT_TRUE(saver.Commit(*buffer, 1, kSaveToStore).ok());
    ReturnBufferRequest give_back;
    give_back.buffer = *buffer;
    ASSERT_TRUE(saver.session().Ask(give_back).ok());
    ASSERT_TRUE(saver.Begin(*turns[round % 2], 1).ok());
    ASSERT_TRUE(saver.Commit(*turns[round % 2], 1).ok());
  }
  EXPECT_TRUE(Eventually(30, [&] { return (outcome().not_stored & 3) == 3; }));
}

}  // namespace
}  // namespace harmonaize::testing
