#include "daemon/provider_store/provider_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kChunk = ProviderStore::kChunkBytes;

Status GoOn() {
  return Status::Ok();
}

/// Memory with a part of a checkpoint.
class Part {
 public:
  explicit Part(std::vector<unsigned char> data)
      : data_(std::move(data)), memory_(memfd_create("part", MFD_CLOEXEC)) {
    EXPECT_EQ(pwrite(memory_.get(), data_.data(), data_.size(), 0),
              static_cast<ssize_t>(data_.size()));
  }

  PartToStore AsRank(int32_t rank, int32_t ranks, uint64_t step) const {
    return {.id = {.step = step, .save = step * 7},
            .rank = rank,
            .ranks = ranks,
            .saved_seconds = UnixSeconds(),
            .bytes = data_.size(),
            .descriptor = memory_.get()};
  }
  const std::vector<unsigned char>& data() const { return data_; }

 private:
  std::vector<unsigned char> data_;
  const FileDescriptor memory_;
};

/// Returns bytes that differ from chunk to chunk.
std::vector<unsigned char> Pattern(uint64_t bytes, unsigned seed) {
  std::vector<unsigned char> data(bytes);
  for (uint64_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<unsigned char>(seed + i / kChunk * 31 + i % 251);
  }
  return data;
}

class ProviderStoreTest : public ::testing::Test {
 protected:
  ProviderStoreTest() {
    std::string name = ::testing::TempDir() + "provider-store-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    settings_.folder = folder_ / "store";
    fs::create_directory(settings_.folder);
    fs::permissions(settings_.folder, fs::perms(0700));
  }
  ~ProviderStoreTest() override { fs::remove_all(folder_); }

  ProviderStore store() const { return ProviderStore(settings_); }

  /// Returns the sum of the sizes of all files, each inode once, and their number.
  std::pair<uint64_t, int> Files() const {
    std::pair<uint64_t, int> sum = {0, 0};
    std::set<ino_t> seen;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      struct stat state {};
      if (!entry.is_regular_file() || stat(entry.path().c_str(), &state) != 0) continue;
      if (!seen.insert(state.st_ino).second) continue;
      sum.first += static_cast<uint64_t>(state.st_size);
      ++sum.second;
    }
    return sum;
  }

  const StoredJob job_ = {.user = 1000, .job = {{1, 2, 3}}};
  fs::path folder_;
  ProviderStore::Settings settings_;
};

