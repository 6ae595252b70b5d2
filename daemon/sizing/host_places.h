#pragma once

#include <cstdint>
#include <filesystem>

namespace harmonaize::daemon {

/// Returns the number of ranks for which a host has places where nobody has said it: one for each
/// GPU, as NVIDIA's driver names them in `devices`, or without GPUs one for each of `processors`.
int64_t PlacesOfHost(int64_t processors, const std::filesystem::path& devices = "/dev");

}  // namespace harmonaize::daemon
