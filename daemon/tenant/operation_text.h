#pragma once

#include <cstdint>
#include <string>

#include "src/ipc/session_segment.h"

namespace harmonaize::daemon {

/// Returns the name of an operation of `rank`, such as "AllReduce #12" or "Send 0 -> 1".
std::string NameOf(const OperationDescriptor& descriptor, int rank);

/// Returns what a rank asked for, for a message about ranks that disagree: "AllReduce(4 x float32,
/// sum)".
std::string RequestOf(const OperationDescriptor& descriptor);

/// Returns the bytes of one block: the count times the type's size.
uint64_t BytesOf(const OperationDescriptor& descriptor);

/// Returns a warning about a send and its receive that agree in their bytes but not in their type.
std::string DifferentTypes(const OperationDescriptor& send, int sender,
                           const OperationDescriptor& receive, int receiver);

/// Returns whether two ranks ask for the same operation. A send and its receive agree if they have
/// equally many bytes.
bool Agree(const OperationDescriptor& a, const OperationDescriptor& b);
/// Returns a digest of the request for a collective: equal for ranks that Agree, and almost always
/// different for others.
uint32_t RequestDigest(const OperationDescriptor& descriptor);

}  // namespace harmonaize::daemon
