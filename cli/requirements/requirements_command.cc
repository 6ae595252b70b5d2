#include "cli/requirements/requirements_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/daemon_http.h"
#include "cli/jobs/job_search.h"
#include "cli/json_view.h"
#include "cli/requirements/grant_view.h"
#include "cli/requirements/requirements_file.h"
#include "cli/requirements/requirements_table.h"
#include "src/base/json_text.h"
#include "src/requirements/requirements.h"
#include "src/requirements/requirements_schema.h"

namespace harmonaize {
namespace {

constexpr char kRequirementsDescription[] =
    "Check a file of requirements: what a tenant says of a job, and asks of the provider.";

constexpr char kRequirementsFooter[] =
    R"(A job that says nothing runs as it always did. Whoever wants something of the provider writes a file
in TOML, of which everything is optional:

  [collectives]
  objective = "latency"
  bandwidth_floor = "2 GB/s"
  [[collectives.override]]        # for some operations alone
  communicator = "tp*"
  deadline_us = 300
  [faults]
  late_after = "10 s"

Durations, rates and sizes have units. A key that is not known, or a value that makes no sense, is told
of with its line and column, what was expected, and the nearest name that there is; all mistakes of a
file are listed. '-' stands for standard input.

A program states the file that HARMONAIZE_REQUIREMENTS names with its first communicator ('harmonaize
run --requirements FILE' sets it). --apply states one of a job that runs, at all of its hosts: what it
names replaces what was said before, key by key. --of shows what a job is granted, and why not more;
--explain also asks the daemon of this host, where one answers, what it would grant to this user.
--forget takes back all that was said.

A tenant reads and changes what is asked for its own jobs; an operator, as root is, for those of all
tenants.

Without FILE all keys are listed, with their values and what they mean, with --json as JSON. --schema
prints a JSON Schema, with which editors check and complete such files as they are written.

Exit status: 0 when the file is right; 1 when it has mistakes or cannot be read, or the daemon refuses
it; 2 for wrong options.

Examples:
  harmonaize requirements
  harmonaize requirements job.toml
  harmonaize requirements job.toml --explain
  harmonaize run --requirements job.toml --name llama -- ./program
  harmonaize requirements job.toml --apply llama
  harmonaize requirements --of llama
  harmonaize requirements --schema > requirements.schema.json)";

struct RequirementsOptions {
  std::string file;
  bool schema = false;
  bool explain = false;
  bool json = false;
  std::string apply;   ///< A job.
  std::string of;      ///< A job.
  std::string forget;  ///< A job.
  std::string socket;
};

constexpr char kToml[] = "application/toml";

int ShowJson(const RequirementsReading& read) {
  const bool right = read.mistakes.empty();
  nlohmann::ordered_json document = {{"right", right}};
  if (right) document["requirements"] = RequirementsText(read.requirements);
  for (const Status& mistake : read.mistakes) document["mistakes"].push_back(mistake.message());
  std::puts(JsonText(document, 2).c_str());
  return right ? 0 : 1;
}

/// Calls the route of a job that the user means, and shows what it grants. Whoever may connect at
/// the operators' socket reaches the jobs of all tenants, as `harmonaize jobs` lists them.
Result<std::string> CallOfJob(const RequirementsOptions& options, const std::string& which,
                              const std::string& route, HttpCall call) {
  const GrantOccasion occasion =
      call.method == "DELETE" ? GrantOccasion::kForgotten : GrantOccasion::kStated;
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(const std::string job, AskForJobId(daemon, which));
  call.target = "/v1/jobs/" + job + route;
  HZ_ASSIGN_OR_RETURN(const std::string answer, CallDaemon(daemon, call));
  return options.json ? IndentJson(answer) : GrantText(answer, occasion);
}

/// Returns what the daemon of this host would grant to this user, or why that is not known.
std::string WouldGrant(const RequirementsOptions& options, const std::string& text) {
  const Result<DaemonHttp> daemon = FindTenantsHttp(options.socket);
  if (!daemon.ok()) {
    return fmt::format("\nThis tells only what each key does, not what would be granted: {}\n",
                       daemon.status().message());
  }
  const Result<std::string> answer = CallDaemon(
      *daemon,
      {.method = "POST", .target = "/v1/requirements/check", .body = text, .content_type = kToml});
  const Result<std::string> grant =
      answer.ok() ? GrantText(*answer, GrantOccasion::kChecked) : answer;
  return "\nThe daemon of this host would grant:\n" +
         (grant.ok() ? *grant : grant.status().message() + "\n");
}

int CheckRequirements(const RequirementsOptions& options) {
  const Result<CheckedRequirements> checked = CheckRequirementsFile(options.file);
  if (!checked.ok()) return Print(checked.status());
  const RequirementsReading& read = checked->reading;
  if (options.json && options.apply.empty()) return ShowJson(read);
  if (!read.mistakes.empty()) {
    ComplainOfMistakes(read.mistakes);
    return 1;
  }
  if (!options.apply.empty()) {
    return Print(
        CallOfJob(options, options.apply, "/requirements",
                  {.method = "PUT", .target = {}, .body = checked->text, .content_type = kToml}));
  }
  return Print(options.explain
                   ? RequirementsExplained(read.requirements) + WouldGrant(options, checked->text)
                   : RequirementsTable(read.requirements));
}

int ShowRequirements(const RequirementsOptions& options) {
  if (options.schema) return Print(RequirementsSchema());
  if (!options.of.empty()) return Print(CallOfJob(options, options.of, "/granted", {}));
  if (!options.forget.empty()) {
    return Print(
        CallOfJob(options, options.forget, "/requirements", {.method = "DELETE", .target = {}}));
  }
  if (options.file.empty()) {
    return Print(options.json ? AllRequirementKeysAsJson() : AllRequirementKeys());
  }
  return CheckRequirements(options);
}

}  // namespace

void AddRequirementsCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* command = app.add_subcommand("requirements", kRequirementsDescription);
  auto options = std::make_shared<RequirementsOptions>();
  command->footer(kRequirementsFooter);
  CLI::Option* file =
      command->add_option("FILE", options->file, "The file (default: list all keys)");
  CLI::Option* schema =
      command->add_flag("--schema", options->schema, "Print a JSON Schema of such files");
  CLI::Option* explain = command->add_flag("--explain", options->explain,
                                           "Say of each key what it means, and what follows");
  CLI::Option* json = command->add_flag("--json", options->json, "Print the result as JSON");
  CLI::Option* apply = command->add_option("--apply", options->apply, "State the file of this job")
                           ->type_name("JOB");
  CLI::Option* of =
      command->add_option("--of", options->of, "Show what this job is granted")->type_name("JOB");
  CLI::Option* forget =
      command->add_option("--forget", options->forget, "Take back all that was said of this job")
          ->type_name("JOB");
  AddSocketOption(command, &options->socket);
  schema->excludes(file)->excludes(json);
  explain->needs(file);
  json->excludes(explain);
  apply->needs(file)->excludes(explain);
  for (CLI::Option* const alone : {of, forget}) alone->excludes(file)->excludes(schema);
  of->excludes(forget);
  command->callback(
      [options, &command_line] { command_line.exit_status = ShowRequirements(*options); });
}

}  // namespace harmonaize
