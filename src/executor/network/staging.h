#pragma once

#include <cstddef>
#include <new>

namespace harmonaize {

/// Memory of one thread for data on its way: slices of private buffers and of scratch blocks. It
/// grows to the largest size requested, and never shrinks.
class StagingArea {
 public:
  explicit StagingArea(size_t bytes) { Reserve(bytes); }
  ~StagingArea();
  StagingArea(const StagingArea&) = delete;
  StagingArea& operator=(const StagingArea&) = delete;

  /// Makes room for `bytes`; the contents are lost when it has to grow.
  void Reserve(size_t bytes);
  /// Returns the area, which is aligned to a page.
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace harmonaize
