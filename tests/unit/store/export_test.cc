// What exports and verifications do with whole and damaged checkpoints. That others read the
// exports is for tests/python/checkpoint_exports_test.py.

#include "src/store/export.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/checkpoint/stored_checkpoint.h"
#include "src/store/commit.h"
#include "src/store/object_layout.h"
#include "src/store/part_writer.h"
#include "src/store/store.h"
#include "src/store/verify.h"
#include "tests/support/stored_model.h"

namespace harmonaize::store {
namespace {

namespace fs = std::filesystem;
using checkpoint::Shard;
using checkpoint::StoredCheckpoint;
using checkpoint::StoreFormat;

const Progress kNobody = [](uint64_t, uint64_t) {};

class ExportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "harmonaize-export-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    above_ = pattern;
  }
  void TearDown() override {
    stored_.reset();
    fs::remove_all(above_);
  }

  /// Saves the model, and opens the checkpoint.
  void Make(StoreFormat format, int32_t ranks) {
    const Result<Store> store = Store::Open(above_ + "/store");
    ASSERT_TRUE(store.ok());
    const Status saved = testing::SaveModel(
        *store, {.folder = above_ + "/store", .ranks = ranks, .format = format}, 5, 5);
    ASSERT_TRUE(saved.ok()) << saved.ToString();
    Reopen();
  }
  void Reopen() {
    Result<std::unique_ptr<StoredCheckpoint>> stored = StoredCheckpoint::Open(above_ + "/store");
    ASSERT_TRUE(stored.ok()) << stored.status().ToString();
    stored_ = std::move(*stored);
  }
  fs::path TheFolder() const { return stored_->folder().path(); }
  std::vector<std::string> Problems() {
    const Result<Verdict> verdict = Verify(stored_.get(), kNobody);
    EXPECT_TRUE(verdict.ok());
    return verdict->problems;
  }

  std::string above_;
  std::unique_ptr<StoredCheckpoint> stored_;
};

TEST_F(ExportTest, AWholeCheckpointIsVerified) {
  for (const StoreFormat format :
       {StoreFormat::kSafetensors, StoreFormat::kDcp, StoreFormat::kUcp}) {
    Make(format, 4);
    const Result<Verdict> verdict = Verify(stored_.get(), kNobody);
    ASSERT_TRUE(verdict.ok());
    EXPECT_TRUE(verdict->problems.empty()) << verdict->problems.front();
    EXPECT_EQ(verdict->shards, 4u * 5 + 4);
    EXPECT_EQ(verdict->tensors, 8u + 4);
    fs::remove_all(above_ + "/store");
  }
}

TEST_F(ExportTest, EachDamageIsNamed) {
  Make(StoreFormat::kSafetensors, 2);
  // A part's manifest with a space more is as good, and is another one.
  std::ofstream(TheFolder() / "part-00001.jsonl", std::ios::app) << "\n";
  EXPECT_EQ(Problems().size(), 1u);
  EXPECT_EQ(StoredCheckpoint::Open(above_ + "/store").status().code(), Code::kInvalidArgument);
  // A file is gone, and one is cut short.
  std::vector<fs::path> objects;
  for (const auto& entry : fs::directory_iterator(TheFolder() / "objects")) {
    objects.push_back(entry.path());
  }
  ASSERT_GT(objects.size(), 2u);
  fs::remove(objects[0]);
  fs::permissions(objects[1], fs::perms::owner_write, fs::perm_options::add);
  fs::resize_file(objects[1], fs::file_size(objects[1]) - 1);
  const std::vector<std::string> problems = Problems();
  ASSERT_EQ(problems.size(), 3u);
  for (const size_t victim : {0, 1}) {
    const std::string name = objects[victim].filename();
    EXPECT_TRUE(problems[1].find(name) != std::string::npos ||
                problems[2].find(name) != std::string::npos);
  }
}

