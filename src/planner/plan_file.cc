#include "src/planner/plan_file.h"

#include <cerrno>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "src/base/names.h"
#include "src/base/toml_reader.h"

namespace harmonaize {
namespace {

// Most pieces that a plan may have.
constexpr int64_t kMostPieces = 4096;

/// Returns the hosts that a list names; reports mistakes to the reader.
std::vector<int> ReadHosts(const std::string& key, const FabricModel& model, TomlReader* reader) {
  std::vector<std::string> names;
  reader->StringList(key, &names);
  std::vector<std::string_view> known;
  for (int host = 0; host < model.hosts(); ++host) known.push_back(model.HostName(host));
  std::vector<int> hosts;
  for (const std::string& name : names) {
    hosts.push_back(model.HostNamed(name));
    if (hosts.back() >= 0) continue;
    reader->Reject(key,
                   fmt::format("the fabric has no host '{}'{}", name, DidYouMean(name, known)));
  }
  return hosts;
}

void ReadAlgorithm(TomlReader* reader, PlanSpec* spec) {
  std::string name;
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : Algorithms()) names.push_back(algorithm.name);
  reader->Choice("plan.algorithm", std::move(names), &name);
  spec->algorithm = FindAlgorithm(name);
  if (!reader->Has("plan.algorithm")) {
    reader->Reject("plan.algorithm", "a plan needs an 'algorithm', such as \"ring\"");
  }
}

/// Rejects keys that the algorithm would ignore.
void CheckUsed(size_t groups, TomlReader* reader, const Algorithm& algorithm) {
  if (reader->Has("plan.order") && !algorithm.takes_order) {
    reader->Reject("plan.order",
                   fmt::format("the algorithm '{}' takes no order of hosts", algorithm.name));
  }
  if (groups > 0 && !algorithm.needs_groups) {
    reader->Reject("group", fmt::format("the algorithm '{}' takes no groups", algorithm.name));
  }
  if (groups == 0 && algorithm.needs_groups) {
    reader->Reject("plan.algorithm",
                   fmt::format("the algorithm '{}' needs [[group]]s of hosts", algorithm.name));
  }
}

}  // namespace

Result<PlanSpec> ParsePlanFile(std::string_view text, const std::string& name,
                               const FabricModel& model) {
  HZ_ASSIGN_OR_RETURN(TomlReader reader, TomlReader::FromString(text, name));
  PlanSpec spec;
  ReadAlgorithm(&reader, &spec);
  spec.order = {"operator's", ReadHosts("plan.order", model, &reader)};
  int64_t pieces = 1;
  reader.Integer("plan.pieces", 1, kMostPieces, &pieces);
  spec.pieces = static_cast<int>(pieces);
  std::string paths = "weighted";
  reader.Choice("plan.paths", {"ecmp", "even", "weighted"}, &paths);
  for (const PathUse use : {PathUse::kEcmp, PathUse::kEven, PathUse::kWeighted}) {
    if (PathUseName(use) == paths) spec.paths = use;
  }
  const size_t groups = reader.Tables("group");
  for (size_t i = 0; i < groups; ++i) {
    spec.groups.push_back(ReadHosts(fmt::format("group[{}].hosts", i), model, &reader));
    if (!spec.groups.back().empty()) continue;
    reader.Reject(fmt::format("group[{}].hosts", i), "a [[group]] needs 'hosts'");
  }
  if (groups > 0) spec.groups_name = "operator's";
  if (spec.algorithm != nullptr) CheckUsed(groups, &reader, *spec.algorithm);
  HZ_RETURN_IF_ERROR(reader.Finish());
  return spec;
}

Result<PlanSpec> LoadPlanFile(const std::string& path, const FabricModel& model) {
  std::ifstream file(path);
  if (!file) return ErrnoError(errno, fmt::format("cannot read {}", path));
  std::ostringstream text;
  text << file.rdbuf();
  return ParsePlanFile(text.str(), path, model);
}

}  // namespace harmonaize
