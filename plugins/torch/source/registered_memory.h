#pragma once

#include <c10/core/Allocator.h>

#include <memory>

#include "plugins/torch/source/torch_version.h"

namespace harmonaize_torch {

/// Memory that the daemon maps too (ncclMemAlloc): operations on it copy nothing. Thread: any.
class RegisteredAllocator : public c10::Allocator {
 public:
  // One of the first two is c10's, by its version; the last is a part of newer ones. So none is
  // marked as overriding.
  c10::DataPtr allocate(size_t bytes);
  c10::DataPtr allocate(size_t bytes) const;
  void copy_data(void* to, const void* from, size_t bytes) const;

  c10::DeleterFnPtr raw_deleter() const override;
};

/// Returns the allocator, which lives until the process ends.
const std::shared_ptr<RegisteredAllocator>& Registered();

/// Returns a tensor of one dimension in such memory, zeroed.
at::Tensor RegisteredTensor(int64_t elements, const at::TensorOptions& options);

}  // namespace harmonaize_torch
