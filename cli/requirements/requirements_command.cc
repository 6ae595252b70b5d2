#include "cli/requirements/requirements_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/daemon_http.h"
#include "cli/jobs/job_search.h"
#include "cli/json_view.h"
#include "cli/requirements/grant_view.h"
#include "cli/requirements/requirements_table.h"
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

A program states the file that HARMONAIZE_REQUIREMENTS names with its first communicator. --apply states
one of a job that runs, at all of its hosts: what it names replaces what was said before, key by key.
--of shows what a job is granted, and why not more; --explain also asks the daemon of this host, where
one answers, what it would grant. --forget takes back all that was said.

Without FILE all keys are listed, with their values and what they mean. --schema prints a JSON Schema,
with which editors check and complete such files as they are written.

Exit status: 0 when the file is right; 1 when it has mistakes or cannot be read, or the daemon refuses
it; 2 for wrong options.

Examples:
  harmonaize requirements
  harmonaize requirements job.toml
  harmonaize requirements job.toml --explain
  harmonaize requirements job.toml --apply llama
  harmonaize requirements --of llama
  harmonaize requirements --schema > requirements.schema.json)";

/// Most mistakes that are listed: more are seen when these are mended.
constexpr size_t kMostMistakes = 50;

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

/// Reads the file, and no more than a document may have, and a byte: it may have no end.
Result<std::string> ReadDocument(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path);
    if (!file) return ErrnoError(errno, fmt::format("cannot read {}", path));
  }
  std::istream& input = path == "-" ? std::cin : file;
  std::string text(kMostRequirementsBytes + 1, '\0');
  errno = 0;
  input.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (input.bad() || (input.gcount() == 0 && errno != 0)) {
    return ErrnoError(errno, fmt::format("cannot read {}", path));
  }
  text.resize(static_cast<size_t>(input.gcount()));
  return text;
}

int ShowJson(const RequirementsReading& read) {
  const bool right = read.mistakes.empty();
  nlohmann::ordered_json document = {{"right", right}};
  if (right) document["requirements"] = RequirementsText(read.requirements);
  for (const Status& mistake : read.mistakes) document["mistakes"].push_back(mistake.message());
  std::puts(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  return right ? 0 : 1;
}

int ShowMistakes(const std::vector<Status>& mistakes) {
  for (const Status& mistake : mistakes) Complain(mistake.message());
  if (mistakes.size() == kMostMistakes) Complain("there may be more");
  return 1;
}

/// Calls the route of a job that the user means, and shows what it grants.
Result<std::string> CallOfJob(const RequirementsOptions& options, const std::string& which,
                              const std::string& route, HttpCall call) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindTenantsHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(const std::string job, AskForJobId(daemon, which));
  call.target = "/v1/jobs/" + job + route;
  HZ_ASSIGN_OR_RETURN(const std::string answer, CallDaemon(daemon, call));
  return options.json ? IndentJson(answer) : GrantText(answer);
}

/// Returns what the daemon of this host would grant; "" where none answers.
std::string WouldGrant(const RequirementsOptions& options, const std::string& text) {
  const Result<DaemonHttp> daemon = FindTenantsHttp(options.socket);
  if (!daemon.ok()) return "";
  const Result<std::string> answer = CallDaemon(
      *daemon,
      {.method = "POST", .target = "/v1/requirements/check", .body = text, .content_type = kToml});
  const Result<std::string> grant = answer.ok() ? GrantText(*answer) : answer;
  return "\nThe daemon of this host would grant:\n" +
         (grant.ok() ? *grant : grant.status().message() + "\n");
}

int CheckRequirements(const RequirementsOptions& options) {
  const Result<std::string> text = ReadDocument(options.file);
  if (!text.ok()) return Print(text);
  const std::string name = options.file == "-" ? "standard input" : options.file;
  const RequirementsReading read = ReadRequirements(*text, name, kMostMistakes);
  if (options.json && options.apply.empty()) return ShowJson(read);
  if (!read.mistakes.empty()) return ShowMistakes(read.mistakes);
  if (!options.apply.empty()) {
    return Print(CallOfJob(options, options.apply, "/requirements",
                           {.method = "PUT", .target = {}, .body = *text, .content_type = kToml}));
  }
  return Print(options.explain
                   ? RequirementsExplained(read.requirements) + WouldGrant(options, *text)
                   : RequirementsTable(read.requirements));
}

int ShowRequirements(const RequirementsOptions& options) {
  if (options.schema) return Print(RequirementsSchema());
  if (!options.of.empty()) return Print(CallOfJob(options, options.of, "/granted", {}));
  if (!options.forget.empty()) {
    return Print(
        CallOfJob(options, options.forget, "/requirements", {.method = "DELETE", .target = {}}));
  }
  if (options.file.empty()) return Print(AllRequirementKeys());
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
