#include "daemon/sources/kubernetes_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/sources/bounded_json.h"
#include "daemon/sources/cloud_dates.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;
using Kind = CloudNotice::Kind;
using State = CloudNotice::State;

/// A condition that says, if it has another status than this, that the node is unwell.
struct KnownCondition {
  std::string_view type;
  std::string_view well;
  bool survives;  ///< Whether processes usually go on while it holds.
};

/// Those of Kubernetes itself, and those of its node problem detector that mean a broken host.
constexpr std::array<KnownCondition, 7> kKnownConditions = {
    {{"Ready", "True", false},
     {"MemoryPressure", "False", true},
     {"DiskPressure", "False", true},
     {"PIDPressure", "False", true},
     {"NetworkUnavailable", "False", false},
     {"KernelDeadlock", "False", false},
     {"ReadonlyFilesystem", "False", false}}};

struct KnownTaint {
  std::string_view key;
  Kind kind;
  State state;
};

/// Taints that announce what will become of the node, or has, by who sets them. Those that repeat a
/// condition (node.kubernetes.io/not-ready and others) are not among them.
constexpr std::array<KnownTaint, 12> kKnownTaints = {
    {{"node.kubernetes.io/unschedulable", Kind::kRiskOfReclaim, State::kScheduled},
     {"node.kubernetes.io/out-of-service", Kind::kUnhealthy, State::kStarted},
     {"node.cloudprovider.kubernetes.io/shutdown", Kind::kReclaim, State::kStarted},
     {"ToBeDeletedByClusterAutoscaler", Kind::kReclaim, State::kScheduled},
     {"DeletionCandidateOfClusterAutoscaler", Kind::kRiskOfReclaim, State::kScheduled},
     {"karpenter.sh/disrupted", Kind::kReclaim, State::kScheduled},
     {"karpenter.sh/disruption", Kind::kReclaim, State::kScheduled},
     {"cloud.google.com/impending-node-termination", Kind::kReclaim, State::kScheduled},
     {"aws-node-termination-handler/spot-itn", Kind::kReclaim, State::kScheduled},
     {"aws-node-termination-handler/asg-lifecycle-termination", Kind::kReclaim, State::kScheduled},
     {"aws-node-termination-handler/scheduled-maintenance", Kind::kMaintenance, State::kScheduled},
     {"aws-node-termination-handler/rebalance-recommendation", Kind::kRiskOfReclaim,
      State::kScheduled}}};

constexpr std::string_view kCordon = "node.kubernetes.io/unschedulable";

const json& PartOf(const json& object, const char* name) {
  static const json kNothing = json::object();
  if (!object.is_object()) return kNothing;
  const auto part = object.find(name);
  return part == object.end() ? kNothing : *part;
}

CloudNotice NoticeOfNode(Kind kind, State state) {
  CloudNotice notice;
  notice.source = "kubernetes";
  notice.kind = kind;
  notice.state = state;
  return notice;
}

/// Adds the notice with an id that ends in the time `since`, or has none if that is no time.
void AddSince(std::string id, const std::optional<std::string>& since, CloudNotice notice,
              PublishedNotices* published) {
  const bool has_time = since.has_value() && ParseIso8601Date(*since).has_value();
  if (since.has_value() && !has_time) {
    published->Doubt(fmt::format("'{}' is no time since when {} holds", *since, id));
  }
  notice.id = has_time ? id + "/" + *since : std::move(id);
  published->Add({std::move(notice), !has_time});
}

void ReadCondition(const json& condition, PublishedNotices* published) {
  const std::optional<std::string> type = TextIn(condition, "type");
  if (!type.has_value()) return published->Doubt("a condition has no type");
  const auto known = std::find_if(kKnownConditions.begin(), kKnownConditions.end(),
                                  [&](const KnownCondition& one) { return one.type == *type; });
  if (known == kKnownConditions.end()) return;
  const std::string status = TextIn(condition, "status").value_or("");
  if (status != "True" && status != "False" && status != "Unknown") {
    return published->Doubt(fmt::format("the condition {} has no status", *type));
  }
  // Nobody says that a node has pressure while nobody knows; Ready is then Unknown, too.
  const bool is_unwell = status != known->well && (status != "Unknown" || known->type == "Ready");
  if (!is_unwell) return;
  CloudNotice notice = NoticeOfNode(Kind::kUnhealthy, State::kStarted);
  notice.survives = known->survives;
  notice.text = fmt::format("the node's condition {} is {}: {}", *type, status,
                            TextIn(condition, "message").value_or(""));
  AddSince("condition/" + *type, TextIn(condition, "lastTransitionTime"), std::move(notice),
           published);
}

