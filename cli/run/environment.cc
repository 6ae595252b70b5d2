#include "cli/run/environment.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "src/base/clean_text.h"
#include "src/ipc/messages.h"

namespace harmonaize {
namespace {

std::pair<std::string_view, std::string_view> SplitAssignment(std::string_view line) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return {line, {}};
  return {line.substr(0, equals), line.substr(equals + 1)};
}

}  // namespace

Environment Environment::OfThisProcess() {
  Environment environment;
  for (char** line = environ; *line != nullptr; ++line) {
    const auto [name, value] = SplitAssignment(*line);
    environment.Set(name, value);
  }
  return environment;
}

void Environment::Set(std::string_view name, std::string_view value) {
  variables_.insert_or_assign(std::string(name), std::string(value));
}

void Environment::Unset(std::string_view name) {
  if (auto found = variables_.find(name); found != variables_.end()) variables_.erase(found);
}

std::string Environment::Get(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? std::string() : found->second;
}

bool Environment::Has(std::string_view name) const {
  return variables_.contains(name);
}

std::vector<std::string> Environment::Lines() const {
  std::vector<std::string> lines;
  lines.reserve(variables_.size());
  for (const auto& [name, value] : variables_) lines.push_back(name + "=" + value);
  return lines;
}

Environment RankEnvironment(const Environment& base, const RankVariables& variables) {
  Environment environment = base;
  environment.Set("RANK", std::to_string(variables.rank));
  environment.Set("LOCAL_RANK", std::to_string(variables.local_rank));
  environment.Set("WORLD_SIZE", std::to_string(variables.world_size));
  environment.Set("LOCAL_WORLD_SIZE", std::to_string(variables.local_world_size));
  environment.Set("MASTER_ADDR", variables.master_address);
  environment.Set("MASTER_PORT", std::to_string(variables.master_port));
  if (!variables.socket.empty()) environment.Set("HARMONAIZE_SOCKET", variables.socket);
  if (!variables.job_name.empty()) environment.Set("HARMONAIZE_JOB", variables.job_name);
  if (!variables.job_kind.empty()) environment.Set("HARMONAIZE_JOB_KIND", variables.job_kind);
  if (!variables.requirements.empty()) {
    environment.Set("HARMONAIZE_REQUIREMENTS", variables.requirements);
  }
  if (!variables.preload_library.empty()) {
    const std::string others = environment.Get("LD_PRELOAD");
    environment.Set("LD_PRELOAD", others.empty() ? variables.preload_library
                                                 : variables.preload_library + ":" + others);
  }
  for (const std::string& assignment : variables.assignments) {
    const auto [name, value] = SplitAssignment(assignment);
    environment.Set(name, value);
  }
  return environment;
}

Environment NewcomerEnvironment(Environment of_rank, const NewcomerVariables& variables) {
  for (const char* const name :
       {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    of_rank.Unset(name);
  }
  of_rank.Set("LOCAL_RANK", std::to_string(variables.local_rank));
  of_rank.Set("HARMONAIZE_TICKET_FILE", variables.ticket_file);
  return of_rank;
}

Status CheckJobName(std::string_view name) {
  constexpr size_t kMostBytes = sizeof(HelloRequest::job_name) - 1;
  if (name.empty()) return InvalidArgument("a job's name has at least one character");
  if (name.size() > kMostBytes) {
    return InvalidArgument("a job's name has {} bytes at most, and this one has {}", kMostBytes,
                           name.size());
  }
  if (CleanText(name, name.size()) != name) {
    return InvalidArgument("a job's name is text in one line, without control characters");
  }
  return Status::Ok();
}

Status CheckAssignment(std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    return InvalidArgument("'{}' is not of the form NAME=value", assignment);
  }
  const std::string_view name = assignment.substr(0, equals);
  const bool good = !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
                    std::all_of(name.begin(), name.end(), [](unsigned char letter) {
                      return std::isalnum(letter) || letter == '_';
                    });
  if (!good) return InvalidArgument("'{}' cannot name an environment variable", name);
  return Status::Ok();
}

}  // namespace harmonaize
