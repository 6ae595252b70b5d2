#include "src/base/user_numbers.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <optional>

#include "src/base/kernel_files.h"

namespace harmonaize {
namespace {

// Number of 32-bit numbers, without the last, which stands for no user.
constexpr uint64_t kAllUserNumbers = 4294967295;

/// Reads a user map. Each line has the first number inside, the first one outside, and their count.
/// A map without lines knows no user.
UserNumbers::Known ReadMap(const std::string& file) {
  std::ifstream map(file);
  if (!map) return UserNumbers::Known::kCannotTell;
  uint64_t inside = 0;
  uint64_t outside = 0;
  uint64_t count = 0;
  map >> inside >> outside >> count;
  const bool all = map && inside == 0 && outside == 0 && count == kAllUserNumbers;
  return all ? UserNumbers::Known::kAll : UserNumbers::Known::kSome;
}

}  // namespace

UserNumbers UserNumbers::OfThisProcess(const std::string& map_file,
                                       const std::string& overflow_file) {
  UserNumbers numbers;
  numbers.known = ReadMap(map_file);
  if (const std::optional<uint64_t> overflow = NumberIn(overflow_file)) {
    numbers.overflow_user = static_cast<uid_t>(*overflow);
  }
  return numbers;
}

bool UserNumbers::IsSelfOrRoot(uid_t user) const {
  return !MayBeAnybody(user) && (user == 0 || user == geteuid());
}

}  // namespace harmonaize
