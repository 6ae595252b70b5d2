// Checks of texts made for people.
#pragma once

#include <gtest/gtest.h>
#include <regex.h>

#include <sstream>
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

/// Returns how many lines of `text` match the POSIX extended regular expression as a whole.
inline int LinesLike(const std::string& text, const std::string& expression) {
  regex_t line;
  if (regcomp(&line, ("^(" + expression + ")$").c_str(), REG_EXTENDED | REG_NOSUB) != 0) return -1;
  std::istringstream lines(text);
  int count = 0;
  for (std::string one; std::getline(lines, one);) {
    count += regexec(&line, one.c_str(), 0, nullptr, 0) == 0 ? 1 : 0;
  }
  regfree(&line);
  return count;
}

}  // namespace harmonaize
