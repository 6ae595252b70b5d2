// Schedules over the transport, without daemons and tenants: what an algorithm makes of a fabric.
// One process for each host, in the laboratory.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "perf/harness/bootstrap.h"
#include "perf/harness/launch.h"
#include "perf/network/fabric_rails.h"
#include "perf/network/host_runner.h"
#include "src/base/clock.h"
#include "src/schedule/algorithms.h"
#include "src/schedule/cut_bound.h"
#include "src/topology/fabric_file.h"

namespace harmonaize::perf {
namespace {

constexpr char kFooter[] =
    R"(Runs in the laboratory, a process for each host:

  fabric up two-racks.toml
  fabric run --daemon none --no-preload --hosts host0,host2,host1,host3 -- \
      network_perf --fabric two-racks.toml --sizes 1M,64M --algorithms ring,packed-trees

Hosts are numbered as --hosts lists them, and so are the ranks: -r ranks on each host, rank i on
host i mod hosts. 'bound' is the least time that the fabric's narrowest cut allows at its nominal
rates times --payload, and '%' how much of it was reached.)";

struct Options {
  std::string fabric;
  std::string collective = "all-reduce";
  std::vector<std::string> sizes = {"1M", "16M", "64M"};
  std::vector<std::string> algorithms = {"ring", "packed-trees"};
  int ranks = 1;
  int pieces = 4;
  int trees = 16;
  int iterations = 5;
  std::string slice = "256K";
  int slices_at_once = 4;
  double payload = 0.992;
};

uint64_t ParseBytes(const std::string& text) {
  char* end = nullptr;
  const uint64_t number = std::strtoull(text.c_str(), &end, 10);
  switch (*end) {
    case 'K': return number << 10;
    case 'M': return number << 20;
    case 'G': return number << 30;
    default: return number;
  }
}

Result<Collective> ParseCollective(const std::string& name) {
  const std::pair<const char*, Collective> names[] = {
      {"all-reduce", Collective::kAllReduce},
      {"all-gather", Collective::kAllGather},
      {"reduce-scatter", Collective::kReduceScatter},
      {"broadcast", Collective::kBroadcast},
      {"reduce", Collective::kReduce},
      {"all-to-all", Collective::kAllToAll}};
  for (const auto& [text, collective] : names) {
    if (name == text) return collective;
  }
  return InvalidArgument("'{}' is no collective", name);
}

/// Buffers of this host's ranks, and what they are to hold.
class RankBuffers {
 public:
  RankBuffers(const Problem& problem, int host, uint64_t count) : problem_(problem), count_(count) {
    const auto ranks = static_cast<int>(problem.host_of_rank.size());
    memory_.resize(2 * problem.host_of_rank.size());
    for (int rank = 0; rank < ranks; ++rank) {
      Buffer input;
      Buffer output;
      const BufferBlocks blocks = BlocksOf(problem.collective, ranks, rank, problem.root);
      if (problem.host_of_rank[static_cast<size_t>(rank)] == host) {
        input.mapped = Allocate(2 * rank, blocks.send * count, static_cast<float>(rank + 1));
        output.mapped = Allocate(2 * rank + 1, blocks.receive * count, -1);
      }
      inputs.push_back(input);
      outputs.push_back(output);
    }
  }

  /// Whether this host's outputs are right. Every element of rank r's input is r + 1.
  bool Right() const {
    const auto ranks = static_cast<uint64_t>(problem_.host_of_rank.size());
    for (size_t rank = 0; rank < ranks; ++rank) {
      const std::vector<float>& output = memory_[2 * rank + 1];
      for (size_t i = 0; i < output.size(); ++i) {
        if (output[i] != Expected(i / count_, ranks)) return false;
      }
    }
    return true;
  }

  std::vector<Buffer> inputs;
  std::vector<Buffer> outputs;

 private:
  std::byte* Allocate(int place, uint64_t elements, float value) {
    std::vector<float>& memory = memory_[static_cast<size_t>(place)];
    memory.assign(elements, value);
    return reinterpret_cast<std::byte*>(memory.data());
  }

  float Expected(uint64_t block, uint64_t ranks) const {
    if (Reduces(problem_.collective)) return static_cast<float>(ranks * (ranks + 1) / 2);
    if (problem_.collective == Collective::kBroadcast) return static_cast<float>(problem_.root + 1);
    return static_cast<float>(block + 1);
  }