TEST_F(ProviderStoreTest, GivesBackAnyRangeOfWhatEachRankHasStored) {
  const Part first(Pattern(2 * kChunk + 12'345, 1));
  const Part second(Pattern(77, 2));
  ASSERT_TRUE(store().Write(job_, first.AsRank(0, 2, 5), GoOn).ok());
  const Result<bool> too_soon = store().Commit(job_, {.step = 5, .save = 35}, 2);
  ASSERT_TRUE(too_soon.ok());
  EXPECT_FALSE(*too_soon);
  EXPECT_TRUE(store().List(job_)->empty());
  ASSERT_TRUE(store().Write(job_, second.AsRank(1, 2, 5), GoOn).ok());
  const Result<bool> committed = store().Commit(job_, {.step = 5, .save = 35}, 2);
  ASSERT_TRUE(committed.ok() && *committed) << committed.status().message();
  const auto list = store().List(job_);
  ASSERT_TRUE(list.ok() && list->size() == 1);
  EXPECT_EQ(list->front().ranks, 2);

  const auto images = store().Open(job_, {.step = 5, .save = 35});
  ASSERT_TRUE(images.ok()) << images.status().message();
  EXPECT_EQ(*(*images)->BytesOf(0), first.data().size());
  EXPECT_EQ(*(*images)->BytesOf(1), 77u);
  EXPECT_EQ((*images)->BytesOf(2).status().code(), Code::kUnavailable);
  for (const auto& [at, bytes] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 1}, {kChunk - 3, 7}, {0, first.data().size()}, {2 * kChunk + 12'344, 1}}) {
    std::vector<std::byte> read(bytes);
    ASSERT_TRUE((*images)->Read(0, at, read).ok());
    EXPECT_EQ(std::memcmp(read.data(), first.data().data() + at, bytes), 0) << at;
  }
  std::vector<std::byte> beyond(2);
  EXPECT_FALSE((*images)->Read(1, 76, beyond).ok());
}

TEST_F(ProviderStoreTest, WritesChunksOnceThatDoNotChange) {
  std::vector<unsigned char> data = Pattern(3 * kChunk, 1);
  const Part before(data);
  ASSERT_TRUE(store().Write(job_, before.AsRank(0, 1, 1), GoOn).ok());
  const uint64_t first = Files().first;
  data[kChunk + 5] ^= 1;
  const Part after(data);
  ASSERT_TRUE(store().Write(job_, after.AsRank(0, 1, 2), GoOn).ok());
  const uint64_t added = Files().first - first;
  EXPECT_GT(added, kChunk);
  EXPECT_LT(added, kChunk + (1 << 20));
}

TEST_F(ProviderStoreTest, KeepsTheNewestAndWhatIsKept) {
  settings_.keep = 2;
  for (uint64_t step = 1; step <= 4; ++step) {
    const Part part(Pattern(1000, static_cast<unsigned>(step)));
    PartToStore stored = part.AsRank(0, 1, step);
    stored.is_kept = step == 1;
    ASSERT_TRUE(store().Write(job_, stored, GoOn).ok());
    ASSERT_TRUE(*store().Commit(job_, stored.id, 1));
  }
  std::vector<uint64_t> steps;
  const auto list = store().List(job_);
  for (const auto& one : *list) steps.push_back(one.id.step);
  EXPECT_EQ(steps, (std::vector<uint64_t>{4, 3, 1}));
}

TEST_F(ProviderStoreTest, FindsDamage) {
  const Part part(Pattern(kChunk + 100, 1));
  ASSERT_TRUE(store().Write(job_, part.AsRank(0, 1, 1), GoOn).ok());
  ASSERT_TRUE(*store().Commit(job_, {.step = 1, .save = 7}, 1));
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "store")) {
    if (!entry.is_regular_file() || entry.file_size() < kChunk) continue;
    fs::permissions(entry.path(), fs::perms(0600));
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(kChunk / 2));
    file.put('x');
    break;
  }
  const auto images = store().Open(job_, {.step = 1, .save = 7});
  ASSERT_TRUE(images.ok());
  std::vector<std::byte> read(10);
  EXPECT_EQ((*images)->Read(0, 0, read).code(), Code::kInvalidArgument);
  EXPECT_TRUE((*images)->Read(0, kChunk, read).ok()) << "the other chunk is sound";
}

TEST_F(ProviderStoreTest, AUserHasNoMoreThanMayBeThere) {
  settings_.most_bytes_of_user = 1 << 20;
  const Part part(Pattern(600'000, 1));
  ASSERT_TRUE(store().Write(job_, part.AsRank(0, 1, 1), GoOn).ok());
  const Status second = store().Write(job_, part.AsRank(0, 1, 2), GoOn);
  EXPECT_EQ(second.code(), Code::kInvalidUsage);
  EXPECT_NE(second.message().find("quota.stored_bytes"), std::string::npos);
  EXPECT_TRUE(store().Write({.user = 1001, .job = job_.job}, part.AsRank(0, 1, 1), GoOn).ok());
  // Another job of the same user's counts for the same user.
  EXPECT_FALSE(store().Write({.user = 1000, .job = {{9}}}, part.AsRank(0, 1, 1), GoOn).ok());
}

TEST_F(ProviderStoreTest, ManySmallFilesCountForWhatTheyCostADisk) {
  settings_.most_bytes_of_user = 4 << 20;
  const Part part(Pattern(10, 1));
  uint64_t step = 1;
  while (step < 1000 && store().Write(job_, part.AsRank(0, 1, step), GoOn).ok()) ++step;
  EXPECT_LT(step, 20u);
  EXPECT_GT(step, 2u);
}

TEST_F(ProviderStoreTest, WhatAllHaveLeftMakesRoomBeforeTheQuotaIsUsedUp) {
  settings_.most_bytes_of_user = 3 << 20;
  const Part part(Pattern(1'500'000, 1));
  const StoredJob other = {.user = 1000, .job = {{9}}};
  // Nobody commits these, and no commit of their jobs comes that would remove them.
  for (const StoredJob& job : {job_, other}) {
    ASSERT_TRUE(store().Write(job, part.AsRank(1, 2, 1), GoOn).ok());
    EXPECT_FALSE(store().Write(other, part.AsRank(0, 1, 2), GoOn).ok()) << "it may be going on";
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "store")) {
      if (!entry.is_directory()) continue;
      fs::last_write_time(entry, fs::file_time_type::clock::now() - std::chrono::minutes(11));
    }
  }
  EXPECT_TRUE(store().Write(other, part.AsRank(0, 1, 2), GoOn).ok());
}

