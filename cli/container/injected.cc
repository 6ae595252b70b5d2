#include "cli/container/injected.h"

#include <fmt/format.h>

namespace harmonaize {

std::optional<std::string> AssignedValue(const Injected& injected, std::string_view name) {
  std::optional<std::string> value;
  for (const std::string& assignment : injected.assignments) {
    const size_t equals = assignment.find('=');
    if (std::string_view(assignment).substr(0, equals) == name) {
      value = assignment.substr(equals + 1);
    }
  }
  return value;
}

std::string JoinPreload(const std::string& library, std::string_view others) {
  return others.empty() ? library : fmt::format("{}:{}", library, others);
}

}  // namespace harmonaize
