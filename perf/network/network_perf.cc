// Measures schedules over the transport, without daemons and tenants: how well a plan uses a
// fabric. One process for each host, in the laboratory.

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
#include "perf/network/host_runner.h"
#include "perf/network/rank_buffers.h"
#include "src/base/byte_size.h"
#include "src/base/clock.h"
#include "src/base/names.h"
#include "src/planner/planner.h"
#include "src/topology/fabric/fabric_file.h"

namespace harmonaize::perf {
namespace {

constexpr char kFooter[] =
    R"(Runs in the laboratory, a process for each host:

  fabric up two-racks.toml
  fabric run --daemon none --no-preload --hosts host0,host2,host1,host3 -- \
      network_perf --fabric two-racks.toml --sizes 1M,64M --plans adaptive,static-ring,packed-trees

Hosts are numbered as --hosts lists them, and so are the ranks: -r ranks on each host, rank i on
host i mod hosts. A plan is a policy of the planner (adaptive, static-ring), or an algorithm, which
goes along the hosts as they are listed, in --pieces, its racks being the groups. adaptive/bf16 and
adaptive/fp8 may also send sums in that format, within --error-bound. 'bound' is the
least time that the fabric's narrowest cut allows at its nominal rates times --payload, '% bound'
how much of it was reached, and 'pred/meas' the planner's time by the measured one.)";

struct NetworkOptions {
  std::string fabric;
  std::string collective = "all-reduce";
  std::vector<std::string> sizes = {"1M", "16M", "64M"};
  std::vector<std::string> plans = {"adaptive", "static-ring"};
  int ranks = 1;
  int pieces = 4;
  int best = 1;
  int iterations = 5;
  std::string slice;
  int slices_at_once = 0;
  double error_bound = 0.5;
  double payload = 0.992;
  double bucket_ms = 2;
  double wire_gbps = 0;
  int shared_processors = 0;
};

/// Returns "ring, by rack, 4 pieces, slices of 64K, 4 at once, weighted".
std::string Describe(const PlanSpec& spec, const RankedPlan& plan) {
  std::string text(spec.algorithm->name);
  if (!spec.order.name.empty()) text += ", " + spec.order.name;
  if (!spec.groups_name.empty()) text += ", " + spec.groups_name;
  if (plan.pieces > 1) text += fmt::format(", {} pieces", plan.pieces);
  text += fmt::format(", slices of {}K, {} at once, {}", plan.slice.bytes >> 10, plan.slice.at_once,
                      PathUseName(spec.paths));
  if (plan.wire == WireFormat::kSame) return text;
  return text + fmt::format(", {}", WireFormatName(plan.wire));
}

class Benchmark {
 public:
  Benchmark(const NetworkOptions& options, Bootstrap* bootstrap, const FabricModel* model,
            const FabricRails* rails, HostRunner* runner)
      : options_(options),
        bootstrap_(bootstrap),
        model_(*model),
        rails_(*rails),
        runner_(runner),
        host_(runner->hosts()[static_cast<size_t>(bootstrap->process())]) {}

  Status Run() {
    HZ_RETURN_IF_ERROR(MakeProblem());
    std::vector<uint64_t> sizes;
    for (const std::string& text : options_.sizes) {
      HZ_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(text));
      sizes.push_back(bytes);
    }
    if (!options_.slice.empty()) {
      HZ_ASSIGN_OR_RETURN(slice_bytes_, ParseBytes(options_.slice));
    }
    std::vector<Planner> planners;
    for (const std::string& plan : options_.plans) {
      HZ_ASSIGN_OR_RETURN(Planner planner, PlannerFor(plan));
      planners.push_back(std::move(planner));
    }
    PrintHead();
    for (const uint64_t bytes : sizes) {
      for (size_t i = 0; i < planners.size(); ++i) {
        HZ_RETURN_IF_ERROR(MeasurePlans(options_.plans[i], planners[i], bytes));
      }
    }
    return Status::Ok();
  }

 private:
  Status MakeProblem() {
    HZ_ASSIGN_OR_RETURN(const Collective collective, FindCollective(options_.collective));
    problem_.collective = collective;
    problem_.root = HasRoot(collective) ? 0 : -1;
    for (int i = 0; i < options_.ranks * bootstrap_->processes(); ++i) {
      problem_.host_of_rank.push_back(
          runner_->hosts()[static_cast<size_t>(i % bootstrap_->processes())]);
    }
    return Status::Ok();
  }

