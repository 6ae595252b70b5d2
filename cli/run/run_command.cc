#include "cli/run/run_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/container/container_command.h"
#include "cli/container/container_ends.h"
#include "cli/container/engine_place.h"
#include "cli/container/injection.h"
#include "cli/daemon_document.h"
#include "cli/daemon_http.h"
#include "cli/json_view.h"
#include "cli/requirements/requirements_file.h"
#include "cli/run/environment.h"
#include "cli/run/free_port.h"
#include "cli/run/job.h"
#include "cli/run/job_guard.h"
#include "cli/run/private_daemon.h"
#include "cli/run/program_paths.h"
#include "cli/run/shell_line.h"
#include "cli/terminal.h"
#include "cli/usage_problem.h"
#include "src/base/clean_text.h"
#include "src/ipc/daemon_search.h"
#include "src/ipc/socket_path.h"

namespace harmonaize {
namespace {

constexpr int kMostRanks = 1024;
/// Most ranks of a host that an agent offers places for, as the daemon has it.
constexpr int kMostPlaces = 512;
/// Longest part of a word that a message repeats, in bytes: a word may be a whole file.
constexpr size_t kMostShownOptionBytes = 80;
/// Most ranks that an elastic job may name, on all hosts.
constexpr int kMostElasticRanks = 1 << 20;

constexpr char kRunDescription[] =
    "Start N ranks of a program on this host and let the Harmonaize daemon execute their NCCL "
    "collectives.";

constexpr char kRunFooter[] =
    R"(Each rank gets RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR (127.0.0.1) and
MASTER_PORT (a free port), as torchrun sets them, LD_PRELOAD with libharmonaize-preload.so before
what it had, and HARMONAIZE_SOCKET; with --name and --kind, HARMONAIZE_JOB and HARMONAIZE_JOB_KIND;
with --requirements, HARMONAIZE_REQUIREMENTS with the file's absolute path. Variables that --env
sets win over all of these. Rank 0 has the launcher's standard input unless that is a terminal; the
others read nothing.

A name stands for one job of a user. Ranks of two runs with the same --name, at the same time or one
after the other, are one job, with one list of events; run says so where the other one runs still.

Which daemon: the one that listens at HARMONAIZE_SOCKET or, without that variable, at the system's
socket, /run/harmonaize/harmonaized.sock, or else at the user's own. It must run as root, as this
user, or as the user whom /etc/harmonaize/daemon-user names. Where there is none, --daemon=auto
starts a private one that ends with the job.

Containers: with --inject the program is docker, podman or nerdctl (run, exec), apptainer,
singularity or bwrap. Its container gets this host's client library, the writer of checkpoints and
the daemon's socket, mounted read-only at /opt/harmonaize and /run/harmonaize, and the variables
above; an LD_PRELOAD that the command gives it stays in force behind ours. Several ranks of docker,
podman and nerdctl get --network host, unless the command names a network. Containers whose client
was killed are killed. --dry-run shows the commands; docs/containers.md has more.

How a job ends: with its ranks. When one fails, the others have --error-wait seconds to notice and
say what they saw; then they get SIGTERM and, --grace seconds later, SIGKILL, as does everything
else in their process groups. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to all ranks; a
second one kills them. SIGUSR1 and SIGUSR2 are passed on and change nothing else. Signals that the
launcher was started to ignore, as by nohup, stay ignored.

Elastic jobs: with --elastic MIN the job goes on without ranks that fail, as long as so many are
left: the program shrinks its communicator (ncclCommShrink, harmonaize.elastic). With MIN:MAX run is
also the job's agent on this host. It tells the daemon how many more ranks this host takes
(--places), starts ranks when a grow is offered and accepted, and they join by a ticket
(HARMONAIZE_TICKET_FILE, in place of RANK and WORLD_SIZE). Ranks that are asked back leave by
themselves (harmonaize.elastic), or get SIGTERM two seconds before they are due. The job accepts
offers within MIN and MAX; a key that its requirements have in [elastic] takes the place of MIN, MAX
or accept. On another host, run --ticket FILE with the same --name joins the running job with no
ranks at first, and ends with the job.

Exit status: that of the rank that failed first, 128+n when signal n killed it or ended the job; 0
when all ranks returned 0, but for those without which an elastic job went on; 1 when a --ticket led
to no job; 2 for a wrong command line, or a file of requirements that cannot be read or has mistakes,
which are all listed; 124 after --timeout; 125 when the launcher itself failed; 126
and 127 when the program cannot be executed or found.

Examples:
  harmonaize run -n 4 -- all_reduce_perf -b 8 -e 16M -f 4 -c 1
  harmonaize run -n 2 --env NCCL_DEBUG=INFO -- python3 train.py --epochs 1
  harmonaize run -n 4 --name llama --kind training -- python3 train.py
  harmonaize run -n 4 --requirements job.toml -- python3 train.py
  harmonaize run -n 4 --elastic 2 --name llama -- python3 elastic_train.py
  harmonaize run -n 4 --elastic 2:16 --places 8 --name llama -- python3 elastic_train.py
  harmonaize run --elastic 2:16 --places 8 --name llama --ticket llama.ticket -- \
      python3 elastic_train.py
  harmonaize run -n 4 --inject -- docker run --rm --gpus all my-image python3 train.py
  harmonaize run -n 8 --daemon=private --timeout 600 -- ./my_nccl_program)";

// Help for `run`: CLI11 does not know that a program's command line follows.
class RunHelp : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: harmonaize run [-n N] [options] [--] program [arguments...]\n";
  }
};

