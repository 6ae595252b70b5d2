#include "src/store/store.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "src/checkpoint/stored_checkpoint.h"
#include "src/store/commit.h"
#include "src/store/part_writer.h"
#include "src/store/retention.h"
#include "tests/support/stored_model.h"

namespace harmonaize::store {
namespace {

using checkpoint::CheckpointSummary;
using checkpoint::ListCheckpoints;
using checkpoint::OpenStore;
using checkpoint::StoredCheckpoint;
using checkpoint::StoreFormat;
using testing::CheckModel;
using testing::SaveModel;

/// A store in a folder of its own, which is gone afterwards.
class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "harmonaize-store-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    above_ = pattern;
    folder_ = pattern + "/store";
    options_ = {.folder = folder_, .job = "model", .ranks = 4};
    Result<Store> store = Store::Open(folder_);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_.emplace(std::move(*store));
  }
  void TearDown() override { std::filesystem::remove_all(above_); }

  Status Save(uint64_t step, bool is_kept = false) {
    return SaveModel(*store_, options_, step, 1000 + step, is_kept);
  }
  std::vector<CheckpointSummary> List() {
    Result<std::vector<CheckpointSummary>> list = ListCheckpoints(folder_);
    EXPECT_TRUE(list.ok()) << list.status().ToString();
    return list.ok() ? *list : std::vector<CheckpointSummary>();
  }
  std::vector<uint64_t> Steps() {
    std::vector<uint64_t> steps;
    for (const CheckpointSummary& one : List()) steps.push_back(one.id.step);
    return steps;
  }
  std::filesystem::path FolderOf(uint64_t step) {
    return std::filesystem::path(folder_) / "steps" /
           checkpoint::CheckpointFolderName({step, 1000 + step});
  }
  size_t FilesIn(const std::string& below) {
    size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ + "/" + below)) {
      files += entry.is_regular_file() ? 1 : 0;
    }
    return files;
  }

  std::string above_;
  std::string folder_;
  OpenStore options_;
  std::optional<Store> store_;
};

class StoreOfFormat : public StoreTest, public ::testing::WithParamInterface<StoreFormat> {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    options_.format = GetParam();
  }
};

TEST_P(StoreOfFormat, WhatFourRanksHaveSavedAnyNumberLoads) {
  ASSERT_TRUE(Save(100).ok());
  for (const int ranks : {4, 3, 2, 6, 1}) {
    const Status status = CheckModel(folder_, {}, ranks);
    EXPECT_TRUE(status.ok()) << ranks << ": " << status.ToString();
  }
  const std::vector<CheckpointSummary> list = List();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_TRUE(list[0].is_committed);
  EXPECT_EQ(list[0].ranks, 4);
  EXPECT_EQ(list[0].job, "model");
  EXPECT_EQ(list[0].format, GetParam());
  EXPECT_GT(list[0].bytes, 9'000'000u);
  EXPECT_GE(list[0].new_bytes, list[0].bytes);
}

TEST_P(StoreOfFormat, WhatDoesNotChangeIsWrittenOnce) {
  ASSERT_TRUE(Save(1).ok());
  ASSERT_TRUE(Save(2).ok());
  const std::vector<CheckpointSummary> list = List();
  ASSERT_EQ(list.size(), 2u);
  // Of four bytes of the model two and a half change.
  EXPECT_EQ(list[0].id.step, 2u);
  EXPECT_LT(list[0].new_bytes, list[1].new_bytes * 3 / 4);
  EXPECT_TRUE(CheckModel(folder_, 1, 2).ok());
  EXPECT_TRUE(CheckModel(folder_, 2, 2).ok());
  // What is removed takes nothing from the other.
  ASSERT_TRUE(RemoveOld(*store_, 1).ok());
  EXPECT_EQ(Steps(), std::vector<uint64_t>{2});
  EXPECT_TRUE(CheckModel(folder_, {}, 3).ok());
  EXPECT_EQ(FilesIn("objects"), FilesIn("steps") - 4 - 2);
}

INSTANTIATE_TEST_SUITE_P(Formats, StoreOfFormat,
                         ::testing::Values(StoreFormat::kSafetensors, StoreFormat::kDcp,
                                           StoreFormat::kUcp),
                         [](const auto& one) { return std::string(NameOf(one.param)); });

TEST_F(StoreTest, KeptOnesAndTheNewestStay) {
  ASSERT_TRUE(Save(10, true).ok());
  for (const uint64_t step : {20, 30, 40}) ASSERT_TRUE(Save(step).ok());
  ASSERT_TRUE(RemoveOld(*store_, 0).ok());
  EXPECT_EQ(Steps(), (std::vector<uint64_t>{40, 30, 20, 10}));
  ASSERT_TRUE(RemoveOld(*store_, 2).ok());
  EXPECT_EQ(Steps(), (std::vector<uint64_t>{40, 30, 10}));
}

