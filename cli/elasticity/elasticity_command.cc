#include "cli/elasticity/elasticity_command.h"

#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/command_line.h"
#include "cli/daemon_http.h"
#include "cli/elasticity/elasticity_table.h"
#include "cli/json_view.h"
#include "cli/maintenance/time_words.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

constexpr char kDescription[] =
    "For operators: show how the sizes of elastic jobs follow the load, and say which jobs wait.";

constexpr char kFooter[] =
    R"(Where the provider has set 'elastic.enabled', a daemon decides which jobs are offered ranks, and which
are asked for some: the cluster's controller, or a daemon that stands alone. It shows what it knows
and has decided. 'harmonaize offers' at the host of an offer shows what has become of it.

  places        of each host: free ones have no rank and are promised to none; coming ones will be left
  elastic jobs  with the bounds of their sizes, and at each host their ranks + what the agent there
                would start
  shares        the ranks to which a tenant's jobs together are offered to grow
  decisions     the last ones, the newest first, with the reason that the job reads

Exit status: 0; 1 when no daemon answered, or it refused; 2 for wrong options.

Examples:
  harmonaize elasticity
  harmonaize elasticity --json | jq '.decisions[0]'
  harmonaize elasticity waiting resnet=4 bert=8:1 --for 2min)";

constexpr char kWaitingFooter[] =
    R"(Places are kept free for these jobs, in this order, and elastic jobs are asked for ranks where too few
are free. Where all places of a job cannot be had together, none are kept or taken for it. Their sizes
are the fewest ranks with which they begin; a priority, from 0 to 3, keeps jobs of a higher one from
being asked. The list takes the place of the one before, and is empty without names. It counts for as
long as --for says, which has to be longer than jobs may take to answer and to leave, and ends with
the daemon: a scheduler tells it again and again.

Exit status: 0; 1 when no daemon answered, or it refused; 2 for wrong options.

Examples:
  harmonaize elasticity waiting resnet=4 bert=8:1
  harmonaize elasticity waiting              # nobody waits any more)";

struct ElasticityOptions {
  std::string socket;
  bool json = false;
};

struct WaitingOptions {
  std::string socket;
  std::vector<std::string> jobs;
  std::string for_time = "10min";
};

Result<std::string> Show(const ElasticityOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindOperatorsHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(const std::string answer, CallDaemon(daemon, {.target = "/v1/elasticity"}));
  return options.json ? IndentJson(answer) : ElasticityTable(answer);
}

Result<int> NumberIn(std::string_view text, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most) {
    return InvalidArgument("'{}' is no number from {} to {}", text, least, most);
  }
  return number;
}

/// Reads NAME=RANKS or NAME=RANKS:PRIORITY.
Result<Json> JobIn(std::string_view word) {
  const size_t equals = word.rfind('=');
  if (equals == std::string_view::npos || equals == 0) {
    return InvalidArgument("'{}' is not of the form NAME=RANKS or NAME=RANKS:PRIORITY", word);
  }
  std::string_view size = word.substr(equals + 1);
  Json job = {{"name", word.substr(0, equals)}};
  if (const size_t colon = size.find(':'); colon != std::string_view::npos) {
    HZ_ASSIGN_OR_RETURN(job["priority"], NumberIn(size.substr(colon + 1), 0, 3));
    size = size.substr(0, colon);
  }
  HZ_ASSIGN_OR_RETURN(job["ranks"], NumberIn(size, 1, 1 << 20));
  return job;
}

std::string CheckJobWord(const std::string& word) {
  return JobIn(word).status().message();
}

Result<std::string> SetWaiting(const WaitingOptions& options) {
  HZ_ASSIGN_OR_RETURN(const double seconds, SecondsInWord(options.for_time));
  Json jobs = Json::array();
  for (const std::string& word : options.jobs) {
    HZ_ASSIGN_OR_RETURN(Json job, JobIn(word));
    jobs.push_back(std::move(job));
  }
  const Json body = {{"jobs", jobs}, {"for_seconds", seconds}};
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindOperatorsHttp(options.socket));
  HZ_RETURN_IF_ERROR(
      CallDaemon(daemon,
                 {.method = "PUT", .target = "/v1/elasticity/waiting", .body = JsonText(body)})
          .status());
  if (jobs.empty()) return std::string("no job waits\n");
  return fmt::format("{} job{} wait{} for {}\n", jobs.size(), jobs.size() == 1 ? "" : "s",
                     jobs.size() == 1 ? "s" : "", options.for_time);
}

void AddWaiting(CLI::App& elasticity, CommandLine& command_line) {
  CLI::App* const waiting =
      elasticity.add_subcommand("waiting", "Say which jobs wait for places (operators).");
  auto options = std::make_shared<WaitingOptions>();
  waiting->footer(kWaitingFooter);
  waiting->add_option("JOBS", options->jobs, "As NAME=RANKS or NAME=RANKS:PRIORITY")
      ->check(CLI::Validator(CheckJobWord, ""))
      ->type_name("");
  waiting->add_option("--for", options->for_time, "How long the list counts, at most an hour")
      ->check(CLI::Validator(CheckSecondsWord, ""))
      ->type_name("TIME")
      ->capture_default_str();
  AddSocketOption(waiting, &options->socket);
  waiting->callback(
      [options, &command_line] { command_line.exit_status = Print(SetWaiting(*options)); });
}

}  // namespace

void AddElasticityCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* const elasticity = app.add_subcommand("elasticity", kDescription);
  auto options = std::make_shared<ElasticityOptions>();
  elasticity->footer(kFooter);
  elasticity->add_flag("--json", options->json, "Print what the daemon says as JSON");
  AddSocketOption(elasticity, &options->socket);
  AddWaiting(*elasticity, command_line);
  elasticity->callback([options, elasticity, &command_line] {
    if (elasticity->get_subcommands().empty()) command_line.exit_status = Print(Show(*options));
  });
}

}  // namespace harmonaize
