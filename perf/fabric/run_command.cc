#include "perf/fabric/run_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/run/environment.h"
#include "cli/run/free_port.h"
#include "cli/run/job.h"
#include "cli/run/job_guard.h"
#include "cli/run/launcher_signals.h"
#include "cli/run/program_paths.h"
#include "perf/fabric/complain.h"
#include "perf/fabric/host_daemons.h"
#include "perf/fabric/laboratory.h"
#include "perf/fabric/name_option.h"
#include "perf/fabric/namespaces.h"
#include "perf/fabric/placement.h"
#include "perf/fabric/roles.h"

namespace harmonaize::fabric {
namespace {

constexpr char kRunFooter[] =
    R"(Ranks get what 'harmonaize run' gives them: RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE (of
their host), MASTER_ADDR (an address of rank 0's host in the fabric), MASTER_PORT, LD_PRELOAD and
HARMONAIZE_SOCKET; and HARMONAIZE_FABRIC and HARMONAIZE_FABRIC_HOST, the laboratory's name and
their host's. Each host gets a daemon for the time of the job, unless one listens there already
('fabric serve'). Its socket, provider.toml and harmonaized.log are in the laboratory's folder,
under hosts/HOST; 'fabric status --json' names the folder.

How a job ends, and its exit status: as with 'harmonaize run'.

Examples:
  fabric run -n 4 --hosts host0 -- all_reduce_perf -b 8 -e 16M -f 4
  fabric run --hosts host0:2,host2:2 -- ./my_nccl_program)";

struct RunOptions {
  std::string name;
  int ranks = 0;
  std::vector<std::string> hosts;
  std::vector<std::string> assignments;
  bool no_prefix = false;
  bool no_preload = false;
  std::string daemon = "host";
  std::string daemon_config;
  std::string daemon_fabric;
  std::string controller;
  std::string log_level = "info";
  double timeout = 0;
};

Result<std::string> ReadConfig(const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream file(path);
  if (!file) return ErrnoError(errno, "cannot read " + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// The common part of a job and a service: hosts of a laboratory, and the objects that look after
/// daemons and processes there. Its members refer to each other.
struct Stage {
  Laboratory laboratory;
  std::vector<int> hosts;  ///< Host of each rank.
  LauncherSignals signals;
  JobGuard guard;
  HostDaemons daemons{laboratory, signals, guard};
};

Result<std::unique_ptr<Stage>> SetStage(const RunOptions& options) {
  HZ_ASSIGN_OR_RETURN(Laboratory laboratory, Laboratory::Open(options.name));
  // Other commands may disturb the laboratory meanwhile; that is its purpose.
  laboratory.Unlock();
  HZ_ASSIGN_OR_RETURN(std::vector<int> hosts,
                      PlaceRanks(laboratory.fabric(), options.hosts, options.ranks));
  HZ_ASSIGN_OR_RETURN(LauncherSignals signals, LauncherSignals::Take());
  HZ_ASSIGN_OR_RETURN(JobGuard guard, JobGuard::Start());
  return std::unique_ptr<Stage>(
      new Stage{std::move(laboratory), std::move(hosts), std::move(signals), std::move(guard)});
}

Status CheckController(const RunOptions& options, const Stage& stage) {
  if (options.controller.empty()) return Status::Ok();
  HZ_ASSIGN_OR_RETURN(const std::vector<int> host,
                      PlaceRanks(stage.laboratory.fabric(), {options.controller}, 1));
  if (std::find(stage.hosts.begin(), stage.hosts.end(), host.front()) != stage.hosts.end()) {
    return Status::Ok();
  }
  return InvalidArgument("--controller {}: no daemon is started there; add it to --hosts",
                         options.controller);
}

/// Errors: kInProgress when a signal came meanwhile.
Status StartDaemons(const RunOptions& options, Stage* stage) {
  HZ_ASSIGN_OR_RETURN(const std::string program, FindDaemonProgram());
  HZ_ASSIGN_OR_RETURN(const std::string config, ReadConfig(options.daemon_config));
  HZ_ASSIGN_OR_RETURN(const std::string fabric,
                      DaemonFabric(stage->laboratory, options.daemon_fabric));
  HZ_RETURN_IF_ERROR(CheckController(options, *stage));
  return stage->daemons.Start(stage->hosts,
                              {program, config, fabric, options.controller, options.log_level});
}

std::vector<std::string> FabricVariables(const Laboratory& laboratory, const std::string& host) {
  return {"HARMONAIZE_FABRIC=" + laboratory.name(), "HARMONAIZE_FABRIC_HOST=" + host};
}

Result<std::vector<RankPlace>> MakePlaces(const Laboratory& laboratory,
                                          const std::vector<int>& hosts,
                                          const HostDaemons* daemons) {
  std::vector<RankPlace> places;
  std::map<int, int> seen;
  for (const int host : hosts) {
    const std::string& name = laboratory.fabric().nodes[static_cast<size_t>(host)].name;
    HZ_ASSIGN_OR_RETURN(NamespaceEntry entry,
                        NamespaceEntry::Open(NamespaceName(laboratory.name(), name)));
    const auto shared = std::make_shared<NamespaceEntry>(std::move(entry));
    RankPlace& place = places.emplace_back();
    place.local_rank = seen[host]++;
    place.local_world_size = static_cast<int>(std::count(hosts.begin(), hosts.end(), host));
    if (daemons != nullptr) place.socket = daemons->SocketOf(host);
    place.assignments = FabricVariables(laboratory, name);
    place.assignments.push_back(fmt::format("{}={}", kRoleVariable, kRankRole));
    place.prepare = [shared] { return shared->Enter(); };
  }
  return places;
}

// Chooses a free port of rank 0's host, as that host sees it.
Status ChooseMaster(const Laboratory& laboratory, int host, JobOptions* job) {
  job->master_address = laboratory.fabric().NicAt({host, 0}).address;
  const std::string& name = laboratory.fabric().nodes[static_cast<size_t>(host)].name;
  return InNamespace(NamespaceName(laboratory.name(), name), [&] {
    const Result<uint16_t> port = FreePort(job->master_address);
    if (port.ok()) job->master_port = *port;
    return port.status();
  });
}

Result<JobOptions> DescribeJob(const RunOptions& options, std::vector<std::string> command,
                               const Stage& stage, const HostDaemons* daemons) {
  JobOptions job;
  job.launcher = "fabric";
  job.ranks = static_cast<int>(stage.hosts.size());
  job.command = std::move(command);
  job.prefix = !options.no_prefix;
  job.timeout = std::chrono::milliseconds(static_cast<int64_t>(options.timeout * 1000));
  job.assignments = options.assignments;
  if (!options.no_preload) {
    HZ_ASSIGN_OR_RETURN(job.preload_library, FindPreloadLibrary());
  }
  HZ_ASSIGN_OR_RETURN(job.places, MakePlaces(stage.laboratory, stage.hosts, daemons));
  HZ_RETURN_IF_ERROR(ChooseMaster(stage.laboratory, stage.hosts.front(), &job));
  return job;
}

bool HasDaemons(const RunOptions& options) {
  return options.daemon == "host";
}

/// Sets up the stage, with daemons if they are wanted, and runs `act` there, which returns the exit
/// status. A signal that comes before ends it with that signal's status.
Result<int> OnStage(const RunOptions& options,
                    const std::function<Result<int>(Stage& stage)>& act) {
  HZ_ASSIGN_OR_RETURN(const std::unique_ptr<Stage> set, SetStage(options));
  Stage& stage = *set;
  if (HasDaemons(options)) {
    const Status started = StartDaemons(options, &stage);
    if (started.code() == Code::kInProgress) return kSignalStatusBase + stage.daemons.ended_by();
    HZ_RETURN_IF_ERROR(started);
  }
  return act(stage);
}

Result<int> RunJob(const RunOptions& options, const std::vector<std::string>& command,
                   Stage& stage) {
  HZ_ASSIGN_OR_RETURN(JobOptions job, DescribeJob(options, command, stage,
                                                  HasDaemons(options) ? &stage.daemons : nullptr));
  const int exit_status = Job(std::move(job), stage.signals, stage.guard, nullptr).Run();
  if (const Status stopped = stage.daemons.Stop(); !stopped.ok()) Complain(stopped);
  return exit_status;
}

Result<int> Serve(Stage& stage) {
  std::fprintf(stderr, "fabric: %zu daemons serve laboratory %s until SIGINT or SIGTERM\n",
               stage.daemons.started(), stage.laboratory.name().c_str());
  stage.daemons.Wait();
  HZ_RETURN_IF_ERROR(stage.daemons.Stop());
  return 0;
}

// Becomes the program; returns only when that fails.
Result<int> Exec(const std::string& name, const std::string& node,
                 const std::vector<std::string>& words) {
  HZ_ASSIGN_OR_RETURN(Laboratory laboratory, Laboratory::Open(name));
  HZ_ASSIGN_OR_RETURN(const std::string space, laboratory.NamespaceOf(node));
  HZ_ASSIGN_OR_RETURN(const NamespaceEntry entry, NamespaceEntry::Open(space));
  if (!entry.Enter()) return ErrnoError(errno, "cannot enter " + space);
  for (const std::string& variable : FabricVariables(laboratory, node)) {
    const size_t equals = variable.find('=');
    ::setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
  }
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  Complain(ErrnoError(error, fmt::format("cannot start '{}'", words[0])));
  return error == ENOENT ? kNotFoundStatus : kCannotExecuteStatus;
}

void AddExec(CLI::App& app, CommandLine& command_line) {
  CLI::App* exec = app.add_subcommand(
      "exec",
      "Run a program at a host, or at a switch: fabric exec NODE -- program [arguments...]");
  struct Options {
    std::string name;
    std::string node;
  };
  auto options = std::make_shared<Options>();
  AddNameOption(exec, &options->name);
  exec->add_option("NODE", options->node, "The host or switch")->required();
  exec->footer(
      "Examples:\n"
      "  fabric exec host0 -- ip route\n"
      "  fabric exec leaf0 -- tc -s qdisc show\n"
      "  fabric exec host1 -- env UCX_TLS=tcp UCX_NET_DEVICES=nic0.p1 ucx_perftest");
  exec->callback([options, &command_line] {
    if (command_line.tail.empty()) {
      command_line.exit_status =
          Finish(InvalidUsage("no program was given; see 'fabric exec --help'"));
      return;
    }
    command_line.exit_status =
        Finish(Exec(options->name, options->node, command_line.tail), kLauncherFailedStatus);
  });
}

void AddDaemonOptions(CLI::App* app, RunOptions* options) {
  AddNameOption(app, &options->name);
  app->add_option("--daemon-config", options->daemon_config,
                  "Configuration (TOML) for every daemon; what it leaves out of [cluster] and\n"
                  "[costs] is the laboratory's")
      ->type_name("FILE");
  app->add_option("--daemon-fabric", options->daemon_fabric,
                  "Fabric file that the daemons are told, as one that a probe found; none: they\n"
                  "know of no fabric (default: the laboratory's own)")
      ->type_name("FILE|none");
  app->add_option("--controller", options->controller,
                  "Whose daemon shares out links between jobs (default: none does)")
      ->type_name("HOST");
  app->add_option("--log-level", options->log_level, "Of the daemons' logs (default: info)")
      ->check(CLI::IsMember({"error", "warning", "info", "debug", "trace"}));
}

void AddRun(CLI::App& app, CommandLine& command_line) {
  CLI::App* run = app.add_subcommand(
      "run", "Run a job on hosts: fabric run [-n N] [--hosts a,b] -- program [arguments...]");
  auto options = std::make_shared<RunOptions>();
  AddDaemonOptions(run, options.get());
  run->footer(kRunFooter);
  run->add_option("-n,--ranks", options->ranks, "How many ranks (default: one a host)")
      ->check(CLI::Range(1, 1024));
  run->add_option("--hosts", options->hosts,
                  "a,b: ranks go to these in turn; a:2,b:2: so many ranks to each\n"
                  "(default: all hosts in turn)")
      ->delimiter(',');
  run->add_option("--env", options->assignments, "A variable for every rank; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  run->add_option("--daemon", options->daemon,
                  "host: one at each host; none: start none (default: host)")
      ->check(CLI::IsMember({"host", "none"}));
  run->add_flag("--no-prefix", options->no_prefix, "Lines as the ranks wrote them");
  run->add_flag("--no-preload", options->no_preload,
                "Do not preload Harmonaize: for programs that link libnccl.so.2");
  run->add_option("--timeout", options->timeout, "End the job after so long (default: never)")
      ->check(CLI::Range(0.0, 1e7))
      ->type_name("SECONDS");
  run->callback([options, &command_line] {
    for (const std::string& assignment : options->assignments) {
      if (const Status status = CheckAssignment(assignment); !status.ok()) {
        command_line.exit_status = Finish(status);
        return;
      }
    }
    if (command_line.tail.empty()) {
      command_line.exit_status =
          Finish(InvalidUsage("no program was given; see 'fabric run --help'"));
      return;
    }
    const auto run_job = [&](Stage& stage) { return RunJob(*options, command_line.tail, stage); };
    command_line.exit_status = Finish(OnStage(*options, run_job), kLauncherFailedStatus);
  });
}

void AddServe(CLI::App& app, CommandLine& command_line) {
  CLI::App* serve = app.add_subcommand(
      "serve", "Run a daemon at each host until interrupted, for several jobs to share");
  auto options = std::make_shared<RunOptions>();
  AddDaemonOptions(serve, options.get());
  serve->add_option("--hosts", options->hosts, "Which hosts (default: all)")->delimiter(',');
  serve->callback([options, &command_line] {
    command_line.exit_status = Finish(OnStage(*options, Serve), kLauncherFailedStatus);
  });
}

}  // namespace

void AddRunCommands(CLI::App& app, CommandLine& command_line) {
  AddExec(app, command_line);
  AddRun(app, command_line);
  AddServe(app, command_line);
}

}  // namespace harmonaize::fabric
