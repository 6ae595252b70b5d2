// `harmonaize checkpoints` about a store on disk.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/json_view.h"
#include "src/store/store.h"
#include "tests/support/stored_model.h"
#include "tests/unit/cli/launched.h"

namespace harmonaize {
namespace {

namespace fs = std::filesystem;

class CheckpointStore : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "harmonaize-cli-store-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    above_ = pattern;
    folder_ = pattern + "/store";
    const Result<store::Store> made = store::Store::Open(folder_);
    ASSERT_TRUE(made.ok());
    for (const uint64_t step : {100, 200}) {
      const Status saved = testing::SaveModel(
          *made, {.folder = folder_, .job = "llama", .ranks = 2}, step, step, step == 100);
      ASSERT_TRUE(saved.ok()) << saved.ToString();
    }
  }
  void TearDown() override { fs::remove_all(above_); }

  /// Runs `harmonaize checkpoints` with these words, and returns what it prints.
  std::string Run(std::vector<std::string> words, int status = 0) {
    words.insert(words.begin(), "checkpoints");
    Launched command(std::move(words));
    EXPECT_EQ(command.Wait(), status) << command.error();
    return command.output() + command.error();
  }

  std::string above_;
  std::string folder_;
};

TEST_F(CheckpointStore, IsListed) {
  const std::string table = Run({"list", folder_});
  // The times are those of the test.
  EXPECT_TRUE(table.starts_with("step  state      format       committed (UTC)")) << table;
  EXPECT_NE(table.find("\n200   committed  safetensors"), std::string::npos) << table;
  EXPECT_NE(table.find("\n100   kept       safetensors"), std::string::npos) << table;
  const Result<Json> document = ParseDocument(Run({"list", folder_, "--json"}));
  ASSERT_TRUE(document.ok());
  const Json& list = ListAt(*document, "checkpoints");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(CountAt(list[0], "step"), 200u);
  EXPECT_EQ(CountAt(list[0], "ranks"), 2u);
  EXPECT_EQ(TextAt(list[0], "job"), "llama");
  EXPECT_LT(CountAt(list[0], "new_bytes"), CountAt(list[0], "bytes"));
  EXPECT_TRUE(YesAt(list[1], "kept"));
}

TEST_F(CheckpointStore, ShowsItsTensors) {
  const std::string table = Run({"show", folder_, "--step", "100"});
  EXPECT_TRUE(table.starts_with("step 100 of 2 ranks, 8.91 MiB in ")) << table;
  EXPECT_NE(
      table.find("module.embedding.frozen      BF16    [2051, 1024]  4.01 MiB       2    0-1"),
      std::string::npos)
      << table;
  EXPECT_NE(table.find("rng.1                        object  [101]"), std::string::npos) << table;
  EXPECT_NE(Run({"show", folder_, "--step", "7"}, 1).find("no committed checkpoint of step 7"),
            std::string::npos);
}

TEST_F(CheckpointStore, IsVerified) {
  EXPECT_TRUE(Run({"verify", folder_}).starts_with("step 200 is whole: 10 tensors and objects, "));
  EXPECT_NE(Run({"verify", folder_, "--all"}).find("\nstep 100 is whole"), std::string::npos);
  for (const auto& entry : fs::recursive_directory_iterator(folder_ + "/steps")) {
    if (entry.path().filename() == "part-00001.jsonl") fs::resize_file(entry.path(), 100);
  }
  const std::string answer = Run({"verify", folder_, "--all"}, 1);
  EXPECT_NE(answer.find("step 200 is damaged:\n  "), std::string::npos) << answer;
  EXPECT_NE(answer.find("step 100 is damaged:\n  "), std::string::npos) << answer;
  // The newest is named although it cannot be opened.
  EXPECT_TRUE(Run({"verify", folder_}, 1).starts_with("step 200 is damaged:\n  "));
  EXPECT_NE(Run({"verify", folder_, "--step", "7"}, 1).find("no committed checkpoint of step 7"),
            std::string::npos);
  const Result<Json> document = ParseDocument(Run({"verify", folder_, "--json"}, 1));
  ASSERT_TRUE(document.ok());
  EXPECT_FALSE(YesAt(ListAt(*document, "checkpoints")[0], "whole"));
}

TEST_F(CheckpointStore, IsExported) {
  const std::string target = above_ + "/model";
  const std::string answer = Run({"export", folder_, target, "--format", "safetensors"});
  EXPECT_TRUE(answer.starts_with("step 200 is in " + target + ": 2 files, ")) << answer;
  EXPECT_TRUE(fs::exists(target + "/model.safetensors"));
  EXPECT_NE(Run({"export", folder_, target, "--format", "dcp"}, 1).find("exists"),
            std::string::npos);
  Run({"export", folder_, above_ + "/other"}, 2);
  EXPECT_FALSE(fs::exists(above_ + "/other"));
}

TEST_F(CheckpointStore, AFolderOfSomethingElseIsNone) {
  EXPECT_NE(Run({"list", above_}, 1).find("is no store of checkpoints"), std::string::npos);
  EXPECT_NE(Run({"verify", above_ + "/nothing"}, 1).find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace harmonaize