TEST_F(ProviderStoreTest, TheLastWriterRemovesWhatWasGivenUpMeanwhile) {
  const Part part(Pattern(2 * kChunk, 1));
  const Status written = store().Write(job_, part.AsRank(1, 2, 1), [&] {
    store().GiveUp(job_, {.step = 1, .save = 7});
    return Status::Ok();
  });
  EXPECT_TRUE(written.ok()) << written.message();
  EXPECT_LE(Files().second, 2) << "nothing of it stays but what says that this is a store";
}

TEST_F(ProviderStoreTest, StopsWhenItIsTold) {
  const Part part(Pattern(2 * kChunk, 1));
  int asked = 0;
  const Status status = store().Write(job_, part.AsRank(0, 1, 1), [&] {
    return ++asked < 4 ? Status::Ok() : RemoteError("enough");
  });
  EXPECT_EQ(status.message(), "enough");
  store().GiveUp(job_, {.step = 1, .save = 7});
  EXPECT_LE(Files().second, 2) << "nothing of it stays but what says that this is a store";
}

TEST_F(ProviderStoreTest, RemovesJobsWhoseTimeIsOverAndNoOthers) {
  settings_.keep_seconds = 1000;
  const StoredJob old = {.user = 1000, .job = {{9}}};
  const StoredJob alone = {.user = 1001, .job = {{9}}};
  const Part part(Pattern(1000, 1));
  for (const StoredJob& job : {job_, old, alone}) {
    ASSERT_TRUE(store().Write(job, part.AsRank(0, 1, 1), GoOn).ok());
    ASSERT_TRUE(*store().Commit(job, {.step = 1, .save = 7}, 1));
  }
  for (const StoredJob& job : {old, alone}) {
    const fs::path steps =
        folder_ / "store" / ("user-" + std::to_string(job.user)) / job.job.text() / "steps";
    fs::last_write_time(steps, fs::file_time_type::clock::now() - std::chrono::seconds(2000));
  }
  // What is read begins anew.
  { ASSERT_TRUE(store().Open(old, {.step = 1, .save = 7}).ok()); }
  const Result<uint32_t> removed = store().TidyUp();
  ASSERT_TRUE(removed.ok());
  EXPECT_EQ(*removed, 1u);
  EXPECT_EQ(store().List(job_)->size(), 1u);
  EXPECT_EQ(store().List(old)->size(), 1u);
  EXPECT_TRUE(store().List(alone)->empty());
  EXPECT_FALSE(fs::exists(folder_ / "store" / "user-1001"));
}

TEST_F(ProviderStoreTest, IsNoFolderThatOthersMayEnter) {
  const Part part(Pattern(1000, 1));
  ASSERT_TRUE(store().Write(job_, part.AsRank(0, 1, 1), GoOn).ok());
  ASSERT_TRUE(*store().Commit(job_, {.step = 1, .save = 7}, 1));
  fs::permissions(settings_.folder, fs::perms(0750));
  const Status status = store().Write(job_, part.AsRank(0, 1, 2), GoOn);
  EXPECT_EQ(status.code(), Code::kSystemError);
  EXPECT_NE(status.message().find("of mode 0700"), std::string::npos);
  // It is not read either.
  EXPECT_EQ(store().List(job_).status().code(), Code::kSystemError);
  EXPECT_EQ(store().Open(job_, {.step = 1, .save = 7}).status().code(), Code::kSystemError);
  settings_.folder = "relative";
  EXPECT_EQ(store().Check().code(), Code::kSystemError);
  settings_.folder = folder_ / "no" / "such";
  EXPECT_EQ(store().Check().code(), Code::kSystemError);
}

}  // namespace
}  // namespace harmonaize::daemon
