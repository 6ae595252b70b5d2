#include "perf/harness/buffer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace harmonaize::perf {
namespace {

constexpr std::byte kCanary{0x5C};

uint64_t CountDamage(const std::byte* guard) {
  return static_cast<uint64_t>(
      std::count_if(guard, guard + Buffer::kGuardBytes, [](std::byte b) { return b != kCanary; }));
}

}  // namespace

const char* MemoryName(Memory memory) {
  switch (memory) {
    case Memory::kHeap: return "heap";
    case Memory::kRegistered: return "registered";
    case Memory::kWindow: return "window";
  }
  return "?";
}

Status NcclStatus(ncclResult_t result, ncclComm_t comm, const char* call) {
  if (result == ncclSuccess) return Status::Ok();
  const char* details = ncclGetLastError(comm);
  const bool silent = details == nullptr || *details == '\0';
  return RemoteError("{}: {}{}{}", call, ncclGetErrorString(result), silent ? "" : ": ",
                     silent ? "" : details);
}

Buffer::Buffer(Buffer&& other) noexcept
    : memory_(other.memory_),
      base_(std::exchange(other.base_, nullptr)),
      total_(other.total_),
      used_(other.used_),
      registration_(std::exchange(other.registration_, nullptr)),
      window_(std::exchange(other.window_, nullptr)) {}

Buffer::~Buffer() {
  if (base_ == nullptr) return;
  if (memory_ == Memory::kHeap) {
    std::free(base_);
  } else {
    ncclMemFree(base_);
  }
}

Status Buffer::Allocate(Memory memory, size_t bytes) {
  memory_ = memory;
  total_ = bytes + 2 * kGuardBytes;
  void* block = nullptr;
  if (memory == Memory::kHeap) {
    const int error = posix_memalign(&block, 4096, total_);
    if (error != 0) return ErrnoError(error, fmt::format("cannot allocate {} bytes", total_));
  } else {
    HZ_RETURN_IF_ERROR(NcclStatus(ncclMemAlloc(&block, total_), nullptr, "ncclMemAlloc"));
  }
  base_ = static_cast<std::byte*>(block);
  std::memset(base_, 0, total_);
  return Status::Ok();
}

Status Buffer::Register(ncclComm_t comm) {
  if (memory_ == Memory::kRegistered) {
    return NcclStatus(ncclCommRegister(comm, base_, total_, &registration_), comm,
                      "ncclCommRegister");
  }
  if (memory_ == Memory::kWindow) {
    return NcclStatus(
        ncclCommWindowRegister(comm, base_, total_, &window_, NCCL_WIN_COLL_SYMMETRIC), comm,
        "ncclCommWindowRegister");
  }
  return Status::Ok();
}

Status Buffer::Release(ncclComm_t comm) {
  if (registration_ != nullptr) {
    HZ_RETURN_IF_ERROR(NcclStatus(ncclCommDeregister(comm, std::exchange(registration_, nullptr)),
                                  comm, "ncclCommDeregister"));
  }
  if (window_ != nullptr) {
    HZ_RETURN_IF_ERROR(NcclStatus(ncclCommWindowDeregister(comm, std::exchange(window_, nullptr)),
                                  comm, "ncclCommWindowDeregister"));
  }
  std::byte* base = std::exchange(base_, nullptr);
  if (memory_ == Memory::kHeap) {
    std::free(base);
    return Status::Ok();
  }
  return NcclStatus(ncclMemFree(base), comm, "ncclMemFree");
}

void Buffer::ArmGuards(size_t used) {
  used_ = used;
  std::memset(base_, static_cast<int>(kCanary), kGuardBytes);
  std::memset(data() + used, static_cast<int>(kCanary), kGuardBytes);
}

uint64_t Buffer::DamagedGuardBytes() const {
  return CountDamage(base_) + CountDamage(base_ + kGuardBytes + used_);
}

}  // namespace harmonaize::perf