  const Problem& problem_;
  const uint64_t count_;
  std::vector<std::vector<float>> memory_;
};

class Benchmark {
 public:
  Benchmark(const Options& options, Bootstrap* bootstrap, const FabricRails* rails,
            HostRunner* runner)
      : options_(options), bootstrap_(bootstrap), rails_(rails), runner_(runner) {}

  Status Run() {
    const Result<Collective> collective = ParseCollective(options_.collective);
    if (!collective.ok()) return collective.status();
    problem_.collective = *collective;
    problem_.root = HasRoot(*collective) ? 0 : -1;
    for (int i = 0; i < options_.ranks * bootstrap_->processes(); ++i) {
      problem_.host_of_rank.push_back(
          runner_->hosts()[static_cast<size_t>(i % bootstrap_->processes())]);
    }
    capacities_ = rails_->Capacities(options_.payload);
    const Result<CutBound> bound = BoundOf(capacities_, problem_);
    if (!bound.ok()) return bound.status();
    if (bootstrap_->process() == 0) {
      std::printf("# %s of %zu ranks on %d hosts, float32 sum\n", options_.collective.c_str(),
                  problem_.host_of_rank.size(), bootstrap_->processes());
      std::printf("# %10s  %-22s %10s %10s %8s %7s\n", "bytes", "algorithm", "ms", "bound", "GB/s",
                  "%");
    }
    for (const std::string& size : options_.sizes) {
      for (const std::string& algorithm : options_.algorithms) {
        HZ_RETURN_IF_ERROR(Measure(algorithm, ParseBytes(size), bound->time()));
      }
    }
    return Status::Ok();
  }

 private:
  Status Measure(const std::string& name, uint64_t bytes, double unit_time) {
    const Algorithm* const algorithm = FindAlgorithm(name);
    if (algorithm == nullptr) return InvalidArgument("'{}' is no algorithm", name);
    AlgorithmOptions how;
    how.pieces = options_.pieces;
    how.order = runner_->hosts();
    how.groups = Groups();
    how.fabric = &capacities_;
    how.most_trees = options_.trees;
    const OutlineResult outline = algorithm->make(problem_, how);
    if (!outline.ok()) return outline.status();
    const int host = runner_->hosts()[static_cast<size_t>(bootstrap_->process())];
    const NetworkProgram program((*outline)->Program((*outline)->placement().PositionOfHost(host)),
                                 (*outline)->pieces());

    const BufferBlocks blocks =
        BlocksOf(problem_.collective, static_cast<int>(problem_.host_of_rank.size()), 0, 0);
    const uint64_t count = bytes / sizeof(float) / std::max(blocks.send, blocks.receive);
    RankBuffers buffers(problem_, host, count);
    const HostRunner::Operation operation{.outline = outline->get(),
                                          .program = &program,
                                          .count = count,
                                          .inputs = buffers.inputs,
                                          .outputs = buffers.outputs,
                                          .slice_bytes = ParseBytes(options_.slice),
                                          .slices_at_once = options_.slices_at_once};
    HZ_RETURN_IF_ERROR(runner_->Run(operation));
    const bool right = buffers.Right();
    std::vector<double> times;
    for (int i = 0; i < options_.iterations; ++i) {
      HZ_RETURN_IF_ERROR(bootstrap_->Barrier());
      const uint64_t start = MonotonicNanoseconds();
      HZ_RETURN_IF_ERROR(runner_->Run(operation));
      HZ_RETURN_IF_ERROR(bootstrap_->Barrier());
      times.push_back(static_cast<double>(MonotonicNanoseconds() - start) * 1e-9);
    }
    const Result<std::vector<std::string>> verdicts = bootstrap_->AllGather(right ? "y" : "n");
    if (!verdicts.ok()) return verdicts.status();
    const bool all_right =
        std::count(verdicts->begin(), verdicts->end(), "y") == static_cast<long>(verdicts->size());
    if (bootstrap_->process() == 0) Print(name, bytes, count, times, unit_time, all_right);
    return all_right ? Status::Ok() : InternalError("{}: the result is wrong", name);
  }

