#pragma once

#include <cstddef>
#include <cstdint>

#include "src/ipc/profile_record.h"

namespace harmonaize::nccl_abi {

// What NCCL's names and numbers of an event stand for. NULL is none; names that this release does
// not know are kOther.

ProfileFunction FunctionOf(const char* name) noexcept;
ProfileAlgorithm AlgorithmOf(const char* name) noexcept;
ProfileProtocol ProtocolOf(const char* name) noexcept;
/// Version 1 of the interface has numbers.
ProfileFunction FunctionOf(uint8_t number) noexcept;
ProfileAlgorithm AlgorithmOf(uint8_t number) noexcept;
ProfileProtocol ProtocolOf(uint8_t number) noexcept;

/// Returns the bytes of `count` elements of a type, which NCCL gives by its name ("ncclFloat16")
/// or, in version 1, by its number. NCCL calls ncclUint8 "Unknown", so a type of that name has one
/// byte. 0 for NULL and for numbers that are none; the largest number where there are more.
uint64_t BytesOf(size_t count, const char* type) noexcept;
uint64_t BytesOf(size_t count, uint8_t type) noexcept;

}  // namespace harmonaize::nccl_abi