/// Returns the time that the autoscaler writes into its taints' values: seconds since 1970.
std::optional<int64_t> SecondsIn(const std::string& value) {
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  const bool is_number = error == std::errc() && end == value.data() + value.size();
  return is_number && seconds > 0 ? std::optional(seconds) : std::nullopt;
}

void ReadTaint(const json& taint, PublishedNotices* published) {
  const std::optional<std::string> key = TextIn(taint, "key");
  if (!key.has_value()) return published->Doubt("a taint has no key");
  const auto known = std::find_if(kKnownTaints.begin(), kKnownTaints.end(),
                                  [&](const KnownTaint& one) { return one.key == *key; });
  if (known == kKnownTaints.end()) return;
  CloudNotice notice = NoticeOfNode(known->kind, known->state);
  const std::string value = TextIn(taint, "value").value_or("");
  notice.text = fmt::format("the node has the taint {}={}", *key, value);
  const std::optional<int64_t> set_at = SecondsIn(value);
  if (key->ends_with("ClusterAutoscaler") && set_at.has_value()) {
    notice.id = fmt::format("taint/{}/{}", *key, *set_at);
    return published->Add({std::move(notice)});
  }
  // The taint of a cordon appears after the cordon, which has no time, and is the same notice.
  const std::optional<std::string> since =
      *key == kCordon ? std::nullopt : TextIn(taint, "timeAdded");
  AddSince("taint/" + *key, since, std::move(notice), published);
}

/// Two taints of one key with different effects are one notice, as is a cordon with its taint.
void ReadSpec(const json& spec, PublishedNotices* published) {
  std::set<std::string> seen;
  if (const json* const taints = ListIn(spec, "taints")) {
    for (const json& taint : *taints) {
      const bool is_new = seen.insert(TextIn(taint, "key").value_or("")).second;
      if (is_new) ReadTaint(taint, published);
    }
  } else if (spec.is_object() && spec.contains("taints")) {
    published->Doubt("the node's taints are no list");
  }
  const json& cordoned = PartOf(spec, "unschedulable");
  const bool is_cordoned = cordoned.is_boolean() && cordoned.get<bool>();
  if (!is_cordoned || seen.contains(std::string(kCordon))) return;
  CloudNotice notice = NoticeOfNode(Kind::kRiskOfReclaim, State::kScheduled);
  notice.text = "the node is cordoned";
  AddSince(fmt::format("taint/{}", kCordon), std::nullopt, std::move(notice), published);
}

void ReadDeletion(const json& metadata, PublishedNotices* published) {
  const std::optional<std::string> time = TextIn(metadata, "deletionTimestamp");
  if (!time.has_value()) return;
  CloudNotice notice = NoticeOfNode(Kind::kReclaim, State::kScheduled);
  notice.text = "the node is being deleted";
  notice.not_before_seconds = ParseIso8601Date(*time);
  AddSince("deletion", time, std::move(notice), published);
}

}  // namespace

Result<PublishedNotices> ReadKubernetesNode(std::string_view document, const std::string& name) {
  HZ_ASSIGN_OR_RETURN(const json node, ParseBoundedJson(document));
  const json& metadata = PartOf(node, "metadata");
  if (TextIn(node, "kind") != "Node" || TextIn(metadata, "name") != name) {
    return RemoteError("the document is not the node {}", name);
  }
  const json* const conditions = ListIn(PartOf(node, "status"), "conditions");
  PublishedNotices published;
  if (conditions == nullptr) {
    published.Doubt("the node has no conditions");
  } else {
    for (const json& condition : *conditions) ReadCondition(condition, &published);
  }
  ReadSpec(PartOf(node, "spec"), &published);
  ReadDeletion(metadata, &published);
  return published;
}

}  // namespace harmonaize::daemon
