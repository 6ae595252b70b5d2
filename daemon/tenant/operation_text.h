#pragma once

#include <cstdint>
#include <string>

#include "src/ipc/session_segment.h"

namespace harmonaize::daemon {

/// "AllReduce #12", "Send 0 -> 1".
std::string NameOf(const OperationDescriptor& descriptor, int rank);

/// What a rank asked for, for a message about ranks that disagree: "AllReduce(4 x float32, sum)".
std::string RequestOf(const OperationDescriptor& descriptor);

/// Of one block: count times the type's size.
uint64_t BytesOf(const OperationDescriptor& descriptor);

/// A warning about a send and its receive that agree, but by their bytes alone.
std::string DifferentTypes(const OperationDescriptor& send, int sender,
                           const OperationDescriptor& receive, int receiver);

/// Whether two ranks ask for the same; of a send and its receive, for equally many bytes.
bool Agree(const OperationDescriptor& a, const OperationDescriptor& b);
/// Of a collective: equal for ranks that Agree, and as good as always different for others.
uint32_t RequestDigest(const OperationDescriptor& descriptor);

}  // namespace harmonaize::daemon
