#include "perf/harness/options.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include <CLI/CLI.hpp>

#include "src/base/names.h"

namespace harmonaize::perf {
namespace {

constexpr const char* kFooter = R"(Ranks
  The number of ranks is processes x -t x -g. The processes are those of `harmonaize run`,
  torchrun or mpirun; started alone, the program is the only one.

Examples
  Four processes, 8 bytes to 128 MiB, doubling:
    harmonaize run -n 4 -- PROGRAM -b 8 -e 128M -f 2
  Two threads with two ranks each in one process, registered memory, results also as JSON:
    PROGRAM -t 2 -g 2 -R 1 -J results.json
  Every type and operator, one size, no sweep:
    harmonaize run -n 3 -- PROGRAM -b 1M -e 1M -d all -o all -n 1

Columns
  time   microseconds an operation, from the first to the last of -n x -m, seen by the ranks (-a)
  algbw  bytes of the larger buffer / time
  busbw  algbw times what the collective needs to move per link; comparable across ranks
  #wrong elements that differ from the expected result, over all ranks; bytes written outside the
         buffers count too. Exit status 1 when there is any.
See docs/benchmarks.md.)";

std::string Footer(const std::string& program) {
  std::string text = kFooter;
  for (size_t at = text.find("PROGRAM"); at != std::string::npos; at = text.find("PROGRAM", at)) {
    text.replace(at, 7, program);
  }
  return text;
}

// Options whose text has to be converted for Options.
struct RawOptions {
  std::string min_bytes = "32M";
  std::string max_bytes = "32M";
  std::string step_bytes = "1M";
  std::string op = "sum";
  std::string datatype = "float";
  std::string root = "0";
  int cuda_graph = 0;
  int average = 1;
  int memory = 0;
};

Status ReadOperators(const std::string& name, std::vector<Operator>* operators) {
  operators->clear();
  for (size_t i = 0; i < kOperatorNames.size(); ++i) {
    if (name == kOperatorNames[i] || name == "all") operators->push_back(static_cast<Operator>(i));
  }
  if (!operators->empty()) return Status::Ok();
  return InvalidArgument("-o {}: not one of sum, prod, min, max, avg, mulsum, all{}", name,
                         DidYouMean(name, kOperatorNames));
}

Status ReadTypes(const std::string& name, std::vector<const TypeInfo*>* types) {
  std::vector<std::string_view> names;
  for (const TypeInfo& type : AllTypes()) {
    names.push_back(type.name);
    if (name == "all") types->push_back(&type);
  }
  if (name == "all") return Status::Ok();
  const TypeInfo* type = FindType(name);
  if (type == nullptr) {
    return InvalidArgument("-d {}: not one of {}, all{}", name, fmt::join(names, ", "),
                           DidYouMean(name, names));
  }
  types->push_back(type);
  return Status::Ok();
}

Status ReadRoot(const std::string& text, int* root) {
  if (text == "all") {
    *root = -1;
    return Status::Ok();
  }
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < 0 || value > std::numeric_limits<int>::max()) {
    return InvalidArgument("-r {}: neither a rank nor 'all'", text);
  }
  *root = static_cast<int>(value);
  return Status::Ok();
}

Status ReadSize(const char* option, const std::string& text, uint64_t* bytes) {
  Result<uint64_t> size = ParseSize(text);
  if (!size.ok()) return InvalidArgument("{} {}: {}", option, text, size.status().message());
  *bytes = *size;
  return Status::Ok();
}

Status Convert(const RawOptions& raw, Options* options) {
  HZ_RETURN_IF_ERROR(ReadSize("-b", raw.min_bytes, &options->min_bytes));
  HZ_RETURN_IF_ERROR(ReadSize("-e", raw.max_bytes, &options->max_bytes));
  HZ_RETURN_IF_ERROR(ReadSize("-i", raw.step_bytes, &options->step_bytes));
  HZ_RETURN_IF_ERROR(ReadOperators(raw.op, &options->operators));
  HZ_RETURN_IF_ERROR(ReadTypes(raw.datatype, &options->types));
  HZ_RETURN_IF_ERROR(ReadRoot(raw.root, &options->root));
  options->average = static_cast<Combine>(raw.average);
  options->memory = static_cast<Memory>(raw.memory);
  if (options->min_bytes > options->max_bytes) {
    return InvalidArgument("-b {} is more than -e {}", raw.min_bytes, raw.max_bytes);
  }
  if (options->threads > kMostRanks / options->ranks_per_thread) {
    return InvalidArgument("-t {} x -g {}: more than {} ranks", options->threads,
                           options->ranks_per_thread, kMostRanks);
  }
  if (options->step_factor <= 1 && options->step_bytes == 0 &&
      options->min_bytes != options->max_bytes) {
    return InvalidArgument("-i 0 never gets from -b to -e");
  }
  if (options->step_factor > 1 && options->min_bytes == 0 && options->max_bytes != 0) {
    return InvalidArgument("-b 0 stays 0 however often it is multiplied with -f; use -i");
  }
  if (raw.cuda_graph != 0) {
    return InvalidArgument(
        "-G {}: operations on host memory cannot be captured in a CUDA graph; "
        "only 0 is possible",
        raw.cuda_graph);
  }
  return Status::Ok();
}

