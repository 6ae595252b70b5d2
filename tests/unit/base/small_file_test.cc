#include "src/base/small_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace harmonaize {
namespace {

class SmallFileTest : public ::testing::Test {
 protected:
  SmallFileTest() {
    char name[] = "/tmp/harmonaize-small-file-test-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~SmallFileTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(SmallFileTest, AFileUpToTheLimitIsReadAndALongerOneIsNot) {
  const std::string path = folder_ + "/file";
  std::ofstream(path) << std::string(100, 'x');
  EXPECT_EQ(*ReadSmallFile(path, 100), std::string(100, 'x'));
  EXPECT_EQ(ReadSmallFile(path, 99).status().code(), Code::kInvalidUsage);
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_EQ(*ReadSmallFile(path, 100), "");
}

TEST_F(SmallFileTest, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ReadSmallFile(pipe, 100).status().code(), Code::kInvalidUsage);
  EXPECT_EQ(ReadSmallFile("/dev/zero", 100).status().code(), Code::kInvalidUsage);
  EXPECT_EQ(ReadSmallFile(folder_, 100).status().code(), Code::kInvalidUsage);
  EXPECT_EQ(ReadSmallFile(folder_ + "/none", 100).status().code(), Code::kSystemError);
}

}  // namespace
}  // namespace harmonaize
