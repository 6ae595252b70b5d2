#include "perf/fabric/probe_command.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/probe/inference_report.h"
#include "perf/fabric/complain.h"
#include "perf/fabric/laboratory.h"
#include "perf/fabric/name_option.h"
#include "perf/fabric/probe_traffic.h"
#include "src/topology/inference/inference.h"

namespace harmonaize::fabric {
namespace {

struct ProbeRunOptions {
  std::string name;
  std::string output;
  std::string measurements;
  ProbeEffort effort;
  bool json = false;
  bool verbose = false;
};

/// Measures everything, without the inference.
Result<ProbeOutcome> Measure(const Laboratory& laboratory, const ProbeRunOptions& options) {
  ProbeOutcome outcome{.measurements = NothingMeasured(laboratory), .inferred = {}};
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const NextMeasurements next = NextProbes(outcome.measurements);
    if (next.empty()) break;
    if (options.verbose) std::fprintf(stderr, "fabric: %s\n", next.why.c_str());
    HZ_RETURN_IF_ERROR(CarryOut(laboratory, next, options.effort, &outcome.measurements));
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

Status RunProbe(const ProbeRunOptions& options) {
  HZ_ASSIGN_OR_RETURN(Laboratory laboratory, Laboratory::Open(options.name));
  laboratory.Unlock();
  HZ_ASSIGN_OR_RETURN(ProbeOutcome outcome, Measure(laboratory, options));
  if (!options.measurements.empty()) {
    HZ_RETURN_IF_ERROR(
        WriteTextFile(options.measurements, FormatMeasurements(outcome.measurements)));
  }
  HZ_ASSIGN_OR_RETURN(outcome.inferred,
                      InferFabric(outcome.measurements, laboratory.fabric().name));
  const Fabric* const file = &laboratory.fabric();
  const std::string report =
      options.json ? InferenceJson(outcome, file) : InferenceText(outcome, file);
  std::fputs(report.c_str(), stdout);
  if (options.output.empty()) return Status::Ok();
  return WriteInferredFabric(options.output, outcome.inferred, laboratory.file().laboratory);
}

}  // namespace

void AddProbeCommand(CLI::App& app, CommandLine& command_line) {
  auto options = std::make_shared<ProbeRunOptions>();
  CLI::App* probe = app.add_subcommand(
      "probe", "Infer the fabric from what its hosts measure, and compare it with its file");
  AddNameOption(probe, &options->name);
  probe->add_option("-o,--output", options->output, "Write the inferred fabric to this file");
  probe->add_option("--measurements", options->measurements,
                    "Write what was measured to this file, as JSON");
  probe
      ->add_option("--seconds", options->effort.seconds,
                   "How long a set of transfers runs; three times that where many hosts "
                   "meet at one place (default: 0.16)")
      ->check(CLI::Range(kLeastProbeSeconds, kMostProbeSeconds));
  probe->add_flag("--json", options->json, "As JSON; rates in bytes a second");
  probe->add_flag("-v,--verbose", options->verbose, "Say what is being measured");
  probe->footer(
      "Hosts measure by plain TCP between their NICs' own addresses and know nothing of the file. "
      "'found' is payload, 'file' the nominal rate, or what the NICs of those who took part could "
      "fill of it. docs/probing.md tells how it infers and what it cannot see.");
  probe->callback(
      [options, &command_line] { command_line.exit_status = Finish(RunProbe(*options)); });
}

}  // namespace harmonaize::fabric
