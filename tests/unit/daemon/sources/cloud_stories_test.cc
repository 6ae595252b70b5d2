// Each cloud, played from its published format by a server of this test, through whole stories.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>

#include "src/base/time_text.h"
#include "tests/unit/daemon/sources/heard_notices.h"
#include "tests/unit/daemon/sources/scripted_server.h"

namespace harmonaize::daemon {
namespace {

using Kind = CloudNotice::Kind;
using State = CloudNotice::State;

std::string TimeText(const char* form, int64_t seconds) {
  const time_t time = seconds;
  tm parts;
  gmtime_r(&time, &parts);
  char text[64];
  strftime(text, sizeof text, form, &parts);
  return text;
}

/// Documents that a played cloud shows, by their targets. Thread: any.
class Documents {
 public:
  void Show(const std::string& target, const std::string& document) {
    const std::lock_guard lock(mutex_);
    documents_[target] = document;
  }
  void Remove(const std::string& target) {
    const std::lock_guard lock(mutex_);
    documents_.erase(target);
  }
  std::string AnswerTo(const std::string& target) {
    const std::lock_guard lock(mutex_);
    const auto document = documents_.find(target);
    return document == documents_.end() ? Answer(404, "") : Answer(200, document->second);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> documents_;  // guarded by mutex_
};

std::unique_ptr<SourcePoller> Poll(SourceConfig source, HeardNotices* heard) {
  source.interval_seconds = 1;
  Result<std::unique_ptr<SourcePoller>> poller =
      SourcePoller::Start({{source}}, heard->Callback(), QuickPace());
  EXPECT_TRUE(poller.ok()) << poller.status().message();
  return std::move(*poller);
}

class AzureStory : public ::testing::Test {
 protected:
  static constexpr const char* kEvents = "/metadata/scheduledevents?api-version=2020-07-01";
  static constexpr const char* kName =
      "/metadata/instance/compute/name?api-version=2021-02-01&format=text";

  AzureStory() {
    documents_.Show(kName, "vmss_1");
    Publish("");
  }
  void Serve(const ServedRequest& request, ServedConnection& connection) {
    if (request.Header("metadata") != "true") {
      connection.Send(Answer(400, ""));
    } else if (request.method == "POST") {
      const std::lock_guard lock(mutex_);
      approvals_.push_back(request.body);
      connection.Send(Answer(approval_status_, ""));
    } else {
      connection.Send(documents_.AnswerTo(request.target));
    }
  }
  void Publish(const std::string& events) {
    documents_.Show(kEvents, fmt::format(R"({{"DocumentIncarnation": {}, "Events": [{}]}})",
                                         ++incarnation_, events));
  }
  static std::string Event(const std::string& type, const std::string& status, int64_t not_before,
                           const std::string& host = "vmss_1") {
    const std::string time =
        status == "Started" ? "" : TimeText("%a, %d %b %Y %H:%M:%S GMT", not_before);
    return fmt::format(
        R"({{"EventId": "A123BC45-1234-5678-AB90-ABCDEF123456", "EventType": "{}",
            "ResourceType": "VirtualMachine", "Resources": ["{}"], "EventStatus": "{}",
            "NotBefore": "{}", "Description": "Host update",
            "EventSource": "Platform", "DurationInSeconds": 9}})",
        type, host, status, time);
  }

  Documents documents_;
  int incarnation_ = 0;
  std::mutex mutex_;
  std::vector<std::string> approvals_;  // guarded by mutex_
  int approval_status_ = 200;           // guarded by mutex_
  HeardNotices heard_;
  ScriptedServer server_{[this](const ServedRequest& request, ServedConnection& connection) {
    Serve(request, connection);
  }};
};

