#include "daemon/operation_text.h"

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

bool Agree(const OperationDescriptor& a, const OperationDescriptor& b) {
  if (IsPointToPoint(a.collective)) return a.count == b.count && a.type == b.type;
  return a.collective == b.collective && a.count == b.count && a.type == b.type &&
         (!Reduces(a.collective) || a.op == b.op) && (!HasRoot(a.collective) || a.root == b.root);
}

}  // namespace harmonaize::daemon
