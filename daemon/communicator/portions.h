#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "daemon/communicator/communicator.h"

namespace harmonaize::daemon {

/// Does a communicator's work that consists of many pieces some pieces at a time, so that the
/// engine serves other tenants in between. Thread: engine.
class Portions {
 public:
  /// `do_one` does one piece, and returns false if there was none. `at_once` is how many pieces
  /// make a portion. Requires: the communicator outlives this object.
  Portions(Communicator* communicator, size_t at_once, std::function<bool()> do_one)
      : communicator_(communicator), at_once_(at_once), do_one_(std::move(do_one)) {}
  Portions(const Portions&) = delete;
  Portions& operator=(const Portions&) = delete;

  /// Does a portion now and the rest soon. While there is a rest, or from within a piece, it does
  /// nothing: new pieces wait behind the earlier ones.
  void Begin() {
    if (!std::exchange(begun_, true)) DoPortion();
  }

 private:
  void DoPortion() {
    try {
      for (size_t done = 0; done < at_once_; ++done) {
        if (do_one_()) continue;
        begun_ = false;
        return;
      }
      communicator_->CallSoon([this] { DoPortion(); });
    } catch (...) {
      begun_ = false;  // the next Begin goes on
      throw;
    }
  }

  Communicator* const communicator_;
  const size_t at_once_;
  const std::function<bool()> do_one_;
  bool begun_ = false;
};

}  // namespace harmonaize::daemon
