#include "daemon/promises/record_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "daemon/promises/record_keeper.h"
#include "daemon/runtime/background.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

using Records = std::vector<Record>;

class RecordStoreTest : public ::testing::Test {
 protected:
  RecordStoreTest() {
    std::string folder = ::testing::TempDir() + "records.XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    path_ = folder_ + "/promises.sqlite3";
    SetLog(LogLevel::kError, kLogAll, nullptr);
  }
  ~RecordStoreTest() override {
    SetLog(LogLevel::kWarning, kLogAll, nullptr);
    std::filesystem::remove_all(folder_);
  }

  Records Kept() const {
    Result<std::unique_ptr<RecordStore>> store = RecordStore::Open(path_);
    EXPECT_TRUE(store.ok()) << store.status().message();
    if (!store.ok()) return {};
    const Result<Records> records = (*store)->Read();
    EXPECT_TRUE(records.ok()) << records.status().message();
    return records.ok() ? *records : Records{};
  }
  void Write(const Record& record) const {
    Result<std::unique_ptr<RecordStore>> store = RecordStore::Open(path_);
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_TRUE((*store)->Put(record).ok());
  }
  bool IsSetAside() const { return std::filesystem::exists(path_ + ".damaged"); }

  std::string folder_;
  std::string path_;
};

TEST_F(RecordStoreTest, KeepsWhatWasPutLast) {
  {
    Result<std::unique_ptr<RecordStore>> store = RecordStore::Open(path_);
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_TRUE((*store)->Put({"b", "1", "old"}).ok());
    EXPECT_TRUE((*store)->Put({"b", "1", "new"}).ok());
    EXPECT_TRUE((*store)->Put({"a", "2", "x'y\"z"}).ok());
    EXPECT_TRUE((*store)->Put({"a", "1", "gone"}).ok());
    EXPECT_TRUE((*store)->Remove("a", "1").ok());
    EXPECT_TRUE((*store)->Remove("a", "never there").ok());
  }
  EXPECT_EQ(Kept(), (Records{{"a", "2", "x'y\"z"}, {"b", "1", "new"}}));
  struct stat found {};
  ASSERT_EQ(stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

TEST_F(RecordStoreTest, RefusesWhatIsTooLong) {
  Result<std::unique_ptr<RecordStore>> store = RecordStore::Open(path_);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->Put({"a", "1", std::string(kMostRecordBytes + 1, 'x')}).code(),
            Code::kInvalidArgument);
  EXPECT_EQ((*store)->Put({"a", std::string(kMostRecordKeyBytes, 'x'), ""}).code(),
            Code::kInvalidArgument);
  EXPECT_TRUE((*store)->Put({"a", "1", std::string(kMostRecordBytes, 'x')}).ok());
}

TEST_F(RecordStoreTest, SetsADamagedFileAsideAndBeginsAnew) {
  Write({"a", "1", "text"});
  for (const std::string& bytes :
       {std::string("this is no database at all"), std::string(8192, '\0'),
        std::string("SQLite format 3\0abc", 19)}) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    std::filesystem::remove(path_ + "-wal");
    std::filesystem::remove(path_ + ".damaged");
    EXPECT_EQ(Kept(), Records{});
    EXPECT_TRUE(IsSetAside()) << bytes.substr(0, 10);
    Write({"a", "2", "again"});
    EXPECT_EQ(Kept(), (Records{{"a", "2", "again"}}));
  }
}

TEST_F(RecordStoreTest, SetsAFileWithFlippedBytesAsideOrReadsIt) {
  Write({"a", "1", std::string(200, 't')});
  std::ifstream file(path_, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  ASSERT_GT(whole.size(), 4096u);
  for (size_t at = 0; at < whole.size(); at += 97) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    for (const char* const ending : {"-wal", "-shm", ".damaged"}) {
      std::filesystem::remove(path_ + ending);
    }
    EXPECT_LE(Kept().size(), 1u) << at;
  }
}

TEST_F(RecordStoreTest, TakesNoFileThatAnotherHas) {
  Result<std::unique_ptr<RecordStore>> first = RecordStore::Open(path_);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE((*first)->Put({"a", "1", "text"}).ok());
  const Result<std::unique_ptr<RecordStore>> second = RecordStore::Open(path_);
  EXPECT_EQ(second.status().code(), Code::kSystemError) << second.status().message();
  EXPECT_FALSE(IsSetAside());
}

TEST_F(RecordStoreTest, KeeperWritesFromManyThreadsWithoutLoss) {
  Background background;
  {
    Result<std::unique_ptr<RecordKeeper>> keeper = RecordKeeper::Open(path_, &background);
    ASSERT_TRUE(keeper.ok()) << keeper.status().message();
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < 100; ++i) {
          (*keeper)->Put({"k", std::to_string(thread), std::to_string(i)});
          if (i % 10 == 9) (*keeper)->Flush();
        }
        (*keeper)->Put({"gone", std::to_string(thread), ""});
        (*keeper)->Remove("gone", std::to_string(thread));
      });
    }
    for (std::thread& thread : threads) thread.join();
    (*keeper)->Flush();
  }
  // The posted calls may hold the store for a moment.
  Records kept;
  for (int i = 0; i < 1000; ++i) {
    Result<std::unique_ptr<RecordStore>> store = RecordStore::Open(path_);
    if (store.ok()) {
      kept = *(*store)->Read();
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(kept,
            (Records{{"k", "0", "99"}, {"k", "1", "99"}, {"k", "2", "99"}, {"k", "3", "99"}}));
}

}  // namespace
}  // namespace harmonaize::daemon
