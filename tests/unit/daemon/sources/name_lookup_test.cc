#include "daemon/sources/name_lookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

namespace harmonaize::daemon {
namespace {

using Addresses = Result<std::vector<std::string>>;

TEST(NameLookup, FindsTheAddressesOfAName) {
  boost::asio::io_context io;
  const auto stays = boost::asio::make_work_guard(io);
  NameLookup lookup(io);
  std::optional<Addresses> found;
  ASSERT_TRUE(
      lookup.Start("localhost", [&](const Addresses& addresses) { found = addresses; }).ok());
  io.run_one_for(std::chrono::seconds(30));
  ASSERT_TRUE(found.has_value());
  ASSERT_TRUE(found->ok()) << found->status().message();
  EXPECT_TRUE(std::any_of((*found)->begin(), (*found)->end(), [](const std::string& one) {
    return one == "127.0.0.1" || one == "::1";
  }));
}

TEST(NameLookup, ANameThatDoesNotExistIsAnError) {
  boost::asio::io_context io;
  const auto stays = boost::asio::make_work_guard(io);
  NameLookup lookup(io);
  std::optional<Addresses> found;
  // No name server is asked for a name that has an empty label.
  ASSERT_TRUE(lookup.Start("a..b", [&](const Addresses& addresses) { found = addresses; }).ok());
  io.run_one_for(std::chrono::seconds(30));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->status().code(), Code::kRemoteError);
}

TEST(NameLookup, OneThatIsGivenUpIsNotHeardOfThoughTheIoContextIsGone) {
  int heard = 0;
  for (int i = 0; i < 50; ++i) {
    boost::asio::io_context io;
    NameLookup lookup(io);
    ASSERT_TRUE(lookup.Start("localhost", [&](const Addresses&) { ++heard; }).ok());
    if (i % 2 == 0) lookup.GiveUp();
    // Every second one is given up by its end.
  }
  EXPECT_EQ(heard, 0);
}

TEST(NameLookup, OneThatIsGivenUpMayHoldUpTheNext) {
  boost::asio::io_context io;
  const auto stays = boost::asio::make_work_guard(io);
  NameLookup lookup(io);
  int given_up = 0;
  ASSERT_TRUE(lookup.Start("localhost", [&](const Addresses&) { ++given_up; }).ok());
  lookup.GiveUp();
  bool found = false;
  Status status;
  do {
    status = lookup.Start("localhost", [&](const Addresses&) { found = true; });
    EXPECT_TRUE(status.ok() || status.code() == Code::kUnavailable) << status.message();
  } while (!status.ok());
  while (!found && io.run_one_for(std::chrono::seconds(30)) > 0) {
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(given_up, 0);
}

}  // namespace
}  // namespace harmonaize::daemon