TEST_F(AzureStory, AFreezeIsScheduledThenStartedThenCompleted) {
  const auto poller = Poll({.kind = "azure", .endpoint = server_.endpoint()}, &heard_);
  const int64_t at = std::time(nullptr) + 900;
  Publish(Event("Freeze", "Scheduled", at) + "," + Event("Freeze", "Scheduled", at, "vmss_2"));
  EXPECT_EQ(heard_.WaitFor(1)[0].state, State::kScheduled);
  Publish(Event("Freeze", "Started", at));
  EXPECT_EQ(heard_.WaitFor(2)[1].state, State::kStarted);
  Publish("");
  const std::vector<CloudNotice> notices = heard_.WaitFor(3);
  EXPECT_EQ(notices[2].state, State::kCompleted);
  for (const CloudNotice& notice : notices) {
    EXPECT_EQ(notice.id, "A123BC45-1234-5678-AB90-ABCDEF123456");
    EXPECT_EQ(notice.kind, Kind::kMaintenance);
    EXPECT_TRUE(notice.survives);
  }
  EXPECT_EQ(notices[0].not_before_seconds, at);
  poller->Stop();
  EXPECT_EQ(heard_.count(), 3u) << "a notice was repeated";
}

TEST_F(AzureStory, AnEventThatIsCancelledIsWithdrawn) {
  const auto poller = Poll({.kind = "azure", .endpoint = server_.endpoint()}, &heard_);
  Publish(Event("Redeploy", "Scheduled", std::time(nullptr) + 900));
  heard_.WaitFor(1);
  Publish("");
  EXPECT_EQ(heard_.WaitFor(2)[1].state, State::kWithdrawn);
}

TEST_F(AzureStory, AnApprovedEventIsCompletedThoughItIsGoneBeforeItsTime) {
  const auto poller = Poll({.kind = "azure", .endpoint = server_.endpoint()}, &heard_);
  Publish(Event("Reboot", "Scheduled", std::time(nullptr) + 900));
  const std::string id = heard_.WaitFor(1)[0].id;
  std::promise<Status> approved;
  poller->Approve(id, [&](Status status) { approved.set_value(std::move(status)); });
  EXPECT_TRUE(approved.get_future().get().ok());
  Publish("");
  EXPECT_EQ(heard_.WaitFor(2)[1].state, State::kCompleted);
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(approvals_,
            std::vector<std::string>{R"({"StartRequests":[{"EventId":")" + id + R"("}]})"});
}

TEST_F(AzureStory, AnApprovalThatAzureRefusesOrThatHasNoEventFails) {
  const auto poller = Poll({.kind = "azure", .endpoint = server_.endpoint()}, &heard_);
  Publish(Event("Reboot", "Scheduled", std::time(nullptr) + 900));
  const std::string id = heard_.WaitFor(1)[0].id;
  {
    const std::lock_guard lock(mutex_);
    approval_status_ = 500;
  }
  std::promise<Status> refused;
  poller->Approve(id, [&](Status status) { refused.set_value(std::move(status)); });
  EXPECT_EQ(refused.get_future().get().code(), Code::kRemoteError);
  std::promise<Status> unknown;
  poller->Approve("another", [&](Status status) { unknown.set_value(std::move(status)); });
  EXPECT_EQ(unknown.get_future().get().code(), Code::kInvalidUsage);
  poller->Stop();
  Status after;
  poller->Approve(id, [&](Status status) { after = std::move(status); });
  EXPECT_EQ(after.code(), Code::kUnavailable);
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(approvals_.size(), 1u);
}

TEST_F(AzureStory, TheConfiguredNameIsUsedWithoutAsking) {
  documents_.Remove(kName);
  const auto poller =
      Poll({.kind = "azure", .endpoint = server_.endpoint(), .node = "VM-9"}, &heard_);
  Publish(Event("Preempt", "Scheduled", std::time(nullptr) + 30, "vm-9"));
  EXPECT_EQ(heard_.WaitFor(1)[0].kind, Kind::kReclaim);
}

class AwsStory : public ::testing::Test {
 protected:
  static constexpr const char* kSpot = "/latest/meta-data/spot/instance-action";
  static constexpr const char* kRebalance = "/latest/meta-data/events/recommendations/rebalance";
  static constexpr const char* kScheduled = "/latest/meta-data/events/maintenance/scheduled";
  static constexpr const char* kHistory = "/latest/meta-data/events/maintenance/history";

