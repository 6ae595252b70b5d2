#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "perf/harness/launch.h"
#include "perf/harness/options.h"

namespace harmonaize::perf {

/// One rank, as the header lists it.
struct RankInfo {
  int rank;
  int pid;
  int device;
  std::string host;
};

/// One half of a row: out of place, or in place.
struct Measurement {
  double time_us = 0;
  double algbw = 0;  ///< GB/s (10^9 bytes)
  double busbw = 0;  ///< GB/s
  bool checked = false;
  double wrong = 0;  ///< Wrong elements over all ranks, plus damaged bytes.
};

/// One row: a size with a type, an operator and a root.
struct Row {
  uint64_t bytes;
  uint64_t count;
  std::string_view type;
  std::string_view op;
  int root;  ///< -1: none
  Measurement out_of_place;
  Measurement in_place;
};

/// Versions of the measured software.
struct Versions {
  std::string harmonaize;
  int headers = 0;  ///< NCCL_VERSION_CODE
  int library = 0;  ///< ncclGetVersion
};

/// Sums over all rows.
struct Summary {
  int failed = 0;  ///< Measurements with wrong elements or bytes.
  double busbw_sum = 0;
  int measurements = 0;

  void Add(const Measurement& measurement);
  double average_busbw() const { return measurements == 0 ? 0 : busbw_sum / measurements; }
};

/// These functions print nccl-tests' table to standard output, for scripts that read that table.
void PrintHeader(const std::string& program, const Options& options, const Versions& versions,
                 const Launch& launch, const std::vector<RankInfo>& ranks);
void PrintTableHead(const Options& options);
/// Prints the row's first columns when it starts, so that a row that hangs is seen.
void PrintRowStart(const Row& row);
void PrintMeasurement(const Measurement& measurement);
void PrintRowEnd();
void PrintFooter(const std::string& program, const Summary& summary);

}  // namespace harmonaize::perf