/// The sizes that --elastic allows.
struct ElasticRange {
  int least = 0;  ///< The fewest ranks with which the job goes on; 0: it needs all.
  int most = 0;   ///< The most that it takes; 0: nothing was said, and none come.
};

struct RunOptions {
  int ranks = 1;
  bool prefix = false;
  bool no_prefix = false;
  bool no_preload = false;
  bool inject = false;
  bool dry_run = false;
  std::optional<ContainerCommand> container;  ///< The command, with --inject.
  std::string daemon = "auto";
  std::string name;
  std::string kind;
  std::string requirements;  ///< A file; absolute once it is checked.
  std::string stated_name;   ///< The job's name by that file; "" if it has none.
  /// What that file has in [elastic].
  struct {
    std::optional<int64_t> least_ranks = {};
    std::optional<int64_t> most_ranks = {};
    bool offers = false;
  } stated_elastic;
  std::vector<std::string> assignments;
  std::string elastic_text;
  ElasticRange elastic;
  int places = 0;           ///< Most ranks on this host; 0: as many as the job takes.
  std::string ticket_file;  ///< Of a running job that this host is to join; "": none.
  double timeout = 0;
  double grace = 5;
  double error_wait = 1;
  std::vector<std::string> command;
};

std::chrono::milliseconds Milliseconds(double seconds) {
  // Rounded up, because a timeout of 0 means none.
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(seconds * 1000)));
}

// Returns the socket where a daemon listens now, or the reason why there is none.
Result<std::string> FindListeningDaemon() {
  HZ_ASSIGN_OR_RETURN(const DaemonConnection daemon, FindDaemon(ClientSocketPlaces()));
  return daemon.path;
}

// Checks that the daemon speaks a version of the protocol that ranks with this release's library
// do: otherwise each of them would fail.
Status CheckRelease(const std::string& socket) {
  const Result<std::string> status = FetchDaemonStatus(socket);
  return status.status().code() == Code::kInvalidUsage ? status.status() : Status::Ok();
}

// The job's daemon: one that runs already, a private one, or none.
struct DaemonChoice {
  std::string socket;
  std::optional<PrivateDaemon> own;
};

// Starts a private daemon; `*ended_by` is the signal for which the wait was given up.
Result<PrivateDaemon> StartDaemon(const std::string& program, LauncherSignals& signals,
                                  int* ended_by) {
  PrivateDaemon::Options options;
  options.program = program;
  options.signal_mask = signals.previous_mask();
  options.cancel_fd = signals.fd();
  options.cancelled = [&signals, ended_by] {
    // There are no ranks yet to which the user's signals could go.
    while (const std::optional<int> signal = signals.Next()) {
      if (!LauncherSignals::EndsJob(*signal)) continue;
      *ended_by = *signal;
      return true;
    }
    return false;
  };
  return PrivateDaemon::Start(options);
}

