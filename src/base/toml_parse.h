#pragma once

// For the sources that see toml++ itself; it takes a compiler seconds.

// toml++ asserts on some malformed documents that it goes on to report.
#define TOML_ASSERT(expression) static_cast<void>(0)
#include <toml++/toml.h>

#include <string_view>
#include <utility>

#include "src/base/status.h"

namespace harmonaize {

/// kInvalidArgument says in which place the document `name` is malformed.
inline Result<toml::table> ParseToml(std::string_view text, std::string_view name) {
  toml::parse_result parsed = toml::parse(text, name);
  if (parsed) return std::move(parsed).table();
  const toml::parse_error& error = parsed.error();
  return InvalidArgument("{}:{}:{}: {}", name, error.source().begin.line,
                         error.source().begin.column, error.description());
}

}  // namespace harmonaize
