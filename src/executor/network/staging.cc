#include "src/executor/network/staging.h"

#include <algorithm>

namespace harmonaize {
namespace {

constexpr std::align_val_t kAlignment{4096};

}  // namespace

StagingArea::~StagingArea() {
  if (data_ != nullptr) ::operator delete(data_, kAlignment);
}

void StagingArea::Reserve(size_t bytes) {
  if (bytes <= capacity_) return;
  if (data_ != nullptr) ::operator delete(data_, kAlignment);
  data_ = static_cast<std::byte*>(::operator new(bytes, kAlignment));
  capacity_ = bytes;
  // The pages are touched now, so that the first operation does not pay for the faults.
  std::fill_n(data_, capacity_, std::byte{0});
}

}  // namespace harmonaize