  /// Returns the planner for a policy or an algorithm.
  Result<Planner> PlannerFor(const std::string& plan) const {
    PlannerOptions how;
    how.costs.payload_share = options_.payload;
    how.costs.credit_seconds = options_.bucket_ms * 1e-3;
    how.costs.wire_bytes_per_second = options_.wire_gbps * 1e9;
    how.costs.shared_processors = options_.shared_processors;
    const size_t slash = plan.find('/');
    if (slash != std::string::npos) {
      const std::optional<WireFormat> format = FindWireFormat(plan.substr(slash + 1));
      if (!format.has_value()) return InvalidArgument("'{}' names no format", plan);
      how.terms.wire = {.bf16 = *format == WireFormat::kBf16,
                        .fp8 = *format == WireFormat::kFp8,
                        .error_bound = options_.error_bound};
    }
    if (const std::optional<PlanPolicy> policy = FindPlanPolicy(plan.substr(0, slash));
        policy && *policy != PlanPolicy::kFixed) {
      how.policy = *policy;
      return Planner::Make(model_, problem_, std::move(how));
    }
    how.policy = PlanPolicy::kFixed;
    PlanSpec& spec = how.fixed;
    spec.algorithm = FindAlgorithm(plan);
    if (spec.algorithm == nullptr) {
      std::vector<std::string_view> names = {"adaptive", "static-ring"};
      for (const Algorithm& one : Algorithms()) names.push_back(one.name);
      return InvalidArgument("'{}' is neither a policy nor an algorithm{}", plan,
                             DidYouMean(plan, names));
    }
    if (spec.algorithm->takes_order) spec.order = {"given", runner_->hosts()};
    if (spec.algorithm->needs_groups) spec.groups = GroupsByRack(model_, problem_);
    spec.pieces = options_.pieces;
    return Planner::Make(model_, problem_, std::move(how));
  }

  /// Measures the planner's choice, and as many of its next best as were asked for.
  Status MeasurePlans(const std::string& name, const Planner& planner, uint64_t bytes) {
    const BufferBlocks blocks =
        BlocksOf(problem_.collective, static_cast<int>(problem_.host_of_rank.size()), 0, 0);
    const uint64_t count = bytes / sizeof(float) / std::max(blocks.send, blocks.receive);
    if (count == 0) return InvalidArgument("--sizes: {} bytes are less than an element", bytes);
    const PlannedSize planned = planner.PlanFor(count * sizeof(float));
    const size_t shown = std::min(planned.plans.size(), static_cast<size_t>(options_.best));
    for (size_t i = 0; i < shown; ++i) {
      RankedPlan plan = planned.plans[i];
      if (slice_bytes_ > 0) plan.slice.bytes = slice_bytes_;
      if (options_.slices_at_once > 0) plan.slice.at_once = options_.slices_at_once;
      HZ_ASSIGN_OR_RETURN(const double seconds, Measure(planner, plan, count));
      if (bootstrap_->process() != 0) continue;
      const PlanSpec& spec = planner.candidates()[plan.candidate].spec;
      // The planner's bound assumes nominal rates.
      const double bound = planned.bound_seconds / options_.payload;
      std::printf("  %10llu  %-12s %10.3f %10.3f %8.1f %10.3f %9.2f  %s\n",
                  static_cast<unsigned long long>(bytes), name.c_str(), seconds * 1e3, bound * 1e3,
                  100 * bound / seconds, plan.prediction.seconds * 1e3,
                  plan.prediction.seconds / seconds, Describe(spec, plan).c_str());
      std::fflush(stdout);
    }
    return Status::Ok();
  }

  /// Returns how many operations make a link's token bucket, full after a pause, insignificant.
  /// Equal on all hosts, because predictions are.
  static int OperationsInARow(const RankedPlan& plan) {
    constexpr double kSeconds = 0.1;
    constexpr double kMost = 1000;
    return 1 + static_cast<int>(std::min(kSeconds / plan.prediction.seconds, kMost));
  }

