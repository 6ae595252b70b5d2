#include "daemon/sources/kubernetes_node.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace harmonaize::daemon {
namespace {

using Kind = CloudNotice::Kind;
using State = CloudNotice::State;

constexpr const char* kReady =
    R"({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"})";

std::string Node(const std::string& conditions, const std::string& spec = "{}",
                 const std::string& metadata = "") {
  return fmt::format(R"({{"kind": "Node", "apiVersion": "v1",
      "metadata": {{"name": "node-7"{}}}, "spec": {}, "status": {{"conditions": [{}]}}}})",
                     metadata, spec, conditions);
}

std::string Condition(const std::string& type, const std::string& status) {
  return fmt::format(R"({{"type": "{}", "status": "{}", "message": "as the kubelet says",
                         "lastTransitionTime": "2026-01-02T03:04:05Z"}})",
                     type, status);
}

PublishedNotices ReadNode7(const std::string& document) {
  const Result<PublishedNotices> published = ReadKubernetesNode(document, "node-7");
  EXPECT_TRUE(published.ok()) << published.status().message();
  return published.ok() ? *published : PublishedNotices();
}

CloudNotice TheOne(const PublishedNotices& published) {
  EXPECT_EQ(published.doubt, "");
  EXPECT_EQ(published.notices.size(), 1u);
  return published.notices.empty() ? CloudNotice() : published.notices[0].notice;
}

TEST(KubernetesNode, AHealthyNodePublishesNothing) {
  const PublishedNotices published =
      ReadNode7(Node(std::string(kReady) + "," + Condition("MemoryPressure", "False") + "," +
                     Condition("SomethingOfAVendor", "True")));
  EXPECT_TRUE(published.notices.empty());
  EXPECT_EQ(published.doubt, "");
}

TEST(KubernetesNode, ANodeThatIsNotReadyIsUnhealthySinceItsTransition) {
  for (const char* status : {"False", "Unknown"}) {
    const CloudNotice notice = TheOne(ReadNode7(Node(Condition("Ready", status))));
    EXPECT_EQ(notice.source, "kubernetes");
    EXPECT_EQ(notice.id, "condition/Ready/2026-01-02T03:04:05Z");
    EXPECT_EQ(notice.kind, Kind::kUnhealthy);
    EXPECT_EQ(notice.state, State::kStarted);
    EXPECT_FALSE(notice.survives);
    EXPECT_EQ(notice.text,
              fmt::format("the node's condition Ready is {}: as the kubelet says", status));
  }
}

TEST(KubernetesNode, PressureIsUnhealthyAndProcessesGoOn) {
  for (const char* type : {"MemoryPressure", "DiskPressure", "PIDPressure"}) {
    const CloudNotice notice = TheOne(ReadNode7(Node(Condition(type, "True"))));
    EXPECT_EQ(notice.kind, Kind::kUnhealthy) << type;
    EXPECT_TRUE(notice.survives) << type;
    EXPECT_TRUE(ReadNode7(Node(Condition(type, "Unknown"))).notices.empty()) << type;
  }
  for (const char* type : {"NetworkUnavailable", "KernelDeadlock", "ReadonlyFilesystem"}) {
    EXPECT_FALSE(TheOne(ReadNode7(Node(Condition(type, "True")))).survives) << type;
  }
}

TEST(KubernetesNode, TaintsAnnounceWhatBecomesOfTheNode) {
  for (const auto& [key, kind, state] :
       {std::tuple("node.kubernetes.io/out-of-service", Kind::kUnhealthy, State::kStarted),
        std::tuple("ToBeDeletedByClusterAutoscaler", Kind::kReclaim, State::kScheduled),
        std::tuple("DeletionCandidateOfClusterAutoscaler", Kind::kRiskOfReclaim, State::kScheduled),
        std::tuple("karpenter.sh/disrupted", Kind::kReclaim, State::kScheduled),
        std::tuple("karpenter.sh/disruption", Kind::kReclaim, State::kScheduled),
        std::tuple("node.cloudprovider.kubernetes.io/shutdown", Kind::kReclaim, State::kStarted),
        std::tuple("cloud.google.com/impending-node-termination", Kind::kReclaim,
                   State::kScheduled)}) {
    const CloudNotice notice = TheOne(ReadNode7(Node(
        kReady, fmt::format(R"({{"taints": [{{"key": "{}", "effect": "NoSchedule"}}]}})", key))));
    EXPECT_EQ(notice.kind, kind) << key;
    EXPECT_EQ(notice.state, state) << key;
    EXPECT_EQ(notice.id, fmt::format("taint/{}", key));
  }
}

