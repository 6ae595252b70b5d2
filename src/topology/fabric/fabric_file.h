#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/topology/fabric/fabric.h"

namespace harmonaize {

/// Settings of the laboratory of emulated hosts alone; section [laboratory].
struct LaboratorySettings {
  int64_t mtu = 9000;
  /// Bytes that a port queues before it drops; 0: eight milliseconds of its rate, at least 2 MiB.
  int64_t queue_bytes = 0;
};

struct FabricFile {
  Fabric fabric;
  LaboratorySettings laboratory;
};

/// Reads a fabric file (docs/fabric-file.md has the schema), fills in the devices and addresses
/// that it leaves out, and validates the whole. Every reader of the same file gets the same
/// addresses. Errors: kInvalidArgument with file, line and column if one place is wrong, with the
/// file alone if the fabric as a whole is.
Result<FabricFile> LoadFabricFile(const std::string& path);
/// `name` stands for the file in errors.
Result<FabricFile> ParseFabricFile(std::string_view text, const std::string& name);

/// Returns the text of a file that reads as the same fabric, with devices, addresses and explicit
/// paths stated. Requires: the fabric is valid, with its hosts before its switches.
std::string FormatFabricFile(const FabricFile& file);
/// Writes the file to `path`, with `comment` above it. Errors: kSystemError.
Status WriteFabricFile(const std::string& path, const FabricFile& file,
                       std::string_view comment = "");

}  // namespace harmonaize
