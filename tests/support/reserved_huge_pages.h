#pragma once

#include <cstdint>
#include <vector>

#include "src/memory/shared_memory.h"

namespace harmonaize::testing {

/// Makes sure that the host's pool has free huge pages of the default size, by reserving some where
/// that is permitted (root), and returns these at the end. Only one at a time on a host.
class ReservedHugePages {
 public:
  explicit ReservedHugePages(int pages);
  ~ReservedHugePages();
  ReservedHugePages(const ReservedHugePages&) = delete;
  ReservedHugePages& operator=(const ReservedHugePages&) = delete;

  /// Returns false if this host has none to give. A test skips then.
  bool available() const { return available_; }
  uint64_t page_bytes() const { return page_bytes_; }

  /// Takes every free page, until Release or the end.
  void Exhaust();
  void Release() { taken_.clear(); }

 private:
  uint64_t page_bytes_ = 0;
  bool available_ = false;
  long before_ = -1;  // vm.nr_hugepages, when it was changed
  FileDescriptor lock_;
  std::vector<Mapping> taken_;
};

}  // namespace harmonaize::testing