void AddWorkOptions(CLI::App* app, RawOptions* raw, Options* options) {
  const auto positive = CLI::Range(1, kMostRanks);
  app->add_option("-t,--nthreads", options->threads, "threads in each process")
      ->check(positive)
      ->capture_default_str()
      ->group("Ranks");
  app->add_option("-g,--ngpus", options->ranks_per_thread, "ranks that each thread acts for")
      ->check(positive)
      ->capture_default_str()
      ->group("Ranks");
  app->add_option("-p,--parallel_init", options->parallel_init,
                  "1: each thread makes its own communicators; 0: one thread makes all")
      ->capture_default_str()
      ->group("Ranks");
  app->add_option("-b,--minbytes", raw->min_bytes, "first size, with suffix K, M or G")
      ->capture_default_str()
      ->group("Sizes");
  app->add_option("-e,--maxbytes", raw->max_bytes, "last size")
      ->capture_default_str()
      ->group("Sizes");
  app->add_option("-i,--stepbytes", raw->step_bytes, "from one size to the next: add this")
      ->capture_default_str()
      ->group("Sizes");
  app->add_option("-f,--stepfactor", options->step_factor,
                  "from one size to the next: multiply by this (1: use -i)")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->group("Sizes");
  app->add_option("-d,--datatype", raw->datatype,
                  "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 "
                  "or all")
      ->capture_default_str()
      ->group("Operation");
}

void AddCollectiveOptions(CLI::App* app, RawOptions* raw, Options* options, bool reduces,
                          bool rooted) {
  app->add_option("-o,--op", raw->op,
                  reduces ? "sum prod min max avg mulsum or all" : "accepted; nothing is reduced")
      ->capture_default_str()
      ->group("Operation");
  app->add_option("-r,--root", raw->root,
                  rooted ? "root rank, or all" : "accepted; the operation has no root")
      ->capture_default_str()
      ->group("Operation");
  app->add_option("-R,--local_register", raw->memory,
                  "buffers: 0 from the heap, 1 ncclMemAlloc and ncclCommRegister, 2 ncclMemAlloc "
                  "and ncclCommWindowRegister")
      ->check(CLI::Range(0, 2))
      ->capture_default_str()
      ->group("Operation");
  app->add_option("-y,--stream_null", options->null_stream,
                  "0: a host stream, calls return at once; 1: no stream, calls block")
      ->capture_default_str()
      ->group("Operation");
  app->add_option("-G,--cudagraph", raw->cuda_graph, "only 0: there is no CUDA graph on the host")
      ->capture_default_str()
      ->group("Operation");
}

void AddMeasureOptions(CLI::App* app, RawOptions* raw, Options* options) {
  app->add_option("-n,--iters", options->iterations, "iterations timed together")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str()
      ->group("Measurement");
  app->add_option("-m,--agg_iters", options->aggregated, "operations in one group, an iteration")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->group("Measurement");
  app->add_option("-w,--warmup_iters", options->warmup, "iterations before, not timed")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str()
      ->group("Measurement");
  app->add_option("-N,--run_cycles", options->cycles, "repeat the whole sweep; 0: forever")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str()
      ->group("Measurement");
  app->add_option("-z,--blocking", options->blocking,
                  "1: wait and barrier after each iteration (the barrier is not timed)")
      ->capture_default_str()
      ->group("Measurement");
  app->add_option("-a,--average", raw->average,
                  "time reported: 0 of rank 0, 1 average, 2 minimum, 3 maximum over the threads")
      ->check(CLI::Range(0, 3))
      ->capture_default_str()
      ->group("Measurement");
  app->add_option("-C,--report_cputime", options->report_cpu_time,
                  "1: report the time until the calls have returned, not until they are done")
      ->capture_default_str()
      ->group("Measurement");
  app->add_option("-c,--check", options->checks,
                  "checked runs a measurement; every element of every rank; 0: no check")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str()
      ->group("Checks and results");
  app->add_option("--error_bound", options->error_bound,
                  "error that a sum or an average of floats may have, by the largest sum of "
                  "magnitudes of any element: for daemons that send sums in another format")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group("Checks and results");
  app->add_option("-T,--timeout", options->timeout_s,
                  "seconds until a measurement that hangs is aborted; 0: never")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str()
      ->group("Checks and results");
  app->add_option("-J,--output_file", options->output_file, "write everything to this file as JSON")
      ->group("Checks and results");
}

}  // namespace

Result<uint64_t> ParseSize(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !std::isfinite(value) || value < 0) {
    return InvalidArgument("not a size; write bytes, or K, M, G as in 32M");
  }
  double unit = 1;
  const std::string suffix = end;
  if (suffix == "K" || suffix == "k") {
    unit = 1024.0;
  } else if (suffix == "M" || suffix == "m") {
    unit = 1024.0 * 1024;
  } else if (suffix == "G" || suffix == "g") {
    unit = 1024.0 * 1024 * 1024;
  } else if (!suffix.empty()) {
    return InvalidArgument("'{}' is no suffix of a size; write K, M or G", suffix);
  }
  const double bytes = value * unit;
  if (bytes > 0x1p62) return InvalidArgument("too large");
  return static_cast<uint64_t>(bytes);
}

ParsedOptions ParseOptions(const std::string& program, bool reduces, bool rooted, int argc,
                           char** argv) {
  ParsedOptions parsed;
  RawOptions raw;
  CLI::App app{"Measures and checks one collective through the NCCL API, on host memory.", program};
  app.footer(Footer(program));
  AddWorkOptions(&app, &raw, &parsed.options);
  AddCollectiveOptions(&app, &raw, &parsed.options, reduces, rooted);
  AddMeasureOptions(&app, &raw, &parsed.options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has a status for each kind of mistake, which nobody distinguishes.
    parsed.exit_code = app.exit(error) == 0 ? 0 : 2;
    return parsed;
  }
  const Status status = Convert(raw, &parsed.options);
  if (!status.ok()) {
    fmt::print(stderr, "{}: {}\nRun {} --help for the options.\n", program, status.message(),
               program);
    parsed.exit_code = 2;
    return parsed;
  }
  parsed.run = true;
  return parsed;
}

}  // namespace harmonaize::perf
