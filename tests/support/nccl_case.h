#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nccl.h"
#include "tests/support/reference.h"

namespace harmonaize::testing {

/// Memory of a case's buffers. kHeapOnStream: heap memory, with the call on a host stream of its
/// own. A caller that waits for a heap buffer may copy it; one that does not wait leaves that to
/// the daemon.
enum class Memory { kHeap, kRegistered, kHeapOnStream };

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
  /// Returns whether nothing was written outside.
  bool GuardsIntact() const;

 private:
  Memory memory_;
  void* base_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_;
};

/// Makes the NCCL call for a case, from one rank. kSend stands for a ring: a send to the next rank
/// and a receive from the one before, in a group.
ncclResult_t Call(const Case& collective, const void* send, void* receive, ncclRedOp_t op, int rank,
                  ncclComm_t communicator, cudaStream_t stream);

/// Runs a case on one rank and compares all bytes with `expected` (this rank's entry of Reference);
/// a receive buffer that the rank does not use must stay unchanged. gtest failures name the case.
/// `matches` replaces the test for equality.
void RunAndCheck(const Case& collective, Memory memory, bool in_place, int rank, const Bytes& input,
                 uint64_t scalar, const Bytes& expected, ncclComm_t communicator,
                 const std::function<bool(const Bytes& got, const Bytes& expected)>& matches = {});

/// A case with its data and the expected result of each rank.
struct PreparedCase {
  Case c;
  std::vector<Bytes> inputs;      // by rank
  std::vector<uint64_t> scalars;  // by rank
  std::vector<Bytes> expected;    // by rank
};
PreparedCase Prepare(const Case& c);

/// The ways to run a case, as bits.
enum Ways : unsigned {
  kHeapBeside = 1,  // send and receive buffers apart
  kHeapInPlace = 2,
  kRegisteredBeside = 4,
  kRegisteredInPlace = 8,
  kAllWays = 15,
  // From the heap, on a host stream.
  kStreamBeside = 16,
  kStreamInPlace = 32,
  // Two ways that together have every memory and every placement once.
  kHalfOfTheWays = kHeapBeside | kRegisteredInPlace,
  kOtherHalfOfTheWays = kHeapInPlace | kRegisteredBeside,
};

/// Calls RunAndCheck in each of the `ways` that NCCL defines for the collective.
void RunInWays(const PreparedCase& prepared, unsigned ways, int rank, ncclComm_t communicator,
               const std::function<bool(const Bytes& got, const Bytes& expected)>& matches = {});

/// Returns "AllReduce float32 sum 3 ranks root 0 count 17 in place heap".
std::string Describe(const Case& collective, Memory memory, bool in_place);

}  // namespace harmonaize::testing
