#include "plugins/torch/source/introduction.h"

#include <algorithm>
#include <iomanip>
#include <iterator>
#include <random>
#include <sstream>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "plugins/torch/source/errors.h"

namespace harmonaize_torch {
namespace {

/// Begins the keys of the ranks' questions.
constexpr const char* kQuestion = "harmonaize/question/";
/// Begins the keys of rank 0's answers.
constexpr const char* kAnswer = "harmonaize/answer/";

/// Returns the bytes of a value of the store, or nothing if it has none yet.
/// Throws: c10::Error if they are not `size` ones.
std::vector<uint8_t> BytesAt(c10d::Store& store, const std::string& key, size_t size) {
  if (!store.check({key})) return {};
  std::vector<uint8_t> bytes = store.get(key);
  TORCH_CHECK(bytes.size() == size, "the store has ", bytes.size(), " bytes at ", key, " where ",
              size, " should be: ranks use different versions of this backend");
  return bytes;
}

}  // namespace

Introduction::Introduction(GroupPlace place) : place_(std::move(place)), question_(Draw()) {
  if (place_.rank == 0) {
    Check("Making a communicator's id", Library::Get().ncclGetUniqueId(&told_.id));
    told_.part = question_;
    answered_.resize(static_cast<size_t>(place_.size));
    knows_ = true;
  } else {
    place_.store->set(kQuestion + std::to_string(place_.rank),
                      std::vector<uint8_t>(question_.begin(), question_.end()));
  }
}

Introduction::Token Introduction::Draw() {
  std::random_device random;
  Token token;
  std::generate(token.begin(), token.end(), [&] { return static_cast<uint8_t>(random()); });
  return token;
}

bool Introduction::Advance() {
  if (place_.rank == 0) {
    for (int rank = 1; rank < place_.size; ++rank) AnswerRank(rank);
  } else if (!knows_) {
    knows_ = TakeAnswer();
  }
  return knows_;
}

void Introduction::AnswerRank(int rank) {
  const std::vector<uint8_t> asked =
      BytesAt(*place_.store, kQuestion + std::to_string(rank), question_.size());
  Token& answered = answered_[static_cast<size_t>(rank)];
  if (asked.empty() || std::equal(asked.begin(), asked.end(), answered.begin())) return;
  std::vector<uint8_t> answer = asked;
  answer.insert(answer.end(), told_.part.begin(), told_.part.end());
  answer.insert(answer.end(), std::begin(told_.id.internal), std::end(told_.id.internal));
  place_.store->set(kAnswer + std::to_string(rank), answer);
  std::copy(asked.begin(), asked.end(), answered.begin());
}

bool Introduction::TakeAnswer() {
  const std::vector<uint8_t> answer =
      BytesAt(*place_.store, kAnswer + std::to_string(place_.rank),
              question_.size() + told_.part.size() + sizeof told_.id.internal);
  if (answer.empty() || !std::equal(question_.begin(), question_.end(), answer.begin())) {
    return false;
  }
  const auto part = answer.begin() + static_cast<std::ptrdiff_t>(question_.size());
  const auto id = part + static_cast<std::ptrdiff_t>(told_.part.size());
  std::copy(part, id, told_.part.begin());
  std::copy(id, answer.end(), told_.id.internal);
  return true;
}

GroupPlace Introduction::place() const {
  std::ostringstream part;
  part << "harmonaize/" << std::hex << std::setfill('0');
  for (const uint8_t byte : told_.part) part << std::setw(2) << static_cast<unsigned>(byte);
  GroupPlace own = place_;
  own.store = c10::make_intrusive<c10d::PrefixStore>(part.str(), place_.store);
  return own;
}

std::vector<int> Introduction::Missing() const {
  // Rank 0 asks nothing, and whoever waits for an answer lacks it.
  return RanksWithoutKey(place_, kQuestion);
}

}  // namespace harmonaize_torch