Result<DaemonChoice> ChooseDaemon(const RunOptions& options, LauncherSignals& signals,
                                  JobGuard& guard, int* ended_by) {
  DaemonChoice choice;
  if (options.daemon == "none") return choice;
  std::string why = "--daemon=private";
  if (options.daemon == "auto") {
    Result<std::string> socket = FindListeningDaemon();
    if (socket.ok()) {
      HZ_RETURN_IF_ERROR(CheckRelease(*socket));
      choice.socket = *socket;
      return choice;
    }
    why = socket.status().message();
    if (options.container && options.container->EntersRunning()) {
      return Unavailable(
          "{}; a container that runs already cannot be given a private daemon's socket", why);
    }
  }
  const Result<std::string> program = FindDaemonProgram();
  if (!program.ok()) return Unavailable("{}; {}", why, program.status().message());
  HZ_ASSIGN_OR_RETURN(PrivateDaemon daemon, StartDaemon(*program, signals, ended_by));
  guard.WatchGroup(daemon.process().pid());
  guard.WatchFolder(daemon.folder());
  Complain(fmt::format("{}: started a private daemon (pid {}) for this job", why,
                       daemon.process().pid()));
  choice.socket = daemon.socket_path();
  choice.own = std::move(daemon);
  return choice;
}

std::string JobNameOf(const RunOptions& options) {
  const char* const variable = std::getenv("HARMONAIZE_JOB");
  if (!options.name.empty()) return options.name;
  return variable != nullptr && *variable != '\0' ? variable : options.stated_name;
}

JobOptions MakeJobOptions(const RunOptions& options) {
  JobOptions job;
  job.ranks = options.ranks;
  job.command = options.command;
  const bool may_be_several = options.ranks > 1 || options.elastic.most > 1;
  job.prefix = options.prefix || (may_be_several && !options.no_prefix);
  job.colour_output = TakesColours(STDOUT_FILENO);
  job.colour_error = TakesColours(STDERR_FILENO);
  job.least_ranks = options.elastic.least;
  job.most_ranks_here = options.places > 0 ? options.places : options.elastic.most;
  job.timeout = Milliseconds(options.timeout);
  job.error_wait = Milliseconds(options.error_wait);
  job.grace = Milliseconds(options.grace);
  // Newcomers have no requirements yet when they join by the job's name.
  job.name = options.elastic.most > 0 ? JobNameOf(options) : options.name;
  job.kind = options.kind;
  job.requirements = options.requirements;
  job.assignments = options.assignments;
  return job;
}

/// Tells the user of a job that runs under the name of this one: the daemon takes both for one job.
void WarnOfNamesake(const RunOptions& options) {
  const std::string name = JobNameOf(options);
  if (name.empty() || options.daemon == "private") return;
  const Result<DaemonHttp> daemon = FindTenantsHttp("");
  // Without a daemon that answers there is no such job.
  if (!daemon.ok()) return;
  const Result<Json> jobs = GetDocument(*daemon, "/v1/jobs");
  if (!jobs.ok()) return;
  for (const Json& job : ListAt(*jobs, "jobs")) {
    if (At(job, "name") != name || !At(job, "ended").is_null()) continue;
    Complain(fmt::format(
        "a job named {} runs since {}, and these ranks become part of it: both have the same "
        "events, answers and place in `harmonaize jobs`; another --name keeps them apart",
        TextAt(job, "name"), MomentAt(job, "began")));
    return;
  }
}

/// Returns what an elastic job says to the daemon so that it need not be asked about each offer. A
/// key of the user's own requirements takes the place of ours.
std::string ElasticRequirements(const RunOptions& options) {
  if (!options.ticket_file.empty()) return "";
  const auto& stated = options.stated_elastic;
  std::string text;
  // Bounds of which the user has stated one have to fit each other.
  if (!stated.least_ranks) {
    const int64_t most = stated.most_ranks.value_or(options.elastic.least);
    text += fmt::format("least_ranks = {}\n", std::min<int64_t>(options.elastic.least, most));
  }
  if (!stated.most_ranks) {
    const int64_t least = stated.least_ranks.value_or(options.elastic.most);
    text += fmt::format("most_ranks = {}\n", std::max<int64_t>(options.elastic.most, least));
  }
  if (!stated.offers) text += "offers = \"accept\"\n";
  return text.empty() ? text : "[elastic]\n" + text;
}