  AwsStory() {
    documents_.Show(kScheduled, "[]");
    documents_.Show(kHistory, "[]");
  }
  void Serve(const ServedRequest& request, ServedConnection& connection) {
    const std::string token = fmt::format("token-{}", token_.load());
    if (request.method == "PUT" && request.target == "/latest/api/token") {
      const bool is_proper = request.Header("x-aws-ec2-metadata-token-ttl-seconds") == "21600" &&
                             request.Header("content-length") == "0";
      ++tokens_given_;
      connection.Send(is_proper ? Answer(200, token) : Answer(400, ""));
    } else if (request.Header("x-aws-ec2-metadata-token") != token) {
      connection.Send(Answer(401, ""));
    } else {
      connection.Send(documents_.AnswerTo(request.target));
    }
  }
  static std::string Scheduled(const std::string& state, int64_t not_before) {
    return fmt::format(
        R"([{{"NotBefore": "{}", "Code": "system-reboot", "Description": "scheduled reboot",
             "EventId": "instance-event-0123456789abcdef0", "NotAfter": "{}", "State": "{}"}}])",
        TimeText("%d %b %Y %H:%M:%S GMT", not_before),
        TimeText("%d %b %Y %H:%M:%S GMT", not_before + 1000), state);
  }

  Documents documents_;
  std::atomic<int> token_{1};
  std::atomic<int> tokens_given_{0};
  HeardNotices heard_;
  ScriptedServer server_{[this](const ServedRequest& request, ServedConnection& connection) {
    Serve(request, connection);
  }};
};

TEST_F(AwsStory, ASpotHostIsAtRiskAndThenInterrupted) {
  const auto poller = Poll({.kind = "aws", .endpoint = server_.endpoint()}, &heard_);
  const int64_t now = std::time(nullptr);
  documents_.Show(kRebalance,
                  fmt::format(R"({{"noticeTime": "{}"}})", TimeText("%Y-%m-%dT%H:%M:%SZ", now)));
  EXPECT_EQ(heard_.WaitFor(1)[0].kind, Kind::kRiskOfReclaim);
  documents_.Show(kSpot, fmt::format(R"({{"action": "terminate", "time": "{}"}})",
                                     TimeText("%Y-%m-%dT%H:%M:%SZ", now + 120)));
  const CloudNotice notice = heard_.WaitFor(2)[1];
  EXPECT_EQ(notice.kind, Kind::kReclaim);
  EXPECT_EQ(notice.state, State::kScheduled);
  EXPECT_EQ(notice.not_before_seconds, now + 120);
  documents_.Remove(kSpot);
  EXPECT_EQ(heard_.WaitFor(3)[2].state, State::kWithdrawn);
  poller->Stop();
  EXPECT_EQ(heard_.count(), 3u);
  EXPECT_EQ(tokens_given_, 1);
}

TEST_F(AwsStory, TheHistorySaysWhetherAScheduledEventIsOverOrCalledOff) {
  const auto poller = Poll({.kind = "aws", .endpoint = server_.endpoint()}, &heard_);
  const int64_t at = std::time(nullptr) + 86400;
  documents_.Show(kScheduled, Scheduled("active", at));
  EXPECT_EQ(heard_.WaitFor(1)[0].not_before_seconds, at);
  // The history is shown first, so that no poll sees the event in neither.
  documents_.Show(kHistory, Scheduled("completed", at));
  documents_.Show(kScheduled, "[]");
  EXPECT_EQ(heard_.WaitFor(2)[1].state, State::kCompleted);
  documents_.Show(kHistory, "[]");
  documents_.Show(kScheduled, Scheduled("active", at));
  EXPECT_EQ(heard_.WaitFor(3)[2].state, State::kScheduled);
  documents_.Show(kHistory, Scheduled("canceled", at));
  documents_.Show(kScheduled, "[]");
  EXPECT_EQ(heard_.WaitFor(4)[3].state, State::kWithdrawn);
}