  /// Returns the median of the iterations, in seconds for one operation.
  Result<double> Measure(const Planner& planner, const RankedPlan& plan, uint64_t count) {
    HZ_ASSIGN_OR_RETURN(const auto outline, planner.OutlineOf(plan));
    const NetworkProgram program(
        outline->Program(outline->placement().PositionOfHost(host_)), outline->pieces(),
        plan.wire == WireFormat::kSame ? NetworkProgram::Messages::kPlain
                                       : NetworkProgram::Messages::kPlainOrEncoded);
    RailTable rail_table(rails_, host_);
    for (const MessageLanes& one : planner.LanesFrom(plan.candidate, host_)) {
      rail_table.SetLanes(rails_, one.to_host, one.path, one.lanes);
    }
    RankBuffers buffers(problem_, host_, count);
    const HostRunner::Operation operation{.program = &program,
                                          .rails = &rail_table,
                                          .count = count,
                                          .inputs = buffers.inputs(),
                                          .outputs = buffers.outputs(),
                                          .slice_bytes = plan.slice.bytes,
                                          .slices_at_once = plan.slice.at_once,
                                          .wire = plan.wire};
    HZ_RETURN_IF_ERROR(runner_->Run(operation));
    const bool right = buffers.Right(plan.wire == WireFormat::kSame ? 0 : options_.error_bound);
    const int row = OperationsInARow(plan);
    std::vector<double> times;
    for (int i = 0; i < options_.iterations; ++i) {
      HZ_RETURN_IF_ERROR(bootstrap_->Barrier());
      const uint64_t start = MonotonicNanoseconds();
      for (int j = 0; j < row; ++j) HZ_RETURN_IF_ERROR(runner_->Run(operation));
      HZ_RETURN_IF_ERROR(bootstrap_->Barrier());
      times.push_back(static_cast<double>(MonotonicNanoseconds() - start) * 1e-9 / row);
    }
    HZ_ASSIGN_OR_RETURN(const std::vector<std::string> verdicts,
                        bootstrap_->AllGather(right ? "y" : "n"));
    for (const std::string& verdict : verdicts) {
      if (verdict != "y") return InternalError("{}: the result is wrong", outline->name());
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  void PrintHead() const {
    if (bootstrap_->process() != 0) return;
    std::printf("# %s of %zu ranks on %d hosts, float32 sum\n",
                std::string(CollectiveName(problem_.collective)).c_str(),
                problem_.host_of_rank.size(), bootstrap_->processes());
    std::printf("# %10s  %-12s %10s %10s %8s %10s %9s  %s\n", "bytes", "plan", "ms", "bound",
                "% bound", "predicted", "pred/meas", "what");
  }

  const NetworkOptions& options_;
  Bootstrap* const bootstrap_;
  const FabricModel& model_;
  const FabricRails& rails_;
  HostRunner* const runner_;
  const int host_;
  Problem problem_;
  uint64_t slice_bytes_ = 0;
};

Status Main(const NetworkOptions& options) {
  HZ_ASSIGN_OR_RETURN(FabricFile file, LoadFabricFile(options.fabric));
  const FabricModel model(std::move(file.fabric));
  const FabricRails rails(model.fabric());
  const char* const name = std::getenv("HARMONAIZE_FABRIC_HOST");
  if (name == nullptr) {
    return InvalidUsage("HARMONAIZE_FABRIC_HOST is not set: start it with 'fabric run'");
  }
  const int host = model.HostNamed(name);
  if (host < 0) return InvalidArgument("{} has no host '{}'", options.fabric, name);
  HZ_ASSIGN_OR_RETURN(const Launch launch, ReadLaunch(std::getenv, getppid()));
  HZ_ASSIGN_OR_RETURN(std::unique_ptr<Bootstrap> bootstrap, Bootstrap::Connect(launch, {}));
  HZ_ASSIGN_OR_RETURN(std::unique_ptr<HostRunner> runner,
                      HostRunner::Create(bootstrap.get(), &rails, host));
  return Benchmark(options, bootstrap.get(), &model, &rails, runner.get()).Run();
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  harmonaize::perf::NetworkOptions options;
  CLI::App app("Collective plans over the transport, in the laboratory of emulated hosts");
  app.footer(harmonaize::perf::kFooter);
  app.add_option("--fabric", options.fabric, "The laboratory's fabric file")->required();
  app.add_option("-c,--collective", options.collective,
                 "all-reduce, all-gather, reduce-scatter, broadcast, reduce or all-to-all")
      ->capture_default_str();
  app.add_option("-s,--sizes", options.sizes, "Bytes of a rank's larger buffer, with K, M or G")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("-p,--plans,-a,--algorithms", options.plans,
                 "Policies of the planner, or names of src/schedule/algorithms/algorithms.cc")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("-r,--ranks", options.ranks, "On each host")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--pieces", options.pieces, "Of algorithms that are named")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--best", options.best, "Measure so many of a policy's candidates, best first")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("-n,--iterations", options.iterations,
                 "Rows of operations, 0.1 s each at least; the median is shown")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--slice", options.slice,
                 "Of a block, that goes through the program at a time, in place of the plan's");
  app.add_option("--slices", options.slices_at_once,
                 "Slices under way at a time, in place of the plan's")
      ->check(CLI::Range(1, 64));
  app.add_option("--error-bound", options.error_bound,
                 "Largest error that a format on the wire may bring")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--payload", options.payload,
                 "What a plain transfer carries of a link's nominal rate ('fabric measure')")
      ->check(CLI::Range(0.1, 1.0))
      ->capture_default_str();
  app.add_option("--bucket-ms", options.bucket_ms,
                 "For predictions: of its rate, how much a link's bucket of tokens holds")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  app.add_option("--wire-gbps", options.wire_gbps,
                 "For predictions: GB/s that a processor sends or receives; 0: it touches no byte")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--shared-processors", options.shared_processors,
                 "For predictions: they do the work of all hosts together; 0: each has its own")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const harmonaize::Status status = harmonaize::perf::Main(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "network_perf: %s\n", std::string(status.message()).c_str());
  return 1;
}
