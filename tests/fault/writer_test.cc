// harmonaize-writer as ranks start it: what it writes, what it says, and what it makes of ranks
// that end, disks that are full, and words that nobody should say.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/checkpoint/stored_checkpoint.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/http_socket.h"
#include "tests/support/eventually.h"
#include "tests/support/stored_model.h"
#include "tests/support/writer_process.h"

namespace harmonaize::testing {
namespace {

using checkpoint::ListCheckpoints;
using checkpoint::OpenStore;
using checkpoint::PartIdentity;
using checkpoint::PartWritten;
using checkpoint::SaveFailed;

class WriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    AdoptOrphans();
    std::string pattern = ::testing::TempDir() + "harmonaize-writer-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    above_ = pattern;
    options_ = {.folder = above_ + "/store", .job = "", .linger_seconds = 30};
  }
  void TearDown() override {
    for (const pid_t child : Children()) Kill(child);
    std::error_code ignored;
    std::filesystem::remove_all(above_, ignored);
  }

  std::unique_ptr<WriterProcess> StartWriter(int32_t rank = 0, int32_t ranks = 1) {
    options_.rank = rank;
    options_.ranks = ranks;
    Result<std::unique_ptr<WriterProcess>> writer = WriterProcess::Start(options_);
    EXPECT_TRUE(writer.ok()) << writer.status().ToString();
    return writer.ok() ? std::move(*writer) : nullptr;
  }
  static Status SaveTo(WriterProcess* writer, uint64_t step, int32_t rank = 0, int32_t ranks = 1) {
    const PartIdentity identity = {.step = step, .save = step, .rank = rank, .ranks = ranks};
    return writer->Save(identity, ModelImage(identity));
  }
  /// Returns the writer's process, of which there has to be one.
  static pid_t TheWriter() {
    // It is the last of three: the first is in this session, and the second leads a session of its
    // own.
    pid_t writer = 0;
    EXPECT_TRUE(Eventually(60, [&writer] {
      while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
      const std::vector<pid_t> children = Children();
      if (children.size() != 1) return false;
      writer = children.front();
      const pid_t session = getsid(writer);
      return session != writer && session != getsid(0);
    }));
    return writer;
  }

  std::string above_;
  OpenStore options_;
};

TEST_F(WriterTest, FourRanksSaveAndAnyNumberLoads) {
  std::vector<std::unique_ptr<WriterProcess>> writers;
  for (int rank = 0; rank < 4; ++rank) writers.push_back(StartWriter(rank, 4));
  for (const uint64_t step : {10, 20, 30}) {
    for (int rank = 0; rank < 4; ++rank) {
      ASSERT_TRUE(SaveTo(writers[static_cast<size_t>(rank)].get(), step, rank, 4).ok());
    }
    for (const auto& writer : writers) {
      const Status status = writer->WaitForCommit(step);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }
  for (const int ranks : {3, 2, 6}) {
    const Status status = CheckModel(options_.folder, {}, ranks);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  // Of three, two stay.
  EXPECT_TRUE(Eventually(60, [&] { return ListCheckpoints(options_.folder)->size() == 2; }));
  writers.clear();
  for (const pid_t child : Children()) EXPECT_EQ(WaitFor(child), 0);
}

TEST_F(WriterTest, GoesOnWithoutItsRank) {
  options_.most_bytes_per_second = 10'000'000;
  std::unique_ptr<WriterProcess> writer = StartWriter();
  ASSERT_TRUE(SaveTo(writer.get(), 1).ok());
  ASSERT_TRUE(SaveTo(writer.get(), 2).ok());
  const pid_t process = TheWriter();
  writer.reset();
  EXPECT_EQ(WaitFor(process), 0);
  EXPECT_EQ(ListCheckpoints(options_.folder)->size(), 2u);
  EXPECT_TRUE(CheckModel(options_.folder, {}, 1).ok());
}

TEST_F(WriterTest, EndsWhenTimeIsUpAlthoughAPartIsMissing) {
  options_.linger_seconds = 0;
  std::unique_ptr<WriterProcess> writer = StartWriter(0, 2);
  ASSERT_TRUE(SaveTo(writer.get(), 1, 0, 2).ok());
  ASSERT_TRUE(std::holds_alternative<PartWritten>(*writer->Next()));
  const pid_t process = TheWriter();
  writer.reset();
  EXPECT_EQ(WaitFor(process), 0);
  // It was the only one at the folder, so nothing of it is left.
  EXPECT_TRUE(ListCheckpoints(options_.folder)->empty());
}

TEST_F(WriterTest, OneRankThatFailsIsToldToTheOthers) {
  std::unique_ptr<WriterProcess> first = StartWriter(0, 2);
  std::unique_ptr<WriterProcess> second = StartWriter(1, 2);
  ASSERT_TRUE(SaveTo(first.get(), 1, 0, 2).ok());
  // It is at the folder before the other one, which would leave nothing of it otherwise.
  ASSERT_TRUE(std::holds_alternative<PartWritten>(*first->Next()));
  // The second rank hands over another rank's part.
  ASSERT_TRUE(SaveTo(second.get(), 1, 0, 2).ok());
  EXPECT_EQ(second->WaitForCommit(1).code(), Code::kInvalidArgument);
  EXPECT_EQ(first->WaitForCommit(1).code(), Code::kRemoteError);
  EXPECT_TRUE(Eventually(60, [&] { return ListCheckpoints(options_.folder)->empty(); }));
  // Both go on.
  ASSERT_TRUE(SaveTo(first.get(), 2, 0, 2).ok());
  ASSERT_TRUE(SaveTo(second.get(), 2, 1, 2).ok());
  EXPECT_TRUE(first->WaitForCommit(2).ok());
  EXPECT_TRUE(second->WaitForCommit(2).ok());
}

TEST_F(WriterTest, GivesWayToTheJob) {
  std::unique_ptr<WriterProcess> writer = StartWriter();
  const pid_t process = TheWriter();
  EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(process)), 19);
  EXPECT_EQ(sched_getscheduler(process), SCHED_BATCH);
  EXPECT_NE(getsid(process), getsid(0));
  const std::string files = "/proc/" + std::to_string(process);
  std::string score;
  std::ifstream(files + "/oom_score_adj") >> score;
  EXPECT_EQ(score, "700");
  if (geteuid() != 0) return;  // Others may not look, since it is not dumpable.
  int descriptors = 0;
  for (const auto& entry : std::filesystem::directory_iterator(files + "/fd")) {
    descriptors += entry.path().empty() ? 0 : 1;
  }
  EXPECT_EQ(descriptors, 4);
  EXPECT_EQ(std::filesystem::read_symlink(files + "/cwd"), "/");
}

