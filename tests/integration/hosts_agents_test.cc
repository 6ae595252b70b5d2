// Agents of jobs: launchers that take part in a job at hosts where it has no ranks yet, or none any
// more.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "include/harmonaize.h"
#include "src/base/json_text.h"
#include "src/ipc/operator_socket.h"
#include "tests/support/cluster.h"
#include "tests/support/daemon_http.h"
#include "tests/support/eventually.h"
#include "tests/support/hosts_case.h"
#include "tests/support/other_users.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

/// Longest wait for something that takes milliseconds, or a daemon's next look, in seconds.
constexpr double kAgentWait = kSanitized ? 60 : 20;
constexpr char kJob[] = "elastic";

Answer Call(const std::string& socket, const std::string& method, const std::string& target,
            const json& body = nullptr) {
  return Ask(socket, {.method = method,
                      .target = target,
                      .body = body.is_null() ? std::string() : JsonText(body)});
}

/// An agent of a test, which is renewed whenever it is looked at.
class TestAgent {
 public:
  TestAgent(std::string socket, const std::string& job, const std::string& ticket, int places)
      : socket_(std::move(socket)), places_(places) {
    json order = {{"job", job}, {"places", places}};
    if (!ticket.empty()) order["ticket"] = ticket;
    const Answer added = Call(socket_, "POST", "/v1/agents", order);
    status_ = added.first;
    if (status_ == 201) id_ = added.second.at("id");
  }

  int status() const { return status_; }
  const std::string& id() const { return id_; }
  json Look() const {
    const Answer answer = Call(socket_, "PUT", "/v1/agents/" + id_, {{"places", places_}});
    return answer.first == 200 ? answer.second : json::object();
  }
  /// Waits until what the agent sees is so.
  void Await(const std::function<bool(const json&)>& holds) const {
    json seen;
    EXPECT_TRUE(Eventually(kAgentWait, [&] { return holds(seen = Look()); })) << seen;
  }
  void AwaitAttached(int ranks) const {
    Await([&](const json& seen) {
      return seen.value("standing", "") == "attached" && seen.value("ranks", 0) == ranks;
    });
  }

 private:
  const std::string socket_;
  const int places_;
  int status_ = 0;
  std::string id_;
};

std::string TicketOf(ncclComm_t communicator) {
  char ticket[HZ_TICKET_BYTES] = "";
  EXPECT_NCCL(hzMakeTicket(communicator, 4, 600, ticket));
  return ticket;
}

