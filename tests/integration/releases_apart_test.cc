// Clients, daemons, and daemons of several hosts whose releases are one apart, and further. A
// client takes the versions that it speaks from HARMONAIZE_PROTOCOL, a daemon from hidden options.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "include/harmonaize.h"
#include "src/base/json_text.h"
#include "src/ipc/operator_socket.h"
#include "src/ipc/session_versions.h"
#include "tests/integration/command_line.h"
#include "tests/support/daemon_http.h"
#include "tests/support/eventually.h"
#include "tests/support/hostile_session.h"
#include "tests/support/hosts_case.h"

namespace harmonaize::testing {
namespace {

using Json = nlohmann::json;

constexpr size_t kSmall = 16;       // elements that go by the inline path
constexpr size_t kLarge = 1 << 20;  // elements that the daemon reduces

/// The last version of the session protocol without tickets.
constexpr uint16_t kWithoutTickets = 19;
constexpr uint16_t kWithTickets = 20;

/// Has all daemons that are started during its life speak these versions; "": all.
class DaemonsSpeak {
 public:
  explicit DaemonsSpeak(const std::string& to_clients, const std::string& to_hosts = "") {
    std::vector<std::string> arguments;
    if (!to_clients.empty()) arguments.insert(arguments.end(), {"--speak-to-clients", to_clients});
    if (!to_hosts.empty()) arguments.insert(arguments.end(), {"--speak-to-hosts", to_hosts});
    DaemonProcess::SetArguments(std::move(arguments));
  }
  ~DaemonsSpeak() { DaemonProcess::SetArguments({}); }
  DaemonsSpeak(const DaemonsSpeak&) = delete;
  DaemonsSpeak& operator=(const DaemonsSpeak&) = delete;
};

/// Has this process's clients speak these versions from now on; "": all.
void Speak(const std::string& versions) {
  setenv("HARMONAIZE_PROTOCOL", versions.c_str(), 1);
}

Json StatusOf(const std::string& socket) {
  const Result<std::string> status = FetchDaemonStatus(socket);
  EXPECT_TRUE(status.ok()) << status.status().message();
  return status.ok() ? ReadJson(*status) : Json::object();
}

/// Returns the version of the session of this process, as its daemon tells it.
int VersionOfOwnSession() {
  const Json status = StatusOf(std::getenv("HARMONAIZE_SOCKET"));
  for (const Json& tenant : status.at("tenants")) {
    for (const Json& process : tenant.at("processes")) {
      if (process.at("process") == getpid()) return process.at("protocol");
    }
  }
  return -1;
}

/// Has ranks whose clients speak these versions sum up, by both paths. Each rank expects its
/// session to be of the version at its place.
void ExpectTogether(const std::vector<std::string>& spoken, const std::vector<int>& sessions) {
  const int ranks = static_cast<int>(spoken.size());
  const std::vector<int> statuses = RunAsProcesses(ranks, [&](int rank) {
    Speak(spoken[static_cast<size_t>(rank)]);
    ncclComm_t communicator = nullptr;
    EXPECT_NCCL(JoinNamed("apart", ranks, rank, &communicator));
    if (communicator == nullptr) return 1;
    EXPECT_EQ(VersionOfOwnSession(), sessions[static_cast<size_t>(rank)]);
    EXPECT_EQ(CountRanks(communicator), ranks);
    EXPECT_NCCL(AllReduce(communicator, kSmall));
    EXPECT_NCCL(AllReduce(communicator, kLarge));
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(spoken.size(), 0));
}

/// Expects that a client that speaks these versions gets no communicator, and is told all of these.
void ExpectRefused(const std::string& spoken, const std::vector<std::string>& told) {
  const std::vector<int> statuses = RunAsProcesses(1, [&](int) {
    Speak(spoken);
    ncclComm_t communicator = nullptr;
    EXPECT_EQ(JoinNamed("refused", 1, 0, &communicator), ncclInvalidUsage);
    const std::string error = ncclGetLastError(nullptr);
    for (const std::string& text : told) EXPECT_NE(error.find(text), std::string::npos) << error;
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>{0});
}

TEST(ReleasesApart, ADaemonServesClientsOfEarlierReleasesBesideItsOwn) {
  const DaemonProcess daemon;
  ExpectTogether({"19", "19-20", "", "20-24"}, {19, 20, kProtocolVersion, kProtocolVersion});
}

TEST(ReleasesApart, AClientWorksAtDaemonsOfEarlierReleases) {
  for (const uint16_t version : {kWithoutTickets, kWithTickets}) {
    const DaemonsSpeak speak("18-" + std::to_string(version));
    const DaemonProcess daemon;
    ExpectTogether({"", "19"}, {version, 19});
  }
}

TEST(ReleasesApart, AClientThatIsTooOldIsToldSo) {
  const DaemonProcess daemon;
  ExpectRefused("17-18", {"the daemon is harmonaized ", "and speaks versions 19 to ",
                          "this program's library versions 17 to 18",
                          "take the library of the daemon's release"});
}

TEST(ReleasesApart, AClientThatIsTooNewIsToldSo) {
  const DaemonsSpeak speak("17-18");
  const DaemonProcess daemon;
  ExpectRefused("", {"and speaks versions 17 to 18", "this program's library versions 19 to ",
                     "ask the provider to update the daemon"});
}

TEST(ReleasesApart, AVersionThatIsNoneIsToldOf) {
  const DaemonProcess daemon;
  const std::vector<int> statuses = RunAsProcesses(1, [&](int) {
    Speak("newest");
    ncclComm_t communicator = nullptr;
    EXPECT_EQ(JoinNamed("none", 1, 0, &communicator), ncclInvalidArgument);
    EXPECT_MENTIONS(nullptr, "HARMONAIZE_PROTOCOL: 'newest' is neither a version");
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>{0});
}

TEST(ReleasesApart, CommandsWorkOneApartAndSayWhyNotFurther) {
  for (const char* versions : {"17-19", "20-24"}) {
    const DaemonsSpeak speak(versions);
    const DaemonProcess daemon;
    const Ended status = RunCommand({"status"}, daemon.socket_path());
    EXPECT_EQ(status.status, 0) << versions << status.error;
    const Ended explain = RunCommand({"explain"}, daemon.socket_path());
    EXPECT_EQ(explain.status, 0) << versions << explain.error;
  }
  const DaemonsSpeak speak("30-31");
  const DaemonProcess daemon;
  const std::vector<std::vector<std::string>> commands = {{"status"},
                                                          {"run", "-n", "2", "--", "true"}};
  for (const std::vector<std::string>& command : commands) {
    const Ended ended = RunCommand(command, daemon.socket_path());
    EXPECT_NE(ended.status, 0);
    EXPECT_NE(ended.error.find("speaks versions 30 to 31"), std::string::npos) << ended.error;
  }
}

TEST(ReleasesApart, WhatANewerReleaseHasAddedIsRefusedInWords) {
  const DaemonsSpeak speak("19");
  const DaemonProcess daemon;
  const std::vector<int> statuses = RunAsProcesses(2, [](int rank) {
    ncclComm_t communicator = nullptr;
    EXPECT_NCCL(JoinNamed("old", 2, rank, &communicator));
    char ticket[HZ_TICKET_BYTES] = "";
    EXPECT_EQ(hzMakeTicket(communicator, 1, 60, ticket), ncclInvalidUsage);
    EXPECT_MENTIONS(communicator,
                    "a ticket needs version 20 of the session protocol, and this "
                    "session has version 19");
    EXPECT_EQ(CountRanks(communicator), 2);
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(2, 0));
}

/// Sends a message, and returns the failure that it is answered with.
Status FailureOf(HostileSession* session, const std::vector<std::byte>& message) {
  session->Send(message);
  const Result<ControlMessage> answer = session->socket().Receive(HostileSession::kAnswerWithinMs);
  if (!answer.ok()) return Status::Ok();
  const Result<MessageHeader> header = DecodeHeader(answer->bytes);
  return header.ok() ? DecodeFailure(*header, answer->bytes) : header.status();
}

TEST(ReleasesApart, WhatADaemonDoesNotKnowIsAnsweredAndNotFatal) {
  const DaemonsSpeak speak("19");
  const DaemonProcess daemon;
  HostileSession session(daemon.socket_path(), {}, {19, 21});
  EXPECT_EQ(session.segment().header.version, 19u);
  const auto ticket = Encode(MakeTicketRequest::kType, MakeTicketRequest{}, {}, 19);
  EXPECT_EQ(FailureOf(&session, ticket).code(), Code::kInvalidUsage);
  const auto unknown = Encode(static_cast<MessageType>(999), EmptyReply{}, {}, 19);
  EXPECT_EQ(FailureOf(&session, unknown).code(), Code::kInvalidUsage);
  EXPECT_TRUE(FailureOf(&session, Encode(CreateIdRequest::kType, CreateIdRequest{}, {}, 19)).ok());
  EXPECT_NE(session.JoinAlone("goes on"), kNoMember);
}

TEST(ReleasesApart, AMessageBeyondTheVersionOfTheSessionEndsIt) {
  const DaemonProcess daemon;
  HostileSession session(daemon.socket_path(), {}, {19, 19});
  const auto later = Encode(CreateIdRequest::kType, CreateIdRequest{}, {}, kProtocolVersion);
  const Status why = FailureOf(&session, later);
  EXPECT_NE(why.message().find("on a connection of 19"), std::string::npos) << why.message();
  EXPECT_TRUE(session.WaitUntilCutOff());
}

TEST(ReleasesApart, AnAnswerIsAsLongAsItsVersionHasIt) {
  const DaemonProcess daemon;
  const HostileSession old(daemon.socket_path(), {}, {19, 20});
  EXPECT_EQ(old.LastBodyBytes(), offsetof(HelloReply, oldest_version));
  const HostileSession now(daemon.socket_path(), {}, kSessionVersions);
  EXPECT_EQ(now.LastBodyBytes(), sizeof(HelloReply));
  EXPECT_EQ(now.LastReply<HelloReply>().oldest_version, kOldestProtocolVersion);
  EXPECT_EQ(now.LastReply<HelloReply>().latest_version, kProtocolVersion);
}

// ---------------------------------------------------------------------------------------------
// Daemons of several hosts

constexpr char kBefore[] = "6";  // the version between daemons without tickets

/// A cluster whose host 1 has been, or has not been, updated.
class MixedCluster {
 public:
  MixedCluster(const std::string& first, const std::string& second, bool keep_logs = false) {
    {
      const DaemonsSpeak speak("", first);
      cluster_ = std::make_unique<TestCluster>(1, Impatient(), "", "", keep_logs);
    }
    const DaemonsSpeak speak("", second);
    cluster_->AddHost();
  }
  TestCluster* operator->() { return cluster_.get(); }
  TestCluster* get() { return cluster_.get(); }

 private:
  std::unique_ptr<TestCluster> cluster_;
};

/// Returns the versions of a daemon's links.
std::vector<int> LinkVersions(DaemonProcess& daemon) {
  std::vector<int> versions;
  const Json status = StatusOf(daemon.socket_path());
  for (const Json& link : status.at("cluster").at("links")) versions.push_back(link.at("protocol"));
  return versions;
}

TEST(ClusterReleasesApart, AClusterWorksWhileItsHostsAreUpdatedOneByOne) {
  const std::vector<std::pair<std::string, std::string>> clusters = {
      {kBefore, ""}, {"", kBefore}, {"5-6", "6-8"}};
  for (const auto& [first, second] : clusters) {
    MixedCluster cluster(first, second);
    RunOnHosts(cluster.get(), {0, 0, 1, 1}, [](int, ncclComm_t communicator) {
      EXPECT_EQ(CountRanks(communicator), 4);
      EXPECT_NCCL(AllReduce(communicator, kSmall));
      EXPECT_NCCL(AllReduce(communicator, kLarge));
    });
    for (int host : {0, 1}) {
      EXPECT_EQ(LinkVersions(cluster->daemon(host)), std::vector<int>{6});
    }
  }
}

TEST(ClusterReleasesApart, TwoOfTheLatestReleaseSpeakItsVersion) {
  MixedCluster cluster("6-8", "");
  RunOnHosts(cluster.get(), {0, 1},
             [](int, ncclComm_t communicator) { EXPECT_EQ(CountRanks(communicator), 2); });
  EXPECT_EQ(LinkVersions(cluster->daemon(0)), std::vector<int>{8});
}

TEST(ClusterReleasesApart, WhatTheOtherHostDoesNotKnowIsRefusedInWords) {
  MixedCluster cluster("", kBefore);
  RunOnHosts(cluster.get(), {0, 1}, [](int rank, ncclComm_t communicator) {
    char ticket[HZ_TICKET_BYTES] = "";
    if (rank == 1) {
      EXPECT_EQ(hzMakeTicket(communicator, 1, 60, ticket), ncclInvalidUsage);
      EXPECT_MENTIONS(communicator,
                      "needs version 7 of the protocol between daemons, and with the "
                      "daemon of another host version 6 is spoken");
    }
    EXPECT_EQ(CountRanks(communicator), 2);
  });
  const Ended status = RunCommand({"status"}, cluster->daemon(0).socket_path());
  EXPECT_NE(status.output.find("of these, 1 of an earlier release"), std::string::npos)
      << status.output;
}

Answer Call(const std::string& socket, const std::string& method, const std::string& target,
            const std::string& body = "") {
  return Ask(socket, {.method = method, .target = target, .body = body});
}

// Host 0 is the home, host 1 has not been updated, and host 2 makes an offer.
TEST(ClusterReleasesApart, OffersPassOverAHostThatDoesNotKnowThem) {
  MixedCluster cluster("", kBefore, /*keep_logs=*/true);
  cluster->AddHost();
  const std::string home = cluster->daemon(0).socket_path();
  const std::string old = cluster->daemon(1).socket_path();
  const std::string maker = cluster->daemon(2).socket_path();
  setenv("HARMONAIZE_JOB", "mixed", 1);
  RunOnHosts(cluster.get(), {0, 1, 2}, [&](int rank, ncclComm_t communicator) {
    EXPECT_EQ(CountRanks(communicator), 3);
    if (rank == 0) {
      const Answer made =
          Call(OperatorSocketPath(maker), "POST", "/v1/offers",
               R"({"job": "mixed", "kind": "grow", "ranks": 1, "within_seconds": 600})");
      EXPECT_EQ(made.first, 200) << made.second;
      const std::string offer = "/v1/offers/" + made.second.value("id", "");
      EXPECT_TRUE(Eventually(20, [&] { return Call(home, "GET", offer).first == 200; }));
      // It goes to all hosts of the job but the one from which it comes.
      const Answer accepted = Call(home, "POST", offer + "/accept");
      EXPECT_EQ(accepted.first, 200) << accepted.second;
      EXPECT_EQ(Call(maker, "GET", offer).second.value("state", ""), "accepted");
      EXPECT_EQ(Call(old, "GET", offer).first, 404);
    }
    EXPECT_EQ(CountRanks(communicator), 3);
  });
  unsetenv("HARMONAIZE_JOB");
  EXPECT_EQ(cluster->daemon(1).Stop(), 0);
  const std::string log = cluster->daemon(1).Log();
  EXPECT_NE(log.find("in version 6 of the protocol"), std::string::npos) << log;
  EXPECT_EQ(log.find("does not know"), std::string::npos) << log;
}

TEST(ClusterReleasesApart, HostsThatAreFurtherApartSaySo) {
  for (const auto& [first, second, which] : {std::tuple{"10-11", "", "update this daemon"},
                                             std::tuple{"", "10-11", "update the other daemon"}}) {
    MixedCluster cluster(first, second);
    HostedRanks ranks(cluster.get(), {0, 1});
    ranks.Start([&](int rank) {
      const ncclUniqueId id = ranks.ShareId(0, rank == 0);
      ncclComm_t communicator = nullptr;
      EXPECT_EQ(ncclCommInitRank(&communicator, 2, id, rank), ncclRemoteError);
      if (rank == 1) {
        EXPECT_MENTIONS(nullptr, "the daemon of another host is of another release");
      }
      return 0;
    });
    EXPECT_EQ(ranks.Wait(), std::vector<int>(2, 0));
    const Json status = StatusOf(cluster->daemon(1).socket_path());
    const Json& others = status.at("cluster").at("daemons_of_other_releases");
    ASSERT_EQ(others.size(), 1u);
    const std::string why = others.begin()->get<std::string>();
    EXPECT_NE(why.find("of the protocol between daemons"), std::string::npos) << why;
    EXPECT_NE(why.find("versions 10 to 11"), std::string::npos) << why;
    EXPECT_NE(why.find("versions 6 to 9"), std::string::npos) << why;
    EXPECT_NE(why.find(which), std::string::npos) << why;
    const Ended table = RunCommand({"status"}, cluster->daemon(1).socket_path());
    EXPECT_NE(table.output.find("it cannot work with "), std::string::npos) << table.output;
  }
}

}  // namespace
}  // namespace harmonaize::testing
