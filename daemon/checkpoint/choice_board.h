#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// What rank 0 of a communicator has chosen for all ranks, one choice after the other: which
/// checkpoint they read. Each rank hears each choice once, in their order. The daemon does not know
/// what they mean. A plain value.
class ChoiceBoard {
 public:
  /// Choices that ranks may be behind. A rank takes part in a choice before rank 0 needs the next
  /// one, unless their programs differ.
  static constexpr size_t kMostKept = 8;

  /// Adds a choice.
  void Post(std::string choice);
  /// Takes in a choice that was posted elsewhere, by its number from 1 on. One that came before
  /// changes nothing.
  void Take(uint64_t number, std::string choice);
  /// Number of the last choice; 0: there was none.
  uint64_t last() const { return last_; }

  /// Returns the next choice for a rank; nullopt if it has not been made. Errors: kInvalidUsage if
  /// the rank is too far behind.
  Result<std::optional<std::string>> Hear(int rank);

 private:
  uint64_t last_ = 0;
  std::deque<std::string> choices_;  ///< Up to `last_`.
  std::map<int, uint64_t> heard_;    ///< By rank of this host: the last choice that it has heard.
};

}  // namespace harmonaize::daemon
