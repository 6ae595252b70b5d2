#include "daemon/runtime/guarded.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

#include "src/base/clean_text.h"

namespace harmonaize::daemon {
namespace {

template <typename Exception>
Status Seen(const Exception& exception) {
  Status seen;
  EXPECT_TRUE(Guarded([&] { throw exception; }, [&](const Status& status) { seen = status; }));
  return seen;
}

TEST(Guarded, WhoAskedGetsTheExceptionAsAnError) {
  EXPECT_EQ(Seen(std::bad_alloc()).code(), Code::kSystemError);
  EXPECT_NE(Seen(std::bad_alloc()).message().find("memory"), std::string::npos);
  EXPECT_EQ(Seen(std::runtime_error("a reason")).code(), Code::kInternalError);
  EXPECT_NE(Seen(std::runtime_error("a reason")).message().find("a reason"), std::string::npos);
  EXPECT_EQ(Seen(3).code(), Code::kInternalError);
}

TEST(Guarded, WhatAnExceptionQuotesIsCleaned) {
  const std::string message =
      Seen(std::runtime_error("\x1b[2J\xff" + std::string(9000, 'x'))).message();
  EXPECT_LT(message.size(), 400u);
  EXPECT_EQ(CleanText(message, message.size()), message);
}

TEST(Guarded, WhatGoesWellIsLeftAlone) {
  int calls = 0;
  EXPECT_TRUE(Guarded([&] { ++calls; }, [&](const Status&) { calls += 100; }));
  EXPECT_EQ(calls, 1);
}

TEST(Guarded, AnExceptionAboutAnExceptionIsTold) {
  EXPECT_FALSE(Guarded([] { throw 1; }, [](const Status&) { throw std::bad_alloc(); }));
}

TEST(Guarded, ResultsAreOfTheCallOrOfItsException) {
  EXPECT_EQ(*Caught([]() -> Result<int> { return 4; }), 4);
  EXPECT_EQ(Caught([]() -> Status { return InvalidUsage("no"); }).code(), Code::kInvalidUsage);
  EXPECT_EQ(Caught([]() -> Result<int> { throw std::bad_alloc(); }).status().code(),
            Code::kSystemError);
}

}  // namespace
}  // namespace harmonaize::daemon