/// Runs `body` for each rank of the job, with a communicator that all ranks have used. `body` ends
/// the communicator.
void RunJob(TestCluster* cluster, const std::vector<int>& host_of_rank,
            const std::function<void(int rank, ncclComm_t all)>& body) {
  HostedRanks ranks(cluster, host_of_rank);
  ranks.Start([&](int rank) {
    setenv("HARMONAIZE_JOB", kJob, 1);
    ncclComm_t all = ranks.Join(rank);
    EXPECT_EQ(CountRanks(all), ranks.ranks());
    body(rank, all);
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

/// Waits for what rank 0 does.
void Meet(ncclComm_t all) {
  float one = 1;
  EXPECT_NCCL(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, all, nullptr));
}

std::string StateOfOffer(const std::string& socket, const std::string& offer) {
  const Answer answer = Call(socket, "GET", "/v1/offers/" + offer);
  return answer.first == 200 ? answer.second.value("state", "") : "";
}

// Host 1 has an agent alone: an offer is made there, and answered where the ranks are.
TEST(Agents, AHostWithoutRanksTakesPartInAJobByATicket) {
  TestCluster cluster(2);
  const std::string ranks_at = cluster.daemon(0).socket_path();
  const std::string agent_at = cluster.daemon(1).socket_path();
  RunJob(&cluster, {0, 0}, [&](int rank, ncclComm_t all) {
    if (rank == 0) {
      EXPECT_NCCL(hzSetRequirements(all, "elastic.most_ranks = 7"));
      const TestAgent agent(agent_at, kJob, TicketOf(all), 2);
      EXPECT_EQ(agent.status(), 201);
      agent.AwaitAttached(2);
      const json told = Call(agent_at, "GET", "/v1/agents").second.at("agents").at(0);
      EXPECT_EQ(told.at("id"), agent.id());
      EXPECT_EQ(told.at("ties"), 1);
      EXPECT_EQ(told.at("has_ticket"), true);
      // Where it is operators alone are told.
      const json elsewhere = Call(ranks_at, "GET", "/v1/agents").second.at("elsewhere");
      EXPECT_EQ(elsewhere.size(), 1U) << elsewhere;
      EXPECT_EQ(elsewhere.at(0).value("places", 0), 2) << elsewhere;
      EXPECT_EQ(JsonText(elsewhere).find("127.0.0"), std::string::npos) << elsewhere;
      EXPECT_EQ(JsonText(elsewhere).find("tenant"), std::string::npos) << elsewhere;
      const Answer to_operators = Call(OperatorSocketPath(ranks_at), "GET", "/v1/agents");
      const std::string address = to_operators.second.at("elsewhere").at(0).value("address", "");
      EXPECT_TRUE(address.starts_with("127.0.0.2:")) << to_operators.second;
      // What was said of the job is known there.
      EXPECT_TRUE(Eventually(kAgentWait, [&] {
        const Answer stated = Call(agent_at, "GET", "/v1/jobs/elastic/requirements");
        return JsonText(stated.second).find("most_ranks") != std::string::npos;
      }));
      const json order = {{"job", kJob}, {"kind", "grow"}, {"ranks", 2}, {"within_seconds", 60}};
      json too_many = order;
      too_many["ranks"] = 3;
      const std::string operators = OperatorSocketPath(agent_at);
      const Answer refused = Call(operators, "POST", "/v1/offers", too_many);
      EXPECT_EQ(refused.first, 409) << refused.second;
      EXPECT_NE(JsonText(refused.second).find("at most 2 more ranks"), std::string::npos)
          << refused.second;
      const Answer made = Call(operators, "POST", "/v1/offers", order);
      EXPECT_EQ(made.first, 200) << made.second;
      const std::string offer = made.second.value("id", "");
      // It is known and answered at the other host.
      EXPECT_TRUE(
          Eventually(kAgentWait, [&] { return StateOfOffer(ranks_at, offer) == "offered"; }));
      const Answer accepted = Call(ranks_at, "POST", "/v1/offers/" + offer + "/accept");
      EXPECT_EQ(accepted.first, 200) << accepted.second;
      agent.Await([&](const json& seen) {
        return seen.contains("offers") && seen["offers"].size() == 1 &&
               seen["offers"][0].value("state", "") == "accepted";
      });
      // The agent makes the ticket for the ranks that it starts.
      const Answer ticket = Call(agent_at, "POST", "/v1/jobs/elastic/tickets", {{"uses", 2}});
      EXPECT_EQ(ticket.first, 201) << ticket.second;
      const Answer listed = Call(ranks_at, "GET", "/v1/jobs/elastic/tickets");
      EXPECT_EQ(listed.second.at("tickets").size(), 2U) << listed.second;
      // Events of the job are heard at both hosts.
      EXPECT_TRUE(Eventually(kAgentWait, [&] {
        return Call(agent_at, "GET", "/v1/events?types=offer.*").second.at("events").size() >= 2 &&
               Call(ranks_at, "GET", "/v1/events?types=offer.*").second.at("events").size() >= 2;
      }));
    }
    Meet(all);
    EXPECT_NCCL(ncclCommDestroy(all));
  });
}

// The ranks leave the home's host, and another host is the job's home from then on.
TEST(Agents, StayAttachedWhenTheHomeIsAnother) {
  TestCluster cluster(3);
  const std::string agent_at = cluster.daemon(2).socket_path();
  RunJob(&cluster, {0, 1, 1}, [&](int rank, ncclComm_t all) {
    std::optional<TestAgent> agent;
    char ticket[HZ_TICKET_BYTES] = "";
    if (rank == 0) {
      EXPECT_NCCL(hzMakeTicket(all, 4, 600, ticket));
    }
    EXPECT_NCCL(ncclBroadcast(ticket, ticket, sizeof ticket, ncclChar, 0, all, nullptr));
    if (rank == 1) {
      agent.emplace(agent_at, kJob, ticket, 2);
      agent->AwaitAttached(3);
    }
    Meet(all);
    if (rank == 0) {
      EXPECT_NCCL(ncclCommDestroy(all));
      return;
    }
    int excluded[] = {0};
    ncclComm_t rest = nullptr;
    EXPECT_NCCL(ncclCommShrink(all, excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));
    EXPECT_NCCL(ncclCommDestroy(all));
    EXPECT_EQ(CountRanks(rest), 2);
    if (rank == 1) {
      agent->AwaitAttached(2);
      // The first home is not needed any more.
      EXPECT_EQ(kill(cluster.daemon(0).pid(), SIGKILL), 0);
      agent->AwaitAttached(2);
      EXPECT_EQ(Call(agent_at, "POST", "/v1/jobs/elastic/tickets", {{"uses", 1}}).first, 201);
    }
    Meet(rest);
    EXPECT_NCCL(ncclCommDestroy(rest));
  });
  cluster.daemon(0).Kill();  // A rank has killed it.
}

// The host's own ranks leave, and its agent stays.
TEST(Agents, StayAttachedWhenTheRanksOfTheirHostHaveLeft) {
  TestCluster cluster(2);
  const std::string agent_at = cluster.daemon(1).socket_path();
  RunJob(&cluster, {0, 1}, [&](int rank, ncclComm_t all) {
    std::optional<TestAgent> agent;
    if (rank == 0) {
      agent.emplace(agent_at, kJob, "", 1);
      agent->AwaitAttached(2);
    }
    Meet(all);
    if (rank == 1) {
      EXPECT_NCCL(ncclCommDestroy(all));
      return;
    }
    int excluded[] = {1};
    ncclComm_t rest = nullptr;
    EXPECT_NCCL(ncclCommShrink(all, excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));
    EXPECT_NCCL(ncclCommDestroy(all));
    agent->Await([](const json& seen) {
      return seen.value("standing", "") == "attached" && seen.value("ranks_here", -1) == 0 &&
             seen.value("ranks", 0) == 1;
    });
    EXPECT_NCCL(ncclCommDestroy(rest));
  });
}

TEST(Agents, AreRefusedWithAWrongTicket) {
  TestCluster cluster(2);
  const std::string agent_at = cluster.daemon(1).socket_path();
  RunJob(&cluster, {0, 0}, [&](int rank, ncclComm_t all) {
    if (rank == 0) {
      const std::string ticket = TicketOf(all);
      EXPECT_EQ(TestAgent(agent_at, kJob, "hzt1_nothing", 1).status(), 400);
      // It is of this user, but for another job.
      const TestAgent other(agent_at, "another", ticket, 1);
      other.Await([](const json& seen) {
        return seen.at("problem").is_string() &&
               seen["problem"].get<std::string>().find("another job") != std::string::npos;
      });
      EXPECT_EQ(other.Look().value("standing", ""), "waiting");
      EXPECT_NCCL(hzBurnTickets(all));
      const TestAgent late(agent_at, kJob, ticket, 1);
      late.Await([](const json& seen) {
        return seen.at("problem").is_string() &&
               seen["problem"].get<std::string>().find("burnt") != std::string::npos;
      });
    }
    Meet(all);
    EXPECT_NCCL(ncclCommDestroy(all));
  });
}

// Two users: the other one neither joins with a ticket that it has seen, nor sees or ends the
// agent.
TEST(Agents, AreNothingToAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  TestCluster cluster(2);
  for (const int host : {0, 1}) {
    ASSERT_EQ(chmod(cluster.daemon(host).folder().c_str(), 0755), 0);
  }
  const std::string ranks_at = cluster.daemon(0).socket_path();
  const std::string agent_at = cluster.daemon(1).socket_path();
  RunJob(&cluster, {0, 0}, [&](int rank, ncclComm_t all) {
    if (rank == 0) {
      const std::string ticket = TicketOf(all);
      const TestAgent agent(agent_at, kJob, ticket, 2);
      agent.AwaitAttached(2);
      const pid_t bob = StartAs(kBob, [&] {
        EXPECT_EQ(Call(agent_at, "GET", "/v1/agents").second.at("agents").size(), 0U);
        EXPECT_EQ(Call(ranks_at, "GET", "/v1/agents").second.at("elsewhere").size(), 0U);
        const std::string path = "/v1/agents/" + agent.id();
        for (const char* const method : {"GET", "DELETE"}) {
          EXPECT_EQ(Call(agent_at, method, path).first, 404) << method;
        }
        EXPECT_EQ(Call(agent_at, "PUT", path, {{"places", 0}}).first, 404);
        const TestAgent thief(agent_at, kJob, ticket, 2);
        thief.Await([](const json& seen) {
          return seen.at("problem").is_string() &&
                 seen["problem"].get<std::string>().find("not valid") != std::string::npos;
        });
        EXPECT_EQ(thief.Look().value("ranks", -1), 0);
        // One user cannot fill the daemon with agents.
        int added = 0;
        while (TestAgent(agent_at, "job " + std::to_string(added), "", 1).status() == 201) ++added;
        EXPECT_LE(added, 64);
        // Nor can it have daemons tell each other of agents that come and go without end.
        EXPECT_EQ(Call(agent_at, "DELETE", "/v1/agents/" + thief.id()).first, 200);
        Answer refused;
        EXPECT_TRUE(Eventually(kAgentWait, [&] {
          refused = Call(agent_at, "POST", "/v1/agents", {{"job", "again"}, {"places", 1}});
          if (refused.first == 201) {
            Call(agent_at, "DELETE", "/v1/agents/" + refused.second.value("id", ""));
          }
          return JsonText(refused.second).find("register agents too often") != std::string::npos;
        }));
        EXPECT_EQ(refused.first, 429) << refused.second;
        return ::testing::Test::HasFailure() ? 1 : 0;
      });
      EXPECT_EQ(StatusOf(bob), 0);
      EXPECT_EQ(agent.Look().value("places", 0), 2);
      EXPECT_EQ(TestAgent(agent_at, "mine", "", 1).status(), 201);
    }
    Meet(all);
    EXPECT_NCCL(ncclCommDestroy(all));
  });
}

}  // namespace
}  // namespace harmonaize::testing
