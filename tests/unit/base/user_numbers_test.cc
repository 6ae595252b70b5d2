#include "src/base/user_numbers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace harmonaize {
namespace {

using Known = UserNumbers::Known;

class UserNumbersTest : public ::testing::Test {
 protected:
  UserNumbersTest() {
    char name[] = "/tmp/harmonaize-users-test-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~UserNumbersTest() override { std::filesystem::remove_all(folder_); }

  UserNumbers With(const std::string& map, const std::string& overflow = "65534\n") {
    std::ofstream(folder_ + "/map") << map;
    std::ofstream(folder_ + "/overflow") << overflow;
    return UserNumbers::OfThisProcess(folder_ + "/map", folder_ + "/overflow");
  }

  std::string folder_;
};

TEST_F(UserNumbersTest, KnowAllUsersWhereTheMapIsTheIdentity) {
  const UserNumbers numbers = With("         0          0 4294967295\n");
  EXPECT_EQ(numbers.known, Known::kAll);
  EXPECT_FALSE(numbers.MayBeAnybody(65534));
  EXPECT_TRUE(numbers.IsSelfOrRoot(0));
  EXPECT_TRUE(numbers.IsSelfOrRoot(geteuid()));
  EXPECT_FALSE(numbers.IsSelfOrRoot(geteuid() + 1));
}

TEST_F(UserNumbersTest, KnowSomeUsersElsewhere) {
  for (const std::string map : {"0 1000 1\n", "0 0 65536\n", "0 1 4294967294\n", "1 0 4294967295\n",
                                "0 1000 1\n1 100000 65536\n", ""}) {
    const UserNumbers numbers = With(map, "65533\n");
    EXPECT_EQ(numbers.known, Known::kSome) << map;
    EXPECT_TRUE(numbers.MayBeAnybody(65533));
    EXPECT_FALSE(numbers.MayBeAnybody(65534));
    EXPECT_FALSE(numbers.MayBeAnybody(0));
    EXPECT_FALSE(numbers.IsSelfOrRoot(65533));
  }
  // Neither root nor oneself, where the kernel is told to show strangers with such a number.
  EXPECT_FALSE(With("", "0\n").IsSelfOrRoot(0));
  EXPECT_FALSE(With("", std::to_string(geteuid()) + "\n").IsSelfOrRoot(geteuid()));
}

TEST_F(UserNumbersTest, CannotTellWithoutAMap) {
  const UserNumbers numbers = UserNumbers::OfThisProcess(folder_ + "/none", folder_ + "/none");
  EXPECT_EQ(numbers.known, Known::kCannotTell);
  EXPECT_TRUE(numbers.MayBeAnybody(65534));
}

}  // namespace
}  // namespace harmonaize
