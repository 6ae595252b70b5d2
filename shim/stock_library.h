#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace harmonaize::shim {

/// Returns the files in which stock NCCL may lie: only the one that HARMONAIZE_NCCL_LIBRARY names,
/// or else those in the loader's path, in Python environments of which the process has loaded a
/// library
/// (`nvidia/nccl/lib`, where PyTorch's packages put it), and where the system's packages put NCCL.
/// Never a bare name, for which the loader would return this library.
std::vector<std::string> StockCandidates();

/// Returns "/.../site-packages" for the path of a library inside of it (also dist-packages); "" for
/// another path.
std::string_view PackageFolderOf(std::string_view path);

/// Loads stock NCCL. The first call decides for the process, and the library is never closed: stock
/// NCCL has threads of its own. Thread: any.
const Result<void*>& StockLibrary();

/// Returns whether stock NCCL could carry what the calling thread does: the thread uses a GPU
/// (CudaContext), and stock NCCL is there. Logs once a process that it is missing. Thread: any.
bool StockCouldCarry();

}  // namespace harmonaize::shim
