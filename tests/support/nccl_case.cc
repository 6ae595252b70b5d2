#include "tests/support/nccl_case.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xA5};
constexpr std::byte kUntouched{0x5C};

/// Where in-place puts a rank's send buffer inside its receive buffer, or the other way round.
struct InPlaceLayout {
  size_t send_offset = 0;
  size_t receive_offset = 0;
};

InPlaceLayout LayoutOf(const Case& c, int rank) {
  const size_t block = c.count * DataTypeSize(c.type);
  const size_t own = block * static_cast<size_t>(rank);
  switch (c.collective) {
    case Collective::kAllGather: return {own, 0};
    case Collective::kReduceScatter: return {0, own};
    case Collective::kGather: return {rank == c.root ? own : 0, 0};
    case Collective::kScatter: return {0, rank == c.root ? own : 0};
    default: return {0, 0};
  }
}

}  // namespace

GuardedBuffer::GuardedBuffer(Memory memory, size_t bytes, size_t element_bytes)
    : memory_(memory), size_(bytes) {
  const size_t total = bytes + 2 * kGuardBytes + element_bytes;
  if (memory == Memory::kHeap) {
    base_ = std::malloc(total);
  } else if (ncclMemAlloc(&base_, total) != ncclSuccess) {
    ADD_FAILURE() << "ncclMemAlloc: " << ncclGetLastError(nullptr);
    std::abort();
  }
  data_ = static_cast<std::byte*>(base_) + kGuardBytes + element_bytes;
  std::memset(base_, static_cast<int>(kGuard), total);
  std::memset(data_, static_cast<int>(kUntouched), size_);
}

GuardedBuffer::~GuardedBuffer() {
  if (memory_ == Memory::kHeap) {
    std::free(base_);
  } else {
    EXPECT_NCCL(ncclMemFree(base_));
  }
}

void GuardedBuffer::Fill(const Bytes& content) {
  if (!content.empty()) std::memcpy(data_, content.data(), content.size());
}

Bytes GuardedBuffer::Content() const {
  return Bytes(data_, data_ + size_);
}

bool GuardedBuffer::GuardsIntact() const {
  for (size_t i = 0; i < kGuardBytes; ++i) {
    if (data_[size_ + i] != kGuard) return false;
  }
  for (const std::byte* at = static_cast<std::byte*>(base_); at < data_; ++at) {
    if (*at != kGuard) return false;
  }
  return true;
}

std::string Describe(const Case& c, Memory memory, bool in_place) {
  return fmt::format("{} {} {} {} ranks root {} count {} {} {}", CollectiveName(c.collective),
                     DataTypeName(c.type), ReduceOperatorName(c.op), c.ranks, c.root, c.count,
                     in_place ? "in place" : "out of place",
                     memory == Memory::kHeap ? "heap" : "registered");
}

ncclResult_t Call(const Case& c, const void* send, void* receive, ncclRedOp_t op, int rank,
                  ncclComm_t communicator, cudaStream_t stream) {
  const auto type = static_cast<ncclDataType_t>(c.type);
  switch (c.collective) {
    case Collective::kAllReduce:
      return ncclAllReduce(send, receive, c.count, type, op, communicator, stream);
    case Collective::kReduce:
      return ncclReduce(send, receive, c.count, type, op, c.root, communicator, stream);
    case Collective::kBroadcast:
      return ncclBroadcast(send, receive, c.count, type, c.root, communicator, stream);
    case Collective::kAllGather:
      return ncclAllGather(send, receive, c.count, type, communicator, stream);
    case Collective::kReduceScatter:
      return ncclReduceScatter(send, receive, c.count, type, op, communicator, stream);
    case Collective::kAllToAll:
      return ncclAlltoAll(send, receive, c.count, type, communicator, stream);
    case Collective::kGather:
      return ncclGather(send, receive, c.count, type, c.root, communicator, stream);
    case Collective::kScatter:
      return ncclScatter(send, receive, c.count, type, c.root, communicator, stream);
    case Collective::kSend:
    case Collective::kReceive: {
      ncclGroupStart();
      const ncclResult_t sent =
          ncclSend(send, c.count, type, (rank + 1) % c.ranks, communicator, stream);
      const ncclResult_t received =
          ncclRecv(receive, c.count, type, (rank + c.ranks - 1) % c.ranks, communicator, stream);
      const ncclResult_t ended = ncclGroupEnd();
      return sent != ncclSuccess ? sent : received != ncclSuccess ? received : ended;
    }
  }
  return ncclInvalidArgument;
}

void RunAndCheck(const Case& c, Memory memory, bool in_place, int rank, const Bytes& input,
                 uint64_t scalar, const Bytes& expected, ncclComm_t communicator,
                 const std::function<bool(const Bytes&, const Bytes&)>& matches) {
  SCOPED_TRACE(Describe(c, memory, in_place) + fmt::format(", rank {}", rank));
  const size_t element = DataTypeSize(c.type);
  ncclRedOp_t op = static_cast<ncclRedOp_t>(c.op);
  if (c.op == ReduceOperator::kPreMulSum) {
    ASSERT_NCCL(ncclRedOpCreatePreMulSum(&op, &scalar, static_cast<ncclDataType_t>(c.type),
                                         ncclScalarHostImmediate, communicator));
  }

  GuardedBuffer send(memory, in_place ? 0 : input.size(), element);
  GuardedBuffer receive(
      memory, in_place ? std::max(input.size(), expected.size()) : expected.size(), element);
  const InPlaceLayout layout = in_place ? LayoutOf(c, rank) : InPlaceLayout{};
  std::byte* send_at = in_place ? receive.data() + layout.send_offset : send.data();
  std::byte* receive_at = receive.data() + layout.receive_offset;
  if (!input.empty()) std::memcpy(send_at, input.data(), input.size());

  EXPECT_EQ(Call(c, send_at, receive_at, op, rank, communicator, nullptr), ncclSuccess)
      << ncclGetLastError(communicator);
  const Bytes got(receive_at, receive_at + expected.size());
  EXPECT_TRUE(matches ? matches(got, expected) : got == expected) << "wrong result";
  EXPECT_TRUE(send.GuardsIntact() && receive.GuardsIntact()) << "wrote outside of a buffer";
  if (!in_place) {
    EXPECT_TRUE(send.Content() == input) << "the send buffer changed";
  }
  if (c.op == ReduceOperator::kPreMulSum) {
    EXPECT_NCCL(ncclRedOpDestroy(op, communicator));
  }
}

}  // namespace harmonaize::testing
