#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "nccl.h"
#include "tests/support/reference.h"

namespace harmonaize::testing {

enum class Memory { kHeap, kRegistered };

/// A buffer with guard bytes on both sides, at an address that is a multiple of the element size
/// but of nothing larger.
class GuardedBuffer {
 public:
  GuardedBuffer(Memory memory, size_t bytes, size_t element_bytes);
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  std::byte* data() { return data_; }
  size_t size() const { return size_; }
  void Fill(const Bytes& content);
  Bytes Content() const;
  /// Whether nobody wrote outside.
  bool GuardsIntact() const;

 private:
  Memory memory_;
  void* base_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_;
};

/// The NCCL call for a case, from one rank. kSend stands for a ring: a send to the next rank and a
/// receive from the one before, in a group.
ncclResult_t Call(const Case& collective, const void* send, void* receive, ncclRedOp_t op, int rank,
                  ncclComm_t communicator, cudaStream_t stream);

/// Runs a case on one rank and compares with `expected` (this rank's entry of Reference), all bytes
/// of it; a receive buffer that the rank does not own must stay as it was. gtest failures name the
/// case. `matches` judges in place of equality.
void RunAndCheck(const Case& collective, Memory memory, bool in_place, int rank, const Bytes& input,
                 uint64_t scalar, const Bytes& expected, ncclComm_t communicator,
                 const std::function<bool(const Bytes& got, const Bytes& expected)>& matches = {});

/// "AllReduce float32 sum 3 ranks root 0 count 17 in place heap".
std::string Describe(const Case& collective, Memory memory, bool in_place);

}  // namespace harmonaize::testing