  void Print(const std::string& name, uint64_t bytes, uint64_t count, std::vector<double> times,
             double unit_time, bool right) const {
    std::sort(times.begin(), times.end());
    const double seconds = times[times.size() / 2];
    // Capacities are in kilobytes a second.
    const double bound = unit_time * static_cast<double>(count) * sizeof(float) / 1e3;
    std::printf("  %10llu  %-22s %10.3f %10.3f %8.4f %6.1f%%%s\n",
                static_cast<unsigned long long>(bytes), name.c_str(), seconds * 1e3, bound * 1e3,
                static_cast<double>(bytes) / seconds * 1e-9, 100 * bound / seconds,
                right ? "" : "  WRONG");
    std::fflush(stdout);
  }

  /// Hosts by rack; those in none alone.
  std::vector<std::vector<int>> Groups() const {
    const Fabric& fabric = rails_->fabric();
    const std::vector<int> nodes = fabric.Hosts();
    std::vector<std::vector<int>> groups(fabric.racks.size());
    for (const int host : runner_->hosts()) {
      const int rack = fabric.nodes[static_cast<size_t>(nodes[static_cast<size_t>(host)])].rack;
      if (rack < 0) {
        groups.push_back({host});
      } else {
        groups[static_cast<size_t>(rack)].push_back(host);
      }
    }
    std::erase_if(groups, [](const std::vector<int>& group) { return group.empty(); });
    return groups;
  }

  const Options& options_;
  Bootstrap* const bootstrap_;
  const FabricRails* const rails_;
  HostRunner* const runner_;
  Problem problem_;
  CapacityGraph capacities_;
};

Status Main(const Options& options) {
  Result<FabricFile> file = LoadFabricFile(options.fabric);
  if (!file.ok()) return file.status();
  const FabricRails rails(std::move(file->fabric));
  const char* const name = std::getenv("HARMONAIZE_FABRIC_HOST");
  if (name == nullptr) {
    return InvalidUsage("HARMONAIZE_FABRIC_HOST is not set: start it with 'fabric run'");
  }
  const int host = rails.HostNamed(name);
  if (host < 0) return InvalidArgument("{} has no host '{}'", options.fabric, name);
  const Result<Launch> launch = ReadLaunch(std::getenv, getppid());
  if (!launch.ok()) return launch.status();
  Result<std::unique_ptr<Bootstrap>> bootstrap = Bootstrap::Connect(*launch, {});
  if (!bootstrap.ok()) return bootstrap.status();
  Result<std::unique_ptr<HostRunner>> runner = HostRunner::Create(bootstrap->get(), &rails, host);
  if (!runner.ok()) return runner.status();
  return Benchmark(options, bootstrap->get(), &rails, runner->get()).Run();
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  using harmonaize::perf::Options;
  Options options;
  CLI::App app("Collective algorithms over the transport, in the laboratory of emulated hosts");
  app.footer(harmonaize::perf::kFooter);
  app.add_option("--fabric", options.fabric, "The laboratory's fabric file")->required();
  app.add_option("-c,--collective", options.collective,
                 "all-reduce, all-gather, reduce-scatter, broadcast, reduce or all-to-all");
  app.add_option("-s,--sizes", options.sizes, "Bytes of a rank's larger buffer, with K, M or G")
      ->delimiter(',');
  app.add_option("-a,--algorithms", options.algorithms, "Names, as in src/schedule/algorithms.cc")
      ->delimiter(',');
  app.add_option("-r,--ranks", options.ranks, "On each host")->check(CLI::Range(1, 64));
  app.add_option("--pieces", options.pieces, "As the algorithms take it")
      ->check(CLI::Range(1, 1024));
  app.add_option("--trees", options.trees, "Packed trees at most")->check(CLI::Range(1, 1024));
  app.add_option("-n,--iterations", options.iterations, "The median of these is shown")
      ->check(CLI::Range(1, 100000));
  app.add_option("--slice", options.slice, "Of a block, that goes through the program at a time");
  app.add_option("--slices", options.slices_at_once, "Slices under way at a time")
      ->check(CLI::Range(1, 64));
  app.add_option("--payload", options.payload,
                 "What a plain transfer carries of a link's nominal rate ('fabric measure')")
      ->check(CLI::Range(0.1, 1.0));
  CLI11_PARSE(app, argc, argv);
  const harmonaize::Status status = harmonaize::perf::Main(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "network_perf: %s\n", std::string(status.message()).c_str());
  return 1;
}
