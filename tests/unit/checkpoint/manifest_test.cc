#include "src/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "src/checkpoint/store_names.h"

namespace harmonaize::checkpoint {
namespace {

const std::string kDigest(kDigestDigits, 'a');

PartManifest AManifest() {
  const Shard weight = {.name = "weight \"1\"",
                        .type = ElementType::kBf16,
                        .global_shape = {8, 4},
                        .box = {.offset = {2, 0}, .shape = {2, 4}}};
  const Shard object = {.name = "rng",
                        .type = ElementType::kU8,
                        .is_object = true,
                        .global_shape = {5},
                        .box = {.offset = {0}, .shape = {5}}};
  return {
      .identity = {.step = 1200, .save = UINT64_MAX, .rank = 1, .ranks = 4, .is_kept = true},
      .job = "llama",
      .format = StoreFormat::kDcp,
      .time = "2026-11-26T08:30:00.123456Z",
      .bytes = 21,
      .new_bytes = 128,
      .objects = {
          {.name = kDigest + ".distcp",
           .bytes = 128,
           .shards = {{.shard = weight, .at = 64, .checksum = 77, .blob_at = 0, .blob_bytes = 100},
                      {.shard = object, .at = 101, .checksum = UINT64_MAX}}},
          {.name = kDigest + ".bin"}}};
}

CommitRecord ARecord() {
  return {.number = 3,
          .id = {.step = 1200, .save = 9},
          .job = "llama",
          .format = StoreFormat::kUcp,
          .is_kept = true,
          .bytes = 100,
          .new_bytes = 50,
          .time = "2026-11-26T08:30:00.123456Z",
          .parts = {{.sha256 = kDigest, .checksum = 1}, {.sha256 = kDigest, .checksum = 2}}};
}

TEST(Manifest, IsReadAsItWasWritten) {
  const std::string text = ManifestText(AManifest());
  const Result<PartManifest> manifest = ParseManifest(text);
  ASSERT_TRUE(manifest.ok()) << manifest.status().ToString();
  EXPECT_EQ(*manifest, AManifest());
  const Result<PartManifest> head = ParseManifestHead(text);
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->identity, AManifest().identity);
  EXPECT_TRUE(head->objects.empty());
}

TEST(Manifest, WhatEndsTooEarlyIsRefused) {
  const std::string text = ManifestText(AManifest());
  for (size_t end = text.find('\n'); end + 1 < text.size(); end = text.find('\n', end + 1)) {
    EXPECT_FALSE(ParseManifest(text.substr(0, end + 1)).ok()) << end;
  }
  EXPECT_FALSE(ParseManifest("").ok());
  EXPECT_FALSE(ParseManifest(text + text.substr(text.rfind("{\""))).ok());
}

TEST(Manifest, NoNameLeadsOutOfTheStore) {
  for (const std::string& name :
       {std::string("../../etc/passwd"), std::string("/etc/passwd"), kDigest, kDigest + ".exe",
        kDigest + ".pt/..", "A" + kDigest.substr(1) + ".pt", std::string()}) {
    PartManifest manifest = AManifest();
    manifest.objects[0].name = name;
    EXPECT_FALSE(ParseManifest(ManifestText(manifest)).ok()) << name;
  }
  PartManifest manifest = AManifest();
  manifest.objects[0].shards[0].shard.name = "../weight";
  EXPECT_FALSE(ParseManifest(ManifestText(manifest)).ok());
}

TEST(Manifest, DataLiesInItsObject) {
  for (const uint64_t at : {uint64_t{113}, uint64_t{129}, kMostObjectBytes, UINT64_MAX}) {
    PartManifest manifest = AManifest();
    manifest.objects[0].shards[0].at = at;
    EXPECT_FALSE(ParseManifest(ManifestText(manifest)).ok()) << at;
    manifest = AManifest();
    manifest.objects[0].shards[0].blob_at = at;
    EXPECT_FALSE(ParseManifest(ManifestText(manifest)).ok()) << at;
  }
}

TEST(Manifest, DamagedOnesHarmNobody) {
  const std::string sound = ManifestText(AManifest());
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = sound;
    for (int i = 0; i <= round % 3; ++i) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const Result<PartManifest> manifest = ParseManifest(text);
    if (!manifest.ok()) {
      ++refused;
      continue;
    }
    for (const StoredObject& object : manifest->objects) {
      ASSERT_TRUE(IsObjectName(object.name));
      for (const StoredShard& stored : object.shards) {
        ASSERT_LE(stored.at, object.bytes);
        ASSERT_LE(BytesOf(stored.shard), object.bytes - stored.at);
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(CommitRecord, IsReadAsItWasWritten) {
  const Result<CommitRecord> record = ParseCommit(CommitText(ARecord()));
  ASSERT_TRUE(record.ok()) << record.status().ToString();
  EXPECT_EQ(*record, ARecord());
}

TEST(CommitRecord, HasAPartOfEachRank) {
  std::string text = CommitText(ARecord());
  text.replace(text.find("\"ranks\":2"), 9, "\"ranks\":3");
  EXPECT_FALSE(ParseCommit(text).ok());
  CommitRecord record = ARecord();
  record.parts.clear();
  EXPECT_FALSE(ParseCommit(CommitText(record)).ok());
  record = ARecord();
  record.parts[0].sha256 = "../" + kDigest.substr(3);
  EXPECT_FALSE(ParseCommit(CommitText(record)).ok());
}

TEST(StoreNames, OfFoldersAreReadAsTheyWereMade) {
  for (const CheckpointId& id : {CheckpointId{0, 0}, CheckpointId{INT64_MAX, UINT64_MAX}}) {
    EXPECT_EQ(CheckpointIdOf(CheckpointFolderName(id)), id);
  }
  for (const char* name :
       {"", ".", "..", "00000000000000001200", "removed-1", "00000000000000001200-000000000000000g",
        "0000000000000000120x-0000000000000000", "99999999999999999999-0000000000000000",
        "00000000000000001200-00000000000000000"}) {
    EXPECT_EQ(CheckpointIdOf(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace harmonaize::checkpoint
