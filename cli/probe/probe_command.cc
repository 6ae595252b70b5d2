#include "cli/probe/probe_command.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/daemon_document.h"
#include "cli/probe/inference_report.h"
#include "src/probing/plain_traffic.h"
#include "src/topology/inference/inference.h"

namespace harmonaize {
namespace {

constexpr char kProbeDescription[] =
    "Measure the network between daemons, and infer a fabric file from what was measured.";

constexpr char kProbeFooter[] =
    R"(Plans for several hosts are as good as what the daemons know of the network. Where somebody knows it,
write the fabric file by hand (docs/fabric-file.md): that is always better. Where nobody does, probe:
once when the cluster is built, and again when hosts, cables or switches change.

ADDRESS is where a daemon is reached by others, its cluster.address: '10.0.0.2:7400', or without the
port the usual one. Without addresses it is the daemons that this one is linked with now, and itself;
those are the ones with which it has had communicators since it started. The daemon that answers here
leads, and need not be among them. Each daemon opens its NICs' addresses to the others, at ports that
the kernel chooses, for the time of the probe; a firewall between the hosts must let them through.

Probing loads the network: hosts send to each other as fast as they can, for a sixth to half a second at
a time, some dozens to hundreds of times. Jobs that run meanwhile are slowed down and make the result
wrong, so do it when all is quiet. Where what was measured several times does not say the same each time,
the result is called unsteady and the confidence falls: then probe again. Ctrl-C ends it at once and
leaves nothing behind.

Only operators may probe: root, the user who runs the daemon, and the members of operators.group. What
was inferred is printed with a confidence between 0 and 1 and its reasons; docs/probing.md tells what
cannot be seen. Look at it, then give it to all daemons as cluster.fabric, the same file to each, and
restart them. A host is called what its cluster.host says, else what its machine is called, with a
number behind it where two are alike.

Exit status: 0 when a fabric was inferred; 1 when not; 2 for wrong options.

Examples:
  harmonaize probe 10.0.0.1 10.0.0.2 10.0.0.3 -o fabric.toml
  harmonaize probe --json | jq '.racks, .confidence'
  harmonaize plan --fabric fabric.toml --size 64M)";

struct ProbeCommandOptions {
  std::string socket;
  std::vector<std::string> addresses;
  std::string output;
  std::string measurements;
  double seconds = kProbeSeconds;
  bool json = false;
};

/// Shows what is being measured on standard error: at a terminal one line that changes, elsewhere a
/// line every other second.
class Progress {
 public:
  ~Progress() {
    if (terminal_ && steps_ > 0) std::fputs("\r\033[K", stderr);
  }
  void Show(const std::string& what) {
    ++steps_;
    const auto now = std::chrono::steady_clock::now();
    if (terminal_) {
      std::fprintf(stderr, "\r\033[Kharmonaize: step %d: %s", steps_, what.c_str());
    } else if (now >= next_) {
      std::fprintf(stderr, "harmonaize: step %d: %s\n", steps_, what.c_str());
      next_ = now + std::chrono::seconds(2);
    }
  }

 private:
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  int steps_ = 0;
  std::chrono::steady_clock::time_point next_{};
};

Result<ProbeOutcome> MeasureHosts(const ProbeCommandOptions& options) {
  Progress progress;
  const auto start = std::chrono::steady_clock::now();
  HZ_ASSIGN_OR_RETURN(const std::string document,
                      FetchProbe(options.socket, options.addresses, options.seconds,
                                 [&](const std::string& what) { progress.Show(what); }));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  HZ_ASSIGN_OR_RETURN(Measurements measured, ParseMeasurements(document, "the daemon's answer"));
  return ProbeOutcome{std::move(measured), took.count(), {}};
}

Status Probe(const ProbeCommandOptions& options) {
  HZ_ASSIGN_OR_RETURN(ProbeOutcome outcome, MeasureHosts(options));
  // Written first: if nothing can be inferred, it is the only result.
  if (!options.measurements.empty()) {
    HZ_RETURN_IF_ERROR(
        WriteTextFile(options.measurements, FormatMeasurements(outcome.measurements)));
  }
  HZ_ASSIGN_OR_RETURN(outcome.inferred, InferFabric(outcome.measurements, "inferred"));
  const std::string report =
      options.json ? InferenceJson(outcome, nullptr) : InferenceText(outcome, nullptr);
  std::fputs(report.c_str(), stdout);
  if (options.output.empty()) return Status::Ok();
  return WriteInferredFabric(options.output, outcome.inferred);
}

int Show(const ProbeCommandOptions& options) {
  const Status status = Probe(options);
  if (status.ok()) return 0;
  Complain(status.message());
  return 1;
}

}  // namespace

void AddProbeCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* probe = app.add_subcommand("probe", kProbeDescription);
  auto options = std::make_shared<ProbeCommandOptions>();
  probe->footer(kProbeFooter);
  probe->add_option("ADDRESS", options->addresses,
                    "Where daemons are reached by others (default: those linked with this one)");
  probe->add_option("-o,--output", options->output, "Write the inferred fabric file here")
      ->type_name("FILE");
  probe
      ->add_option("--measurements", options->measurements,
                   "Write what was measured here, as JSON (docs/probing.md)")
      ->type_name("FILE");
  probe
      ->add_option("--seconds", options->seconds,
                   "How long a set of transfers runs; three times that where many hosts "
                   "meet at one place (default: 0.16)")
      ->check(CLI::Range(kLeastProbeSeconds, kMostProbeSeconds));
  probe->add_flag("--json", options->json, "Print what was found as JSON; rates in bytes a second");
  AddSocketOption(probe, &options->socket);
  probe->callback([options, &command_line] { command_line.exit_status = Show(*options); });
}

}  // namespace harmonaize
