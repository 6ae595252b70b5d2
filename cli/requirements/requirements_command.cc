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

Without FILE all keys are listed, with their values and what they mean. --schema prints a JSON Schema,
with which editors check and complete such files as they are written.

Exit status: 0 when the file is right; 1 when it has mistakes, or cannot be read; 2 for wrong options.

Examples:
  harmonaize requirements
  harmonaize requirements job.toml
  harmonaize requirements job.toml --explain
  harmonaize requirements --schema > requirements.schema.json)";

/// Most mistakes that are listed: more are seen when these are mended.
constexpr size_t kMostMistakes = 50;

struct RequirementsOptions {
  std::string file;
  bool schema = false;
  bool explain = false;
  bool json = false;
};

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

int CheckRequirements(const RequirementsOptions& options) {
  const Result<std::string> text = ReadDocument(options.file);
  if (!text.ok()) return Print(text);
  const std::string name = options.file == "-" ? "standard input" : options.file;
  const RequirementsReading read = ReadRequirements(*text, name, kMostMistakes);
  if (options.json) return ShowJson(read);
  if (!read.mistakes.empty()) return ShowMistakes(read.mistakes);
  return Print(options.explain ? RequirementsExplained(read.requirements)
                               : RequirementsTable(read.requirements));
}

int ShowRequirements(const RequirementsOptions& options) {
  if (options.schema) return Print(RequirementsSchema());
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
  schema->excludes(file);
  explain->needs(file);
  json->needs(file)->excludes(explain);
  command->callback(
      [options, &command_line] { command_line.exit_status = ShowRequirements(*options); });
}

}  // namespace harmonaize
