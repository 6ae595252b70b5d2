#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/topology/fabric/fabric.h"

namespace harmonaize {

/// What only the laboratory of emulated hosts looks at; section [laboratory].
struct LaboratorySettings {
  int64_t mtu = 9000;
  /// What a port holds before it drops; 0: eight milliseconds of its rate, 2 MiB at least.
  int64_t queue_bytes = 0;
};

struct FabricFile {
  Fabric fabric;
  LaboratorySettings laboratory;
};

/// Reads a fabric file (docs/fabric-file.md has the schema), fills in the devices and addresses
/// that it leaves out, and validates the whole. The same file gives the same addresses to everyone
/// who reads it. kInvalidArgument with file, line and column where one place is wrong, with the
/// file alone where the fabric as a whole is.
Result<FabricFile> LoadFabricFile(const std::string& path);
/// `name` stands for the file in errors.
Result<FabricFile> ParseFabricFile(std::string_view text, const std::string& name);

/// The other way round: the text of a file that reads as the same fabric. Devices, addresses and
/// explicit paths are stated; the fabric has to be valid, with its hosts before its switches.
std::string FormatFabricFile(const FabricFile& file);
/// Writes it to `path`, with `comment` above it. kSystemError when that fails.
Status WriteFabricFile(const std::string& path, const FabricFile& file,
                       std::string_view comment = "");

}  // namespace harmonaize