TEST_F(StoreTest, TheNewestIsWhatWasSavedLast) {
  ASSERT_TRUE(Save(100).ok());
  ASSERT_TRUE(Save(200).ok());
  // The job went back, and took another way.
  ASSERT_TRUE(Save(150).ok());
  EXPECT_EQ(Steps(), (std::vector<uint64_t>{150, 200, 100}));
  ASSERT_TRUE(RemoveOld(*store_, 1).ok());
  EXPECT_EQ(Steps(), std::vector<uint64_t>{150});
}

TEST_F(StoreTest, WhatIsReadIsNotRemoved) {
  ASSERT_TRUE(Save(1).ok());
  Result<std::unique_ptr<StoredCheckpoint>> reader = StoredCheckpoint::Open(folder_, 1);
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE(Save(2).ok());
  ASSERT_TRUE(RemoveOld(*store_, 1).ok());
  EXPECT_EQ(Steps(), (std::vector<uint64_t>{2, 1}));
  reader->reset();
  ASSERT_TRUE(RemoveOld(*store_, 1).ok());
  EXPECT_EQ(Steps(), std::vector<uint64_t>{2});
}

/// A process saves, and keeps the newest one alone, while this one reads the newest.
TEST_F(StoreTest, TheNewestCanBeReadAtAnyMoment) {
  ASSERT_TRUE(Save(1).ok());
  options_.ranks = 2;
  const pid_t child = fork();
  if (child == 0) {
    for (uint64_t step = 2; step < 20; ++step) {
      if (!Save(step).ok() || !RemoveOld(*store_, 1).ok()) _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  do {
    const Status read = CheckModel(folder_, {}, 1);
    EXPECT_TRUE(read.ok()) << read.ToString();
  } while (waitpid(child, &status, WNOHANG) == 0);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(RemoveOld(*store_, 1).ok());
  EXPECT_EQ(Steps(), std::vector<uint64_t>{19});
}

/// Has a system call fail in this process from now on, as it does on some file systems.
bool Forbid(unsigned call, unsigned error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {.len = 4, .filter = filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(StoreTest, FileSystemsWithoutLinksAndLocksDo) {
  const pid_t child = fork();
  if (child == 0) {
    const bool forbidden = Forbid(SYS_linkat, EPERM) && Forbid(SYS_flock, ENOLCK);
    if (!forbidden) _exit(100);
    for (const uint64_t step : {1, 2, 3}) {
      if (!Save(step).ok()) _exit(static_cast<int>(step));
    }
    if (!CheckModel(folder_, {}, 3).ok() || !RemoveOld(*store_, 2).ok()) _exit(4);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(Steps(), (std::vector<uint64_t>{3, 2}));
  EXPECT_TRUE(CheckModel(folder_, 2, 6).ok());
  // Every checkpoint is written whole.
  EXPECT_EQ(List()[0].new_bytes, List()[1].new_bytes);
  EXPECT_EQ(FilesIn("objects"), 0u);
}

TEST_F(StoreTest, WithoutAllPartsThereIsNoCheckpoint) {
  const std::vector<std::byte> image =
      testing::ModelImage({.step = 7, .save = 1007, .rank = 2, .ranks = 4});
  Result<OpenCheckpoint> folder = OpenCheckpoint::Join(*store_, {7, 1007});
  ASSERT_TRUE(folder.ok());
  options_.rank = 2;
  PartWriter writer(&*store_, options_, [] { return Status::Ok(); });
  ASSERT_TRUE(writer
                  .Write({.step = 7, .save = 1007, .bytes = image.size()}, testing::ReaderOf(image),
                         *folder)
                  .ok());
  Commit commit(&*store_, std::move(*folder), 2, 4);
  ASSERT_TRUE(commit.Look().ok());
  EXPECT_FALSE(*commit.Look());
  EXPECT_EQ(commit.missing_rank(), 3);
  ASSERT_EQ(List().size(), 1u);
  EXPECT_FALSE(List()[0].is_committed);
  EXPECT_EQ(StoredCheckpoint::Open(folder_).status().code(), Code::kUnavailable);
  // While its writer lives, nobody takes it away.
  ASSERT_TRUE(RemoveAbandoned(*store_).ok());
  EXPECT_EQ(List().size(), 1u);
  GiveUp(*store_, std::move(commit.checkpoint()));
  EXPECT_TRUE(List().empty());
  EXPECT_EQ(FilesIn("objects"), 0u);
}

TEST_F(StoreTest, WhatWasGivenUpIsRemovedAfterAWhile) {
  ASSERT_TRUE(Save(1).ok());
  ASSERT_TRUE(Save(2).ok());
  std::filesystem::remove(FolderOf(1) / "checkpoint.json");
  ASSERT_TRUE(RemoveAbandoned(*store_).ok());
  EXPECT_EQ(List().size(), 2u);
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  std::filesystem::last_write_time(FolderOf(1), long_ago);
  std::filesystem::last_write_time(FolderOf(1) / "objects", long_ago);
  ASSERT_TRUE(RemoveAbandoned(*store_).ok());
  EXPECT_EQ(Steps(), std::vector<uint64_t>{2});
  EXPECT_TRUE(CheckModel(folder_, {}, 4).ok());
}

TEST_F(StoreTest, DamageIsFound) {
  ASSERT_TRUE(Save(1).ok());
  // A byte of the largest object, in the middle of its data.
  std::filesystem::path largest;
  for (const auto& entry : std::filesystem::directory_iterator(FolderOf(1) / "objects")) {
    if (largest.empty() || entry.file_size() > std::filesystem::file_size(largest)) {
      largest = entry.path();
    }
  }
  std::filesystem::permissions(largest, std::filesystem::perms::owner_write,
                               std::filesystem::perm_options::add);
  std::fstream file(largest, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(largest) / 2));
  file.put('\x55');
  file.close();
  // Readers of parts of a shard find it, too.
  for (const int ranks : {4, 6}) {
    EXPECT_EQ(CheckModel(folder_, {}, ranks).code(), Code::kInvalidArgument) << ranks;
  }
}

TEST_F(StoreTest, AnImageThatChangesMeanwhileIsNotSaved) {
  std::vector<std::byte> image =
      testing::ModelImage({.step = 7, .save = 1007, .rank = 0, .ranks = 4});
  Result<OpenCheckpoint> folder = OpenCheckpoint::Join(*store_, {7, 1007});
  ASSERT_TRUE(folder.ok());
  int reads = 0;
  const checkpoint::ReadImage read = [&](uint64_t at, std::span<std::byte> into) {
    if (++reads > 3) image[image.size() / 2] ^= std::byte{1};
    return testing::ReaderOf(image)(at, into);
  };
  PartWriter writer(&*store_, options_, [] { return Status::Ok(); });
  const Status status =
      writer.Write({.step = 7, .save = 1007, .bytes = image.size()}, read, *folder).status();
  EXPECT_EQ(status.code(), Code::kInvalidUsage) << status.ToString();
  // Nothing that is half written stays.
  EXPECT_FALSE(std::filesystem::exists(FolderOf(7) / "part-00000.jsonl"));
  for (const auto& entry : std::filesystem::directory_iterator(FolderOf(7) / "objects")) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("tmp-")) << entry.path();
  }
}

TEST_F(StoreTest, APartOfAnotherRankIsRefused) {
  const std::vector<std::byte> image =
      testing::ModelImage({.step = 7, .save = 1007, .rank = 1, .ranks = 4});
  Result<OpenCheckpoint> folder = OpenCheckpoint::Join(*store_, {7, 1007});
  ASSERT_TRUE(folder.ok());
  PartWriter writer(&*store_, options_, [] { return Status::Ok(); });
  EXPECT_EQ(writer
                .Write({.step = 7, .save = 1007, .bytes = image.size()}, testing::ReaderOf(image),
                       *folder)
                .status()
                .code(),
            Code::kInvalidArgument);
}

TEST_F(StoreTest, AFolderOfSomethingElseIsNotMadeAStore) {
  std::filesystem::create_directory(above_ + "/photos");
  std::ofstream(above_ + "/photos/summer.jpg") << "x";
  EXPECT_EQ(Store::Open(above_ + "/photos").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Store::Open(above_ + "/no/such/folder").status().code(), Code::kSystemError);
  EXPECT_EQ(ListCheckpoints(above_ + "/photos").status().code(), Code::kUnavailable);
}

TEST_F(StoreTest, LinksInAStoreAreNotFollowed) {
  ASSERT_TRUE(Save(1).ok());
  const std::filesystem::path part = FolderOf(1) / "part-00002.jsonl";
  std::filesystem::rename(part, above_ + "/elsewhere");
  std::filesystem::create_symlink(above_ + "/elsewhere", part);
  EXPECT_EQ(StoredCheckpoint::Open(folder_).status().code(), Code::kInvalidArgument);
  std::filesystem::rename(FolderOf(1), above_ + "/steps-1");
  std::filesystem::create_directory_symlink(above_ + "/steps-1", FolderOf(1));
  EXPECT_EQ(StoredCheckpoint::Open(folder_).status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace harmonaize::store