Result<std::unique_ptr<ElasticAgent>> StartAgent(const RunOptions& options, const JobOptions& job) {
  return ElasticAgent::Start({.socket = job.socket,
                              .job = JobNameOf(options),
                              .ticket_file = options.ticket_file,
                              .places = std::max(job.most_ranks_here - job.ranks, 0),
                              .requirements = ElasticRequirements(options)});
}

/// Gives the job the library to preload: in each rank's environment, or in its container. `ends`
/// has the files for the containers' ids.
Status AddLibrary(const RunOptions& options, const ContainerEnds& ends, JobOptions& job) {
  std::string library;
  if (!options.no_preload) {
    HZ_ASSIGN_OR_RETURN(library, FindPreloadLibrary());
  }
  if (!options.container) {
    job.preload_library = library;
    return Status::Ok();
  }
  HZ_ASSIGN_OR_RETURN(const std::string writer, FindWriterProgram());
  const Injection injection(*options.container, {.library = library,
                                                 .writer = writer,
                                                 .socket = job.socket,
                                                 .assignments = options.assignments,
                                                 .ranks_meet = options.ranks > 1,
                                                 .of_launcher = Environment::OfThisProcess()});
  if (const std::string note = injection.NetworkNote(); !note.empty()) Complain(note);
  job.wrap = [injection, ends](int number, const Environment& of_rank) {
    return injection.ProgramOf(of_rank, ends.FileOf(number));
  };
  return Status::Ok();
}

/// Prints what would be run for each rank, in lines for a shell.
Result<int> ShowPrograms(const RunOptions& options) {
  JobOptions job = MakeJobOptions(options);
  const Result<std::string> socket = FindListeningDaemon();
  if (!socket.ok()) {
    return Unavailable("{}; --dry-run shows commands for a daemon that runs",
                       socket.status().message());
  }
  job.socket = *socket;
  HZ_RETURN_IF_ERROR(AddLibrary(options, {}, job));
  HZ_ASSIGN_OR_RETURN(const uint16_t port, FreePort(job.master_address));
  for (int rank = 0; rank < job.ranks; ++rank) {
    HZ_ASSIGN_OR_RETURN(const RankProgram program, ProgramOfRank(job, rank, port));
    std::puts(ShellLine(program, Environment::OfThisProcess()).c_str());
  }
  return 0;
}

Result<int> RunJob(const RunOptions& options) {
  if (options.ticket_file.empty()) WarnOfNamesake(options);
  JobOptions job_options = MakeJobOptions(options);
  TemporaryFolder ids;
  ContainerEnds ends;
  if (options.container && ContainerEnds::IsNeededFor(*options.container)) {
    HZ_ASSIGN_OR_RETURN(ids, TemporaryFolder::Make());
    ends = ContainerEnds(*options.container, ids.path());
  }
  HZ_ASSIGN_OR_RETURN(LauncherSignals signals, LauncherSignals::Take());
  HZ_ASSIGN_OR_RETURN(JobGuard guard, JobGuard::Start([&ends] { ends.KillAll(); }));
  if (!ids.path().empty()) guard.WatchFolder(ids.path());
  int ended_by = 0;
  Result<DaemonChoice> daemon = ChooseDaemon(options, signals, guard, &ended_by);
  if (daemon.status().code() == Code::kInProgress) return kSignalStatusBase + ended_by;
  if (!daemon.ok()) return daemon.status();

  job_options.socket = daemon->socket;
  HZ_RETURN_IF_ERROR(AddLibrary(options, ends, job_options));
  PrivateDaemon* own = daemon->own ? &*daemon->own : nullptr;
  TemporaryFolder tickets;
  std::unique_ptr<ElasticAgent> agent;
  if (options.elastic.most > 0) {
    HZ_ASSIGN_OR_RETURN(tickets, TemporaryFolder::Make());
    guard.WatchFolder(tickets.path());
    job_options.ticket_folder = tickets.path();
    HZ_ASSIGN_OR_RETURN(agent, StartAgent(options, job_options));
  }
  Job job(std::move(job_options), signals, guard, own == nullptr ? nullptr : &own->process(),
          agent.get());
  const int exit_status = job.Run();
  ends.Kill(job.FailedProcesses());
  agent.reset();
  if (own != nullptr) {
    const Status stopped = own->Stop(std::chrono::seconds(5));
    if (!stopped.ok()) Complain(stopped.message());
  }
  return exit_status;
}