TEST_F(ExportTest, WhatNobodyHasSavedIsMissed) {
  Make(StoreFormat::kSafetensors, 2);
  // A checkpoint of which the first rank has saved nothing: its manifest is the second one's.
  const Result<Store> store = Store::Open(above_ + "/other");
  ASSERT_TRUE(store.ok());
  const Result<checkpoint::PartLayout> nothing = checkpoint::PartLayout::Of({});
  ASSERT_TRUE(nothing.ok());
  for (const int32_t rank : {0, 1}) {
    const checkpoint::PartIdentity identity = {.step = 5, .save = 5, .rank = rank, .ranks = 2};
    std::vector<std::byte> image = testing::ModelImage(identity);
    if (rank == 0) {
      image.resize(nothing->bytes);
      nothing->Write(identity, image.data());
    }
    Result<OpenCheckpoint> folder = OpenCheckpoint::Join(*store, {5, 5});
    ASSERT_TRUE(folder.ok());
    PartWriter writer(&*store, {.folder = above_ + "/other", .rank = rank, .ranks = 2},
                      [] { return Status::Ok(); });
    ASSERT_TRUE(
        writer
            .Write({.step = 5, .save = 5, .bytes = image.size()}, testing::ReaderOf(image), *folder)
            .ok());
    ASSERT_TRUE(Commit(&*store, std::move(*folder), rank, 2).Look().ok());
  }
  Result<std::unique_ptr<StoredCheckpoint>> opened = StoredCheckpoint::Open(above_ + "/other");
  ASSERT_TRUE(opened.ok());
  stored_ = std::move(*opened);
  const std::vector<std::string> problems = Problems();
  EXPECT_EQ(problems.size(), 4u);
  EXPECT_EQ(problems[0],
            "no rank has saved the elements of 'module.embedding' from [0, 0] over [501, 640]");
  // No export makes something up for them.
  for (const StoreFormat format : {StoreFormat::kSafetensors, StoreFormat::kUcp}) {
    EXPECT_EQ(Export(stored_.get(), {.format = format, .target = above_ + "/out"}, kNobody)
                  .status()
                  .code(),
              Code::kInvalidArgument);
    EXPECT_FALSE(fs::exists(above_ + "/out"));
  }
}

TEST_F(ExportTest, LinksAreMadeWhereAFileFitsAndCopiesWhereTheyAreWanted) {
  Make(StoreFormat::kSafetensors, 1);
  const ExportOptions options = {.format = StoreFormat::kSafetensors, .target = above_ + "/links/"};
  const Result<ExportSummary> links = Export(stored_.get(), options, kNobody);
  ASSERT_TRUE(links.ok()) << links.status().ToString();
  EXPECT_GE(links->linked_files, 3u);
  EXPECT_LT(links->written_bytes, 10'000u);
  const Result<ExportSummary> copies = Export(
      stored_.get(),
      {.format = StoreFormat::kSafetensors, .target = above_ + "/copies", .uses_links = false},
      kNobody);
  ASSERT_TRUE(copies.ok());
  EXPECT_EQ(copies->linked_files, 0u);
  EXPECT_GT(copies->written_bytes, 9'000'000u);
  EXPECT_EQ(Export(stored_.get(), options, kNobody).status().code(), Code::kInvalidUsage);
  // Both have the same bytes, and the index names each file.
  std::ifstream file(above_ + "/links/model.safetensors.index.json");
  const nlohmann::json index = nlohmann::json::parse(file);
  EXPECT_EQ(index["weight_map"].size(), 8u);
  for (const auto& [name, value] : index["weight_map"].items()) {
    const std::string model = value.get<std::string>();
    EXPECT_EQ(fs::file_size(above_ + "/links/" + model),
              fs::file_size(above_ + "/copies/" + model));
  }
}

TEST_F(ExportTest, AnExportThatFailsLeavesNothing) {
  Make(StoreFormat::kDcp, 2);
  EXPECT_FALSE(Export(stored_.get(), {.target = above_ + "/no/such"}, kNobody).ok());
  for (const auto& entry : fs::directory_iterator(TheFolder() / "objects")) {
    fs::permissions(entry.path(), fs::perms::owner_write, fs::perm_options::add);
    fs::resize_file(entry.path(), 1);
  }
  for (const StoreFormat format : {StoreFormat::kSafetensors, StoreFormat::kUcp}) {
    EXPECT_FALSE(
        Export(stored_.get(), {.format = format, .target = above_ + "/out"}, kNobody).ok());
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(above_), {}), 1);
}

TEST(ObjectLayout, PiecesLieWhereTheShardsAreSaidToBe) {
  // More bytes than 32 bits count, as archives have to write out elsewhere.
  const Shard large = {.name = "large",
                       .type = checkpoint::ElementType::kF32,
                       .global_shape = {5, 1 << 28},
                       .box = {.offset = {0, 0}, .shape = {5, 1 << 28}}};
  const Shard small = {.name = "small", .type = checkpoint::ElementType::kF64};
  const ShardToLay shards[] = {{&large, 1}, {&small, 2}};
  for (const StoreFormat format : {StoreFormat::kSafetensors, StoreFormat::kDcp}) {
    const ObjectLayout layout = LayoutOf(format, shards);
    ASSERT_EQ(layout.shards.size(), 2u);
    uint64_t at = 0;
    for (const Piece& piece : layout.pieces) {
      if (piece.shard != Piece::kOwn) {
        EXPECT_EQ(layout.shards[piece.shard].at, at);
        EXPECT_EQ(at % kDataAlignment, 0u);
        EXPECT_EQ(piece.bytes, BytesOf(*shards[piece.shard].shard));
      }
      at += piece.bytes;
    }
    EXPECT_EQ(at, layout.bytes);
  }
}

}  // namespace
}  // namespace harmonaize::store
