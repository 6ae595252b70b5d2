#include "daemon/checkpoint/choice_board.h"

#include <utility>

namespace harmonaize::daemon {

void ChoiceBoard::Post(std::string choice) {
  Take(last_ + 1, std::move(choice));
}

void ChoiceBoard::Take(uint64_t number, std::string choice) {
  if (number <= last_) return;
  // A number is left out only where a message was lost, after which nothing before it is heard.
  if (number != last_ + 1) choices_.clear();
  last_ = number;
  choices_.push_back(std::move(choice));
  if (choices_.size() > kMostKept) choices_.pop_front();
}

Result<std::optional<std::string>> ChoiceBoard::Hear(int rank) {
  uint64_t& heard = heard_[rank];
  if (heard >= last_) return std::optional<std::string>();
  const uint64_t oldest = last_ - choices_.size() + 1;
  if (heard + 1 < oldest) {
    return InvalidUsage("rank {} has not taken part in {} choices of a checkpoint to read", rank,
                        oldest - heard - 1);
  }
  ++heard;
  return std::optional<std::string>(choices_[heard - oldest]);
}

}  // namespace harmonaize::daemon