TEST_F(AwsStory, ATokenThatHasExpiredIsReplaced) {
  const auto poller = Poll({.kind = "aws", .endpoint = server_.endpoint()}, &heard_);
  ASSERT_TRUE(AwaitHealth(*poller, SourceHealth::kWell));
  token_ = 2;
  documents_.Show(kScheduled, Scheduled("active", std::time(nullptr) + 86400));
  heard_.WaitFor(1);
  EXPECT_EQ(tokens_given_, 2);
  EXPECT_EQ(poller->Report().at(0).health, SourceHealth::kWell);
}

class GcpStory : public ::testing::Test {
 protected:
  struct Value {
    std::string text;
    int changes = 0;
  };

  std::string EtagOf(const Value& value) const { return fmt::format("e{}", value.changes); }

  // As the metadata server does, it holds back the answer to a request that knows the value.
  void Serve(const ServedRequest& request, ServedConnection& connection) {
    if (request.Header("metadata-flavor") != "Google") {
      connection.Send(Answer(403, ""));
      return;
    }
    const std::string path = request.target.substr(0, request.target.find('?'));
    const bool waits = request.target.find("wait_for_change=true") != std::string::npos;
    if (waits && request.target.find("&timeout_sec=60") != std::string::npos) ++waits_;
    std::unique_lock lock(mutex_);
    const auto found = values_.find(path.substr(path.rfind('/') + 1));
    if (path.rfind("/computeMetadata/v1/instance/", 0) != 0 || found == values_.end()) {
      connection.Send(Answer(404, ""));
      return;
    }
    const Value& value = found->second;
    const auto is_known = [&] {
      return request.target.find("&last_etag=" + EtagOf(value) + "&") != std::string::npos;
    };
    for (int i = 0; i < 60 && waits && is_known(); ++i) {
      lock.unlock();
      if (!connection.Wait(5)) return;
      lock.lock();
    }
    connection.Send(
        Answer(200, value.text, "Metadata-Flavor: Google\r\nETag: " + EtagOf(value) + "\r\n"));
  }
  void Set(const std::string& name, const std::string& text) {
    const std::lock_guard lock(mutex_);
    values_[name].text = text;
    ++values_[name].changes;
  }

  std::atomic<int> waits_{0};
  std::mutex mutex_;
  std::map<std::string, Value> values_ = {{"maintenance-event", {"NONE"}},  // guarded by mutex_
                                          {"preempted", {"FALSE"}}};
  HeardNotices heard_;
  ScriptedServer server_{[this](const ServedRequest& request, ServedConnection& connection) {
    Serve(request, connection);
  }};
};

TEST_F(GcpStory, AMigrationIsHeardOfByWaitingForTheChange) {
  const auto poller = Poll({.kind = "gcp", .endpoint = server_.endpoint()}, &heard_);
  ASSERT_TRUE(Await([this] { return waits_ >= 2; }));
  Set("maintenance-event", "MIGRATE_ON_HOST_MAINTENANCE");
  const CloudNotice notice = heard_.WaitFor(1)[0];
  EXPECT_EQ(notice.state, State::kScheduled);
  EXPECT_TRUE(notice.survives);
  Set("maintenance-event", "NONE");
  const CloudNotice over = heard_.WaitFor(2)[1];
  EXPECT_EQ(over.state, State::kCompleted);
  EXPECT_EQ(over.id, notice.id);
  EXPECT_EQ(notice.id.rfind("maintenance-event/", 0), 0u);
}