TEST(KubernetesNode, OtherTaintsAreLeftOut) {
  const PublishedNotices published = ReadNode7(
      Node(kReady, R"({"taints": [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
                             {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]})"));
  EXPECT_TRUE(published.notices.empty());
  EXPECT_EQ(published.doubt, "");
}

TEST(KubernetesNode, ATaintsTimeIsPartOfItsId) {
  const PublishedNotices published = ReadNode7(Node(kReady, R"({"taints": [
        {"key": "ToBeDeletedByClusterAutoscaler", "value": "1700000000", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute",
         "timeAdded": "2026-01-02T03:04:05Z"},
        {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]})"));
  ASSERT_EQ(published.notices.size(), 3u);
  EXPECT_EQ(published.notices[0].notice.id, "taint/ToBeDeletedByClusterAutoscaler/1700000000");
  EXPECT_FALSE(published.notices[0].id_recurs);
  EXPECT_EQ(published.notices[1].notice.id,
            "taint/node.kubernetes.io/out-of-service/2026-01-02T03:04:05Z");
  EXPECT_FALSE(published.notices[1].id_recurs);
  EXPECT_EQ(published.notices[2].notice.id, "taint/karpenter.sh/disrupted");
  EXPECT_TRUE(published.notices[2].id_recurs);
}

TEST(KubernetesNode, ACordonAndItsTaintAreOneNotice) {
  const CloudNotice cordoned = TheOne(ReadNode7(Node(kReady, R"({"unschedulable": true})")));
  EXPECT_EQ(cordoned.kind, Kind::kRiskOfReclaim);
  const CloudNotice tainted = TheOne(ReadNode7(Node(kReady, R"({"unschedulable": true, "taints": [
      {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule",
       "timeAdded": "2026-01-02T03:04:05Z"},
      {"key": "node.kubernetes.io/unschedulable", "effect": "NoExecute"}]})")));
  EXPECT_EQ(tainted.id, cordoned.id);
  EXPECT_EQ(tainted.kind, cordoned.kind);
  EXPECT_TRUE(ReadNode7(Node(kReady, R"({"unschedulable": false})")).notices.empty());
}

TEST(KubernetesNode, ANodeThatIsDeletedIsReclaimed) {
  const CloudNotice notice =
      TheOne(ReadNode7(Node(kReady, "{}", R"(, "deletionTimestamp": "2017-09-18T08:22:00Z")")));
  EXPECT_EQ(notice.kind, Kind::kReclaim);
  EXPECT_EQ(notice.not_before_seconds, 1505722920);
}

TEST(KubernetesNode, WhatIsNotUnderstoodLeavesADoubtAndTheRestCounts) {
  for (
      const char* strange :
      {R"({})", R"(7)", R"({"type": 7, "status": "True"})", R"({"type": "Ready"})",
       R"({"type": "Ready", "status": true})", R"({"type": "DiskPressure", "status": "Maybe"})",
       R"({"type": "DiskPressure", "status": "True", "lastTransitionTime": "2026-02-30T03:04:05Z"})"}) {
    const PublishedNotices published =
        ReadNode7(Node(Condition("MemoryPressure", "True") + "," + strange));
    EXPECT_GE(published.notices.size(), 1u) << strange;
    EXPECT_NE(published.doubt, "") << strange;
  }
  for (const char* spec :
       {R"({"taints": {}})", R"({"taints": [7]})", R"({"taints": [{"key": []}]})"}) {
    const PublishedNotices published = ReadNode7(Node(Condition("MemoryPressure", "True"), spec));
    EXPECT_EQ(published.notices.size(), 1u) << spec;
    EXPECT_NE(published.doubt, "") << spec;
  }
  EXPECT_NE(ReadNode7(R"({"kind": "Node", "metadata": {"name": "node-7"}})").doubt, "");
}

TEST(KubernetesNode, WhatIsNotThisNodeIsAnError) {
  for (const std::string& document :
       {std::string(), std::string("[]"), std::string(R"({"kind": "Status", "code": 404})"),
        std::string(R"({"kind": "Node", "metadata": {"name": "node-8"}})"),
        std::string(R"({"kind": "Node", "metadata": []})"), std::string(R"({"kind": "Node"})"),
        std::string(100'000, '[')}) {
    EXPECT_FALSE(ReadKubernetesNode(document, "node-7").ok()) << document.substr(0, 80);
  }
}

}  // namespace
}  // namespace harmonaize::daemon
