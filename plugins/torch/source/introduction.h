#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/torch/source/library.h"
#include "plugins/torch/source/membership.h"
#include "plugins/torch/source/torch_version.h"

namespace harmonaize_torch {

/// How rank 0 of a group tells the other ranks the id of their communicator, and the part of the
/// store that is theirs. The store may still have the keys of a group whose ranks were started
/// before: torchrun's agents keep one store for all of their rounds. So each rank asks a question
/// that nobody has asked before, and takes the answer to that one only. Thread: one at a time.
class Introduction {
 public:
  /// Makes the communicator's id at rank 0, and asks for it at others.
  /// Throws: BackendError without a daemon.
  explicit Introduction(GroupPlace place);

  /// Answers the questions that are new to rank 0, and looks for the answer at others. Has to be
  /// repeated at rank 0 until the group has formed: what it has answered first may be an old one.
  /// Returns whether `id` and `place` are known.
  bool Advance();

  /// The communicator's id. Requires: Advance has returned true.
  const ncclUniqueId& id() const { return told_.id; }

  /// The group's place, with the part of its store that earlier groups have not used. Requires:
  /// Advance has returned true.
  GroupPlace place() const;

  /// Returns the ranks that are known not to have come, before there is an answer.
  std::vector<int> Missing() const;

 private:
  /// Random bytes, which no two processes draw alike.
  using Token = std::array<uint8_t, 16>;

  /// What rank 0 tells.
  struct Told {
    Token part{};  ///< Names the part of the store.
    ncclUniqueId id{};
  };

  static Token Draw();
  void AnswerRank(int rank);
  bool TakeAnswer();

  const GroupPlace place_;
  const Token question_;
  std::vector<Token> answered_;  ///< By rank: the question that rank 0 answered last.
  bool knows_ = false;
  Told told_;
};

}  // namespace harmonaize_torch
