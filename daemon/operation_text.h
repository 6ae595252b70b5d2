#pragma once

#include <cstdint>
#include <string>

#include "src/ipc/session_segment.h"

namespace harmonaize::daemon {

/// "AllReduce #12", "Send 0 -> 1".
std::string NameOf(const OperationDescriptor& descriptor, int rank);

/// What a rank asked for, for a message about ranks that disagree: "AllReduce(4 x float32, sum)".
std::string RequestOf(const OperationDescriptor& descriptor);

/// Whether two ranks ask for the same; of a send and its receive, for the same data.
bool Agree(const OperationDescriptor& a, const OperationDescriptor& b);
/// Of a collective: equal for ranks that Agree, and as good as always different for others.
uint32_t RequestDigest(const OperationDescriptor& descriptor);

}  // namespace harmonaize::daemon
