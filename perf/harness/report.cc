#include "perf/harness/report.h"

#include <fmt/format.h>

#include <cstdio>

namespace harmonaize::perf {
namespace {

// Returns as many digits as the column has room for, at most two of them after the point.
std::string Fit(double value, size_t width) {
  for (const int precision : {2, 1, 0}) {
    std::string text = fmt::format("{:.{}f}", value, precision);
    if (text.size() <= width) return text;
  }
  return fmt::format("{:.1e}", value);
}

}  // namespace

void Summary::Add(const Measurement& measurement) {
  if (measurement.checked && measurement.wrong > 0) ++failed;
  busbw_sum += measurement.busbw;
  ++measurements;
}

void PrintHeader(const std::string& program, const Options& options, const Versions& versions,
                 const Launch& launch, const std::vector<RankInfo>& ranks) {
  const bool factor = options.step_factor > 1;
  fmt::print("# harmonaize perf {} nccl-headers={} nccl-library={}\n", versions.harmonaize,
             versions.headers, versions.library);
  fmt::print("# Collective test starting: {}\n", program);
  fmt::print(
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} "
      "agg iters: {} validation: {} graph: 0\n",
      options.threads, options.ranks_per_thread, options.min_bytes, options.max_bytes,
      factor ? options.step_factor : options.step_bytes, factor ? "factor" : "bytes",
      options.warmup, options.iterations, options.aggregated, options.checks);
  fmt::print("# Buffers: {}; stream: {}; processes: {} ({})\n", MemoryName(options.memory),
             options.null_stream ? "none, calls block" : "host stream", launch.processes,
             launch.source);
  if (options.blocking) fmt::print("# Blocking Enabled: wait and barrier after each iteration\n");
  if (options.parallel_init) fmt::print("# Parallel Init Enabled: threads call into NCCL\n");
  fmt::print("#\n# Using devices\n");
  for (const RankInfo& info : ranks) {
    fmt::print("#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [0000:00:00] host memory\n",
               info.rank, 0, info.pid, info.host, info.device);
  }
  std::fflush(stdout);
}

void PrintTableHead(const Options& options) {
  const auto line = [](auto... cells) {
    fmt::print(
        "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}  {:>7}  {:>6}  "
        "{:>6}  {:>6}\n",
        cells...);
  };
  const char* time = options.report_cpu_time ? "cputime" : "time";
  fmt::print("#\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:^31}  {:^31}\n", "", "", "", "", "",
             "out-of-place", "in-place");
  line("size", "count", "type", "redop", "root", time, "algbw", "busbw", "#wrong", time, "algbw",
       "busbw", "#wrong");
  line("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)",
       "");
  std::fflush(stdout);
}

void PrintRowStart(const Row& row) {
  fmt::print("{:12}  {:12}  {:>8}  {:>6}  {:6}", row.bytes, row.count, row.type, row.op, row.root);
  std::fflush(stdout);
}

void PrintMeasurement(const Measurement& measurement) {
  fmt::print("  {:>7}  {:>6}  {:>6}  {:>6}", Fit(measurement.time_us, 7), Fit(measurement.algbw, 6),
             Fit(measurement.busbw, 6),
             measurement.checked ? fmt::format("{:g}", measurement.wrong) : "N/A");
  std::fflush(stdout);
}

void PrintRowEnd() {
  fmt::print("\n");
  std::fflush(stdout);
}

void PrintFooter(const std::string& program, const Summary& summary) {
  fmt::print("# {:<20} : {} {}\n", "Out of bounds values", summary.failed,
             summary.failed == 0 ? "OK" : "FAILED");
  fmt::print("# {:<20} : {:g}\n#\n", "Avg bus bandwidth", summary.average_busbw());
  fmt::print("# Collective test concluded: {}\n", program);
  std::fflush(stdout);
}

}  // namespace harmonaize::perf
