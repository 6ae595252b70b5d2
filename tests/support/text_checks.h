// What a text made for people must say.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "src/base/status.h"

namespace harmonaize {

inline void ExpectHolds(const std::string& text, const std::string& what) {
  EXPECT_NE(text.find(what), std::string::npos) << "'" << what << "' is not in\n" << text;
}

inline void ExpectHolds(const Result<std::string>& text, const std::string& what) {
  ASSERT_TRUE(text.ok()) << text.status().message();
  ExpectHolds(*text, what);
}

}  // namespace harmonaize