Status TakeCommand(const CLI::App& run, const CommandLine& command_line,
                   std::vector<std::string> words, RunOptions& options) {
  if (!words.empty() && words[0].starts_with("-")) {
    return InvalidUsage("harmonaize run has no option '{}'{}; see 'harmonaize run --help'",
                        CleanText(words[0], kMostShownOptionBytes),
                        DidYouMeanOption(run, words[0]));
  }
  // A "--" after the program's name belongs to the program.
  if (!words.empty() && command_line.dashes) words.push_back("--");
  words.insert(words.end(), command_line.tail.begin(), command_line.tail.end());
  if (words.empty()) return InvalidUsage("no program was given; see 'harmonaize run --help'");
  options.command = std::move(words);
  for (const std::string& assignment : options.assignments) {
    HZ_RETURN_IF_ERROR(CheckAssignment(assignment));
  }
  return Status::Ok();
}

/// Checks the file of requirements, and makes its path absolute: ranks may change their folder.
/// Returns whether ranks may start, and complains otherwise.
bool TakeRequirements(RunOptions& options) {
  if (options.requirements.empty()) return true;
  std::error_code error;
  if (std::filesystem::exists(options.requirements, error) &&
      !std::filesystem::is_regular_file(options.requirements, error)) {
    Complain(fmt::format("--requirements {}: every rank reads it, so it has to be a regular file",
                         CleanText(options.requirements, kMostShownOptionBytes)));
    return false;
  }
  const Result<CheckedRequirements> checked = CheckRequirementsFile(options.requirements);
  if (!checked.ok()) {
    Complain(checked.status().message());
    return false;
  }
  if (!checked->reading.mistakes.empty()) {
    ComplainOfMistakes(checked->reading.mistakes);
    return false;
  }
  const RequirementTable& values = checked->reading.requirements.values;
  const auto number = [&values](const char* key) -> std::optional<int64_t> {
    const auto found = values.find(key);
    return found == values.end() ? std::nullopt : std::optional(std::get<int64_t>(found->second));
  };
  options.stated_elastic.least_ranks = number("elastic.least_ranks");
  options.stated_elastic.most_ranks = number("elastic.most_ranks");
  options.stated_elastic.offers = values.contains("elastic.offers");
  if (const auto found = values.find("job.name"); found != values.end()) {
    options.stated_name = std::get<std::string>(found->second);
  }
  options.requirements = std::filesystem::absolute(options.requirements, error).string();
  if (!error) return true;
  Complain(ErrnoError(error.value(), "cannot name the file of requirements").message());
  return false;
}

/// Reads MIN or MIN:MAX.
Result<ElasticRange> ElasticRangeIn(const std::string& text) {
  const auto number = [](std::string_view digits) {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool good = error == std::errc() && end == digits.data() + digits.size();
    return good && value >= 1 && value <= kMostElasticRanks ? value : 0;
  };
  const size_t colon = text.find(':');
  ElasticRange range{.least = number(std::string_view(text).substr(0, colon))};
  if (colon != std::string::npos) range.most = number(std::string_view(text).substr(colon + 1));
  const bool wrong = range.least == 0 || (colon != std::string::npos && range.most == 0);
  if (wrong || (range.most != 0 && range.most < range.least)) {
    return InvalidArgument(
        "--elastic {}: expected MIN, or MIN:MAX with MAX not below MIN, both from 1 to {}",
        CleanText(text, kMostShownOptionBytes), kMostElasticRanks);
  }
  return range;
}

