#include "plugins/torch/source/registered_memory.h"

#include <cstring>

#include "plugins/torch/source/errors.h"

namespace harmonaize_torch {
namespace {

void Free(void* memory) {
  static_cast<void>(Library::Get().ncclMemFree(memory));
}

}  // namespace

c10::DataPtr RegisteredAllocator::allocate(size_t bytes) const {
  void* memory = nullptr;
  const InHostMemory in_host_memory;
  Check("Allocating " + std::to_string(bytes) + " bytes of shared memory",
        Library::Get().ncclMemAlloc(&memory, bytes));
  return {memory, memory, &Free, c10::Device(c10::DeviceType::CPU)};
}

c10::DataPtr RegisteredAllocator::allocate(size_t bytes) {
  return static_cast<const RegisteredAllocator*>(this)->allocate(bytes);
}

void RegisteredAllocator::copy_data(void* to, const void* from, size_t bytes) const {
  std::memcpy(to, from, bytes);
}

c10::DeleterFnPtr RegisteredAllocator::raw_deleter() const {
  return &Free;
}

const std::shared_ptr<RegisteredAllocator>& Registered() {
  // Never destroyed: tensors may outlive what the process's end destroys.
  static const auto* const allocator =
      new std::shared_ptr<RegisteredAllocator>(std::make_shared<RegisteredAllocator>());
  return *allocator;
}

at::Tensor RegisteredTensor(int64_t elements, const at::TensorOptions& options) {
  TORCH_CHECK_VALUE(elements >= 0, "a tensor cannot have ", elements, " elements");
  TORCH_CHECK(!options.has_device() || options.device().is_cpu(),
              "Harmonaize allocates CPU tensors, and was asked for one on ", options.device());
  const size_t bytes = static_cast<size_t>(elements) * options.dtype().itemsize();
  const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, Registered()->allocate(bytes),
                             Registered().get(), /*resizable=*/false);
  return at::empty({0}, options.requires_grad(false)).set_(storage, 0, {elements}, {1});
}

}  // namespace harmonaize_torch