TEST_F(GcpStory, ATerminationForMaintenanceAndAPreemptionAreHeardOfBesideEachOther) {
  const auto poller = Poll({.kind = "gcp", .endpoint = server_.endpoint()}, &heard_);
  ASSERT_TRUE(Await([this] { return waits_ >= 2; }));
  Set("maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE");
  const CloudNotice maintenance = heard_.WaitFor(1)[0];
  EXPECT_EQ(maintenance.kind, Kind::kMaintenance);
  EXPECT_FALSE(maintenance.survives);
  Set("preempted", "TRUE");
  const CloudNotice preemption = heard_.WaitFor(2)[1];
  EXPECT_EQ(preemption.kind, Kind::kReclaim);
  EXPECT_EQ(preemption.state, State::kStarted);
}

TEST_F(GcpStory, AnAnswerThatIsNotTheMetadataServersDoesNotCount) {
  ScriptedServer other([](const ServedRequest&, ServedConnection& connection) {
    connection.Send(Answer(200, "TRUE"));
  });
  const auto poller = Poll({.kind = "gcp", .endpoint = other.endpoint()}, &heard_);
  EXPECT_TRUE(AwaitHealth(*poller, SourceHealth::kFailing));
  EXPECT_EQ(heard_.count(), 0u);
}