/// Checks --elastic, --places and --ticket together with the others.
Status TakeElastic(const CLI::App& run, RunOptions& options) {
  const bool joins = !options.ticket_file.empty();
  if (!options.elastic_text.empty()) {
    HZ_ASSIGN_OR_RETURN(options.elastic, ElasticRangeIn(options.elastic_text));
  }
  if ((joins || options.places > 0) && options.elastic.most == 0) {
    return InvalidUsage("{} needs --elastic MIN:MAX, which says how many ranks the job takes",
                        joins ? "--ticket" : "--places");
  }
  if (joins && run.count("--ranks") == 0) options.ranks = 0;
  if (joins && options.ranks > 0) {
    return InvalidUsage(
        "--ticket and -n: a host that joins a running job starts ranks when these are offered to "
        "it, so leave -n out");
  }
  const ElasticRange& elastic = options.elastic;
  if (!joins && elastic.least > options.ranks) {
    return InvalidUsage("--elastic {}: the job begins with {} ranks (-n), which is fewer",
                        options.elastic_text, options.ranks);
  }
  if (elastic.most == 0) return Status::Ok();
  if (options.ranks > elastic.most) {
    return InvalidUsage("--elastic {}: the job begins with {} ranks (-n), which is more",
                        options.elastic_text, options.ranks);
  }
  if (JobNameOf(options).empty()) {
    return InvalidUsage(
        "--elastic {}: give the job a --name, by which offers and other hosts find it",
        options.elastic_text);
  }
  if (options.daemon == "none") {
    return InvalidUsage("--elastic {} needs a daemon, and --daemon=none starts none",
                        options.elastic_text);
  }
  return Status::Ok();
}

/// Checks --inject together with the others, and takes the command apart.
Status TakeContainer(RunOptions& options) {
  if (!options.inject) {
    return options.dry_run ? InvalidUsage("--dry-run shows what --inject makes of a command")
                           : Status::Ok();
  }
  HZ_ASSIGN_OR_RETURN(options.container, ReadContainerCommand(options.command));
  const ContainerCommand& container = *options.container;
  if (options.daemon == "none" || (options.daemon == "private" && options.dry_run)) {
    return InvalidUsage(
        "--inject hands a daemon's socket to a container, and {} there is none",
        options.dry_run ? "with --dry-run and --daemon=" + options.daemon : "with --daemon=none");
  }
  if (container.LeavesContainer() && !options.dry_run) {
    return InvalidUsage(
        "--inject: a rank ends with its command, and this one ends before its container: start "
        "the container in the foreground ({} run without --detach), or have --dry-run show the "
        "command",
        container.program);
  }
  if (container.EntersRunning() && (options.daemon == "private" || options.elastic.most > 0)) {
    return InvalidUsage(
        "--inject: {} exec enters a container that runs already, which cannot be given {} any "
        "more",
        container.program,
        options.daemon == "private" ? "a private daemon's socket" : "tickets of newcomers");
  }
  return CheckEngineIsHere(container, Environment::OfThisProcess());
}

int Run(const CLI::App& run, const CommandLine& command_line, RunOptions& options) {
  if (const Status status = TakeCommand(run, command_line, run.remaining(), options);
      !status.ok()) {
    Complain(status.message());
    return kUsageStatus;
  }
  if (!TakeRequirements(options)) return kUsageStatus;
  if (const Status status = TakeElastic(run, options); !status.ok()) {
    Complain(status.message());
    return kUsageStatus;
  }
  if (const Status status = TakeContainer(options); !status.ok()) {
    Complain(status.message());
    return kUsageStatus;
  }
  const Result<int> exit_status = options.dry_run ? ShowPrograms(options) : RunJob(options);
  if (exit_status.ok()) return *exit_status;
  Complain(exit_status.status().message());
  return kLauncherFailedStatus;
}

