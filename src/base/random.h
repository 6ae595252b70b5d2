#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/status.h"

namespace harmonaize {

/// Fills `out` with bytes from the kernel's generator of random numbers. Errors: kSystemError if
/// the kernel gives none.
Status FillRandom(std::span<std::byte> out);

/// Returns a number from the same generator, for names that are to differ; never 0. Not for
/// secrets: where the kernel gives nothing, the clock has to do.
uint64_t RandomNumber();

}  // namespace harmonaize
