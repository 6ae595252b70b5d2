#include "daemon/tenant/operation_text.h"

#include <fmt/format.h>

namespace harmonaize::daemon {

std::string NameOf(const OperationDescriptor& descriptor, int rank) {
  switch (descriptor.collective) {
    case Collective::kSend: return fmt::format("Send {} -> {}", rank, descriptor.root);
    case Collective::kReceive: return fmt::format("Recv {} <- {}", rank, descriptor.root);
    default:
      return fmt::format("{} #{}", CollectiveName(descriptor.collective), descriptor.sequence);
  }
}

std::string RequestOf(const OperationDescriptor& descriptor) {
  std::string text = fmt::format("{}({} x {}", CollectiveName(descriptor.collective),
                                 descriptor.count, DataTypeName(descriptor.type));
  if (Reduces(descriptor.collective)) {
    text += fmt::format(", {}", ReduceOperatorName(descriptor.op));
  }
  if (HasRoot(descriptor.collective)) text += fmt::format(", root {}", descriptor.root);
  return text + ")";
}

uint64_t BytesOf(const OperationDescriptor& descriptor) {
  return descriptor.count * DataTypeSize(descriptor.type);
}

std::string DifferentTypes(const OperationDescriptor& send, int sender,
                           const OperationDescriptor& receive, int receiver) {
  return fmt::format(
      "rank {} sends {} x {}, rank {} receives {} x {}: as these are equal bytes they are carried, "
      "but should the types not be the same? (Told once a process.)",
      sender, send.count, DataTypeName(send.type), receiver, receive.count,
      DataTypeName(receive.type));
}

bool Agree(const OperationDescriptor& a, const OperationDescriptor& b) {
  // As in NCCL, where a message is bytes to its transport. An admitted count times the size of its
  // type does not overflow.
  if (IsPointToPoint(a.collective)) return BytesOf(a) == BytesOf(b);
  return a.collective == b.collective && a.count == b.count && a.type == b.type &&
         (!Reduces(a.collective) || a.op == b.op) && (!HasRoot(a.collective) || a.root == b.root);
}

// FNV-1a (Fowler, Noll, Vo, 1991), 32 bits, over what Agree compares.
uint32_t RequestDigest(const OperationDescriptor& descriptor) {
  const uint64_t op = Reduces(descriptor.collective) ? static_cast<uint64_t>(descriptor.op) : 0;
  const uint64_t root = HasRoot(descriptor.collective) ? static_cast<uint32_t>(descriptor.root) : 0;
  const uint64_t words[] = {static_cast<uint64_t>(descriptor.collective),
                            static_cast<uint64_t>(descriptor.type), op, root, descriptor.count};
  uint32_t hash = 0x811c9dc5u;
  for (const uint64_t word : words) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash = (hash ^ static_cast<uint8_t>(word >> shift)) * 0x01000193u;
    }
  }
  return hash;
}

}  // namespace harmonaize::daemon