void AddOptions(CLI::App& run, RunOptions& options) {
  run.add_option("-n,--ranks", options.ranks, "How many ranks to start (default: 1)")
      ->check(CLI::Range(1, kMostRanks, "1 to 1024"))
      ->type_name("N");
  CLI::Option* prefix = run.add_flag("--prefix", options.prefix,
                                     "Put [rank] before each line of output\n"
                                     "(default: where there may be several)");
  run.add_flag("--no-prefix", options.no_prefix, "Lines as the ranks wrote them")->excludes(prefix);
  run.add_flag("--no-preload", options.no_preload,
               "Do not preload Harmonaize: for programs that\n"
               "link libnccl.so.2 themselves");
  run.add_flag("--inject", options.inject,
               "Hand library, writer, socket and variables into the container\n"
               "that the command starts: docker, podman, nerdctl,\n"
               "apptainer, singularity, bwrap");
  run.add_flag("--dry-run", options.dry_run, "With --inject: show the commands, and run nothing");
  run.add_option("--daemon", options.daemon,
                 "auto: the daemon that listens, else a private one\n"
                 "private: one for this job alone\n"
                 "none: start none and leave HARMONAIZE_SOCKET alone\n"
                 "(default: auto)")
      ->check(CLI::IsMember({"auto", "private", "none"}))
      ->type_name("WHICH");
  run.add_option("--name", options.name,
                 "The job's name, for 'harmonaize jobs' and 'events'\n"
                 "(default: HARMONAIZE_JOB)")
      ->check(
          CLI::Validator([](const std::string& name) { return CheckJobName(name).message(); }, ""))
      ->type_name("NAME");
  run.add_option("--kind", options.kind,
                 "What the job is, for the provider's policy\n"
                 "(default: HARMONAIZE_JOB_KIND)")
      ->check(CLI::IsMember({"training", "inference", "batch"}))
      ->type_name("KIND");
  run.add_option("--requirements", options.requirements,
                 "What the job asks of the provider; the file is checked\n"
                 "first (default: HARMONAIZE_REQUIREMENTS)")
      ->check(CLI::Validator(
          [](const std::string& file) {
            return std::string(file.empty() ? "a file's name is missing" : "");
          },
          ""))
      ->type_name("FILE");
  run.add_option("--env", options.assignments, "A variable for every rank; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  run.add_option("--elastic", options.elastic_text,
                 "MIN: go on without ranks that fail, while so many are\n"
                 "left (default: one that fails ends the job)\n"
                 "MIN:MAX: also take what is offered, up to MAX ranks on\n"
                 "all hosts, and give back what is asked for; needs --name")
      ->type_name("MIN[:MAX]");
  run.add_option("--places", options.places,
                 "With --elastic MIN:MAX: most ranks on this host\n"
                 "(default: MAX)")
      ->check(CLI::Range(1, kMostPlaces, "1 to 512"))
      ->type_name("N");
  run.add_option("--ticket", options.ticket_file,
                 "With --elastic MIN:MAX: join the job --name, which runs\n"
                 "on other hosts; FILE is of 'harmonaize ticket make'")
      ->type_name("FILE");
  run.add_option("--timeout", options.timeout, "End the job after so long (default: never)")
      ->check(CLI::Range(0.0, 1e7, "0 to 10000000"))
      ->type_name("SECONDS");
  run.add_option("--grace", options.grace, "Time between SIGTERM and SIGKILL (default: 5)")
      ->check(CLI::Range(0.0, 3600.0, "0 to 3600"))
      ->type_name("SECONDS");
  run.add_option("--error-wait", options.error_wait,
                 "Time for the others to report after one rank failed\n"
                 "(default: 1)")
      ->check(CLI::Range(0.0, 3600.0, "0 to 3600"))
      ->type_name("SECONDS");
}

}  // namespace

void AddRunCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* run = app.add_subcommand("run", kRunDescription);
  auto options = std::make_shared<RunOptions>();
  run->footer(kRunFooter);
  run->formatter(std::make_shared<RunHelp>());
  // The first word that is not an option begins the program's own command line.
  run->prefix_command();
  AddOptions(*run, *options);
  run->callback([run, options, &command_line] {
    command_line.exit_status = Run(*run, command_line, *options);
  });
}

}  // namespace harmonaize
