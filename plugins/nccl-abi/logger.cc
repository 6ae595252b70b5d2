#include "plugins/nccl-abi/logger.h"

#include <atomic>

namespace harmonaize::nccl_abi {
namespace {

// Relaxed: it is a pointer to a function of NCCL's, which was there before any plugin was loaded.
std::atomic<Logger> used{nullptr};

}  // namespace

void SetLogger(Logger logger) {
  used.store(logger, std::memory_order_relaxed);
}

void WriteLog(LogLevel level, LogSubsystem subsystem, const std::string& text) {
  const Logger logger = used.load(std::memory_order_relaxed);
  if (logger == nullptr) return;
  logger(level, subsystem, "harmonaize", 0, "Harmonaize: %s", text.c_str());
}

}  // namespace harmonaize::nccl_abi