TEST_F(WriterTest, KeepsToItsRate) {
  options_.most_bytes_per_second = 40'000'000;
  std::unique_ptr<WriterProcess> writer = StartWriter();
  ASSERT_TRUE(SaveTo(writer.get(), 1).ok());
  const Result<checkpoint::FromWriter> said = writer->Next();
  ASSERT_TRUE(said.ok());
  const auto& written = std::get<PartWritten>(*said);
  // A machine that is slow is no failure; one that is too fast is.
  const double least = static_cast<double>(written.new_bytes) / 40e6 - 0.1;
  EXPECT_GE(written.seconds, least);
}

TEST_F(WriterTest, TellsTheDaemonWhatBecameOfASave) {
  // A daemon's door for HTTP, at which a writer is answered that there is no such thing.
  const std::string place = above_ + "/daemon";
  const Result<FileDescriptor> door = ListenAt(HttpSocketPath(place), 0600, SOCK_STREAM);
  ASSERT_TRUE(door.ok()) << door.status().ToString();
  ASSERT_EQ(setenv("HARMONAIZE_SOCKET", place.c_str(), 1), 0);
  options_.job = "a job";
  std::unique_ptr<WriterProcess> writer = StartWriter();
  unsetenv("HARMONAIZE_SOCKET");
  const auto hear_report = [&] {
    pollfd waiting{door->get(), POLLIN, 0};
    EXPECT_EQ(poll(&waiting, 1, 60'000), 1);
    const FileDescriptor caller(accept(door->get(), nullptr, nullptr));
    std::string request;
    char piece[4096];
    while (!request.ends_with("}")) {
      const ssize_t got = read(caller.get(), piece, sizeof piece);
      if (got <= 0) break;
      request.append(piece, static_cast<size_t>(got));
    }
    const std::string answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    EXPECT_EQ(write(caller.get(), answer.data(), answer.size()),
              static_cast<ssize_t>(answer.size()));
    return request;
  };
  ASSERT_TRUE(SaveTo(writer.get(), 7).ok());
  std::string request = hear_report();
  EXPECT_TRUE(request.starts_with("POST /v1/jobs/a%20job/checkpoints/reports ")) << request;
  EXPECT_NE(request.find(R"("step":7,"where":"storage")"), std::string::npos) << request;
  EXPECT_NE(request.find(R"("seconds":)"), std::string::npos) << request;
  EXPECT_TRUE(writer->WaitForCommit(7).ok());
  ASSERT_TRUE(writer->Save({.step = 8, .save = 8}, std::vector<std::byte>(10000)).ok());
  request = hear_report();
  EXPECT_NE(request.find(R"("failed":"these bytes are no part)"), std::string::npos) << request;
  // The answer has kept nothing from being done.
  ASSERT_TRUE(SaveTo(writer.get(), 9).ok());
  hear_report();
  EXPECT_TRUE(writer->WaitForCommit(9).ok());
}

TEST_F(WriterTest, WrongWordsEndItAndNothingElse) {
  const int standard_input[] = {0};
  for (const std::string& text :
       {std::string("{"), std::string(1000, '['), std::string(R"({"open":{}})"),
        std::string(R"({"save":{"buffer":3,"step":1,"save":1,"bytes":4096,"kept":false}})"),
        std::string(R"({"buffer":{"index":0,"bytes":4096}})")}) {
    std::unique_ptr<WriterProcess> writer = StartWriter();
    const pid_t process = TheWriter();
    ASSERT_TRUE(writer->Say(text).ok());
    const int status = WaitFor(process);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status << " after " << text;
    EXPECT_EQ(writer->Next().status().code(), Code::kRemoteError);
  }
  // What is lent is no memory.
  std::unique_ptr<WriterProcess> writer = StartWriter();
  const pid_t process = TheWriter();
  ASSERT_TRUE(writer->Say(R"({"buffer":{"index":0,"bytes":4096}})", standard_input).ok());
  EXPECT_EQ(WEXITSTATUS(WaitFor(process)), 1);
}

TEST_F(WriterTest, ABufferWithoutAnImageIsAFailureAndNoEnd) {
  std::unique_ptr<WriterProcess> writer = StartWriter();
  ASSERT_TRUE(writer->Save({.step = 1, .save = 1}, std::vector<std::byte>(10000)).ok());
  EXPECT_EQ(writer->WaitForCommit(1).code(), Code::kInvalidArgument);
  ASSERT_TRUE(SaveTo(writer.get(), 2).ok());
  EXPECT_TRUE(writer->WaitForCommit(2).ok());
}

TEST_F(WriterTest, AStoreThatCannotBeOpenedIsTriedAgain) {
  options_.folder = above_ + "/later/store";
  std::unique_ptr<WriterProcess> writer = StartWriter();
  ASSERT_TRUE(SaveTo(writer.get(), 1).ok());
  EXPECT_EQ(writer->WaitForCommit(1).code(), Code::kSystemError);
  std::filesystem::create_directory(above_ + "/later");
  ASSERT_TRUE(SaveTo(writer.get(), 2).ok());
  EXPECT_TRUE(writer->WaitForCommit(2).ok());
}

TEST_F(WriterTest, ALimitOfFilesIsAFailureAndNoEnd) {
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  const rlimit small{1'000'000, usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::unique_ptr<WriterProcess> writer = StartWriter();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &usual), 0);
  for (const uint64_t step : {1, 2}) {
    ASSERT_TRUE(SaveTo(writer.get(), step).ok());
    const Status status = writer->WaitForCommit(step);
    EXPECT_EQ(status.code(), Code::kSystemError);
    EXPECT_NE(status.message().find("File too large"), std::string::npos) << status.message();
  }
  EXPECT_TRUE(ListCheckpoints(options_.folder)->empty());
}

TEST_F(WriterTest, AFullDiskIsAFailureAndTheLastCheckpointStays) {
  if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
      mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    GTEST_SKIP() << "mounts a small file system, for which it has to be root";
  }
  const std::string disk = above_ + "/disk";
  std::filesystem::create_directory(disk);
  // One checkpoint takes 9.4 MB, of which 4.2 MB never change; two fit, and a third does not.
  ASSERT_EQ(mount("none", disk.c_str(), "tmpfs", 0, "size=16m"), 0);
  options_.folder = disk + "/store";
  options_.keep = 0;
  std::unique_ptr<WriterProcess> writer = StartWriter();
  for (const uint64_t step : {1, 2}) {
    ASSERT_TRUE(SaveTo(writer.get(), step).ok());
    const Status status = writer->WaitForCommit(step);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  for (const uint64_t step : {3, 4}) {
    ASSERT_TRUE(SaveTo(writer.get(), step).ok());
    const Status status = writer->WaitForCommit(step);
    EXPECT_EQ(status.code(), Code::kSystemError);
    EXPECT_NE(status.message().find("No space left"), std::string::npos) << status.message();
    EXPECT_EQ(ListCheckpoints(options_.folder)->size(), 2u);
    EXPECT_TRUE(CheckModel(options_.folder, 2, 1).ok());
  }
  // Room comes, and the same writer goes on.
  ASSERT_EQ(mount("none", disk.c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
  ASSERT_TRUE(SaveTo(writer.get(), 5).ok());
  EXPECT_TRUE(writer->WaitForCommit(5).ok());
  EXPECT_TRUE(CheckModel(options_.folder, {}, 1).ok());
  const pid_t process = TheWriter();
  writer.reset();
  EXPECT_EQ(WaitFor(process), 0);
  EXPECT_EQ(umount(disk.c_str()), 0);
}

}  // namespace
}  // namespace harmonaize::testing