class KubernetesStory : public ::testing::Test {
 protected:
  KubernetesStory() {
    char name[] = "/tmp/harmonaize-sources-test-XXXXXX";
    folder_ = mkdtemp(name);
    Write("ca.crt", certificate_.certificate);
    Write("token", "first.token\n");
    server_ = std::make_unique<ScriptedServer>(
        [this](const ServedRequest& request, ServedConnection& connection) {
          Serve(request, connection);
        },
        &certificate_);
    Publish("{}");
  }
  ~KubernetesStory() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/new") << text;
    std::filesystem::rename(folder_ + "/new", folder_ + "/" + name);
  }
  void Serve(const ServedRequest& request, ServedConnection& connection) {
    const std::lock_guard lock(mutex_);
    const bool is_allowed = request.Header("authorization") == "Bearer " + token_;
    connection.Send(is_allowed ? documents_.AnswerTo(request.target) : Answer(401, ""));
  }
  void Publish(const std::string& spec, const std::string& ready = "True") {
    documents_.Show(
        "/api/v1/nodes/node-7",
        fmt::format(
            R"({{"kind": "Node", "apiVersion": "v1", "metadata": {{"name": "node-7"}}, "spec": {},
            "status": {{"conditions": [{{"type": "Ready", "status": "{}", "reason": "Kubelet",
            "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}}]}}}})",
            spec, ready));
  }
  SourceConfig Source() const {
    return {.kind = "kubernetes",
            .endpoint = server_->endpoint(),
            .token_file = folder_ + "/token",
            .ca_file = folder_ + "/ca.crt",
            .node = "node-7"};
  }

  std::string folder_;
  const TestCertificate certificate_ = MakeCertificate("IP:127.0.0.1,DNS:localhost");
  Documents documents_;
  std::mutex mutex_;
  std::string token_ = "first.token";  // guarded by mutex_
  HeardNotices heard_;
  std::unique_ptr<ScriptedServer> server_;
};

TEST_F(KubernetesStory, ANodeIsCordonedThenTaintedThenUnready) {
  const auto poller = Poll(Source(), &heard_);
  Publish(R"({"unschedulable": true})");
  const CloudNotice cordoned = heard_.WaitFor(1)[0];
  EXPECT_EQ(cordoned.kind, Kind::kRiskOfReclaim);
  Publish(R"({"unschedulable": true, "taints": [
      {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
      {"key": "ToBeDeletedByClusterAutoscaler", "value": "1700000000", "effect": "NoSchedule"}]})");
  const CloudNotice doomed = heard_.WaitFor(2)[1];
  EXPECT_EQ(doomed.kind, Kind::kReclaim);
  EXPECT_EQ(doomed.id, "taint/ToBeDeletedByClusterAutoscaler/1700000000");
  Publish("{}");
  const std::vector<CloudNotice> notices = heard_.WaitFor(4);
  EXPECT_EQ(notices[2].state, State::kWithdrawn);
  EXPECT_EQ(notices[3].state, State::kWithdrawn);
  Publish("{}", "Unknown");
  EXPECT_EQ(heard_.WaitFor(5)[4].kind, Kind::kUnhealthy);
  Publish("{}", "True");
  EXPECT_EQ(heard_.WaitFor(6)[5].state, State::kCompleted);
  poller->Stop();
  EXPECT_EQ(heard_.count(), 6u);
}

TEST_F(KubernetesStory, ATokenThatWasReplacedIsReadAnew) {
  const auto poller = Poll(Source(), &heard_);
  ASSERT_TRUE(AwaitHealth(*poller, SourceHealth::kWell));
  {
    const std::lock_guard lock(mutex_);
    token_ = "second.token";
  }
  ASSERT_TRUE(AwaitHealth(*poller, SourceHealth::kFailing));
  Write("token", "second.token\n");
  EXPECT_TRUE(AwaitHealth(*poller, SourceHealth::kWell));
}

TEST_F(KubernetesStory, ANameIsLookedUpAndItsCertificateIsChecked) {
  SourceConfig source = Source();
  source.endpoint = fmt::format("https://localhost:{}", server_->port());
  const auto poller = Poll(source, &heard_);
  EXPECT_TRUE(AwaitHealth(*poller, SourceHealth::kWell));
}

/// Polls a server with this certificate, and requires that it never gets a request.
void ExpectNoRequest(SourceConfig source, const TestCertificate& certificate) {
  std::atomic<int> requests{0};
  const ScriptedServer impostor([&](const ServedRequest&, ServedConnection&) { ++requests; },
                                &certificate);
  source.endpoint = impostor.endpoint();
  HeardNotices heard;
  const auto poller = Poll(source, &heard);
  EXPECT_TRUE(AwaitHealth(*poller, SourceHealth::kFailing));
  EXPECT_TRUE(Await([&] { return impostor.connections() >= 2; }));
  EXPECT_EQ(requests, 0);
}

TEST_F(KubernetesStory, NoTokenGoesToAServerOfAnotherAuthority) {
  ExpectNoRequest(Source(), MakeCertificate("IP:127.0.0.1"));
}

TEST_F(KubernetesStory, NoTokenGoesToAServerWhoseCertificateIsForAnotherHostOrTime) {
  for (const TestCertificate& wrong :
       {MakeCertificate("IP:127.0.0.2"), MakeCertificate("DNS:localhost"),
        MakeCertificate("DNS:127.0.0.1"), MakeCertificate("IP:127.0.0.1", 0)}) {
    Write("ca.crt", wrong.certificate);
    ExpectNoRequest(Source(), wrong);
  }
  const TestCertificate right = MakeCertificate("IP:127.0.0.1");
  Write("ca.crt", right.certificate);
  const ScriptedServer server([&](const ServedRequest& request,
                                  ServedConnection& connection) { Serve(request, connection); },
                              &right);
  SourceConfig source = Source();
  source.endpoint = server.endpoint();
  const auto poller = Poll(source, &heard_);
  EXPECT_TRUE(AwaitHealth(*poller, SourceHealth::kWell)) << "and so it goes to the right one";
}

TEST_F(KubernetesStory, AMissingOrUnfitFileIsAFailureThatMends) {
  for (const char* text : {"", "\n", "two words\n", "a\r\nHost: b\n"}) {
    Write("token", text);
    const auto poller = Poll(Source(), &heard_);
    EXPECT_TRUE(AwaitHealth(*poller, SourceHealth::kFailing)) << text;
    Write("token", "first.token");
    EXPECT_TRUE(AwaitHealth(*poller, SourceHealth::kWell)) << text;
  }
  Write("ca.crt", "no certificate");
  const auto poller = Poll(Source(), &heard_);
  EXPECT_TRUE(AwaitHealth(*poller, SourceHealth::kFailing));
  Write("ca.crt", certificate_.certificate);
  EXPECT_TRUE(AwaitHealth(*poller, SourceHealth::kWell));
}

}  // namespace
}  // namespace harmonaize::daemon
