#pragma once

#include <cstdint>
#include <string>

namespace harmonaize::writer {

/// Tells the host's daemon what became of a save, so that its advice fits what saves cost. Where no
/// daemon listens, or it knows no such reports, nothing happens. It takes some seconds at most.
void ReportCommit(const std::string& job, uint64_t step, double seconds, uint64_t bytes);
void ReportFailure(const std::string& job, uint64_t step, const std::string& message);

}  // namespace harmonaize::writer
