// Offers to jobs: made at the host that they concern, answered at any host of the job, and kept by
// what the ranks do.

#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "harmonaize.h"
#include "src/base/json_text.h"
#include "src/ipc/operator_socket.h"
#include "tests/integration/restarting_daemon.h"
#include "tests/support/cluster.h"
#include "tests/support/daemon_http.h"
#include "tests/support/eventually.h"
#include "tests/support/hosts_case.h"
#include "tests/support/rank_runner.h"
#include "tests/support/shared_by_processes.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

/// Longest wait for something that takes milliseconds, in seconds.
constexpr double kLongestWait = 20;

Answer AskTenants(const std::string& socket, const std::string& method, const std::string& target,
                  const json& body = nullptr) {
  return Ask(socket, {.method = method,
                      .target = target,
                      .body = body.is_null() ? std::string() : JsonText(body)});
}

Answer AskOperators(const std::string& socket, const std::string& target, const json& body) {
  return AskTenants(OperatorSocketPath(socket), "POST", target, body);
}

/// Makes an offer to the job "elastic". Returns its id.
std::string MakeOffer(const std::string& socket, json order) {
  order["job"] = "elastic";
  const Answer made = AskOperators(socket, "/v1/offers", order);
  EXPECT_EQ(made.first, 200) << made.second;
  return made.second.value("id", "");
}

/// Returns a field of an offer as a daemon knows it; "" where it knows none.
std::string FieldOf(const std::string& socket, const std::string& id, const char* field) {
  const Answer offer = AskTenants(socket, "GET", "/v1/offers/" + id);
  return offer.first == 200 ? offer.second.value(field, "") : "";
}

std::string StateOf(const std::string& socket, const std::string& id) {
  return FieldOf(socket, id, "state");
}

/// Returns the id of the one offer that a daemon knows; "" if it knows none.
std::string OnlyOffer(const std::string& socket) {
  const Answer offers = AskTenants(socket, "GET", "/v1/offers?job=elastic");
  if (offers.first != 200 || offers.second.at("offers").empty()) return "";
  return offers.second.at("offers").at(0).at("id");
}

std::string OwnSocket() {
  return getenv("HARMONAIZE_SOCKET");
}

/// Waits until all ranks of a communicator say so.
bool AllAgree(ncclComm_t all, bool yes) {
  float votes = yes ? 0 : 1;
  EXPECT_NCCL(ncclAllReduce(&votes, &votes, 1, ncclFloat, ncclSum, all, nullptr));
  return votes == 0;
}

/// Time between a rank's questions: the ranks of a host may ask 50 in a second together.
constexpr std::chrono::milliseconds kBetweenQuestions{100};

/// Goes on with all-reduces until every rank's condition holds.
void WorkUntil(ncclComm_t all, const std::function<bool()>& holds) {
  EXPECT_TRUE(Eventually(kLongestWait, [&] {
    std::this_thread::sleep_for(kBetweenQuestions);
    const bool mine = holds();
    return AllAgree(all, mine);
  }));
}

/// Runs `body` for each rank of the job "elastic", with a communicator that all ranks have used:
/// all hosts know the job then. `body` ends the communicator. Failures are gtest's.
void RunElastic(TestCluster* cluster, const std::vector<int>& host_of_rank,
                const std::function<void(int rank, ncclComm_t all)>& body) {
  HostedRanks ranks(cluster, host_of_rank);
  ranks.Start([&](int rank) {
    setenv("HARMONAIZE_JOB", "elastic", 1);
    ncclComm_t all = ranks.Join(rank);
    EXPECT_EQ(CountRanks(all), ranks.ranks());
    body(rank, all);
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

std::set<std::string> TypesOfEvents(const std::string& socket) {
  const Answer page = AskTenants(socket, "GET", "/v1/events?types=capacity.*,offer.*,allocation.*");
  std::set<std::string> types;
  for (const json& event : page.second.at("events")) types.insert(event.at("type"));
  return types;
}

// The offer is made at host 1 and accepted at host 0; the rank at host 1 leaves.
TEST(Offers, AReclaimIsAcceptedAtAnotherHostAndFulfilledOnceTheRankHasLeft) {
  TestCluster cluster(3);
  const std::string maker = cluster.daemon(1).socket_path();
  RunElastic(&cluster, {0, 1, 2, 1}, [&](int rank, ncclComm_t all) {
    if (rank == 0) {
      MakeOffer(maker, {{"kind", "reclaim"}, {"which", {3}}, {"within_seconds", 60}});
    }
    WorkUntil(all, [&] { return !OnlyOffer(OwnSocket()).empty(); });
    const std::string id = OnlyOffer(OwnSocket());
    if (rank == 0) {
      const Answer accepted = AskTenants(OwnSocket(), "POST", "/v1/offers/" + id + "/accept");
      EXPECT_EQ(accepted.first, 200) << accepted.second;
      EXPECT_EQ(accepted.second.value("state", ""), "accepted");
    }
    WorkUntil(all, [&] { return StateOf(OwnSocket(), id) == "accepted"; });
    if (rank == 3) {
      EXPECT_NCCL(ncclCommDestroy(all));
      return;
    }
    int excluded[] = {3};
    ncclComm_t rest = nullptr;
    EXPECT_NCCL(ncclCommShrink(all, excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));
    EXPECT_NCCL(ncclCommDestroy(all));
    EXPECT_EQ(CountRanks(rest), 3);
    WorkUntil(rest, [&] { return StateOf(OwnSocket(), id) == "fulfilled"; });
    const std::set<std::string> types = TypesOfEvents(OwnSocket());
    for (const char* type :
         {"capacity.reclaim", "capacity.reclaimed", "offer.changed", "allocation.changed"}) {
      EXPECT_TRUE(types.contains(std::string("io.harmonaize.") + type)) << rank << type;
    }
    // Nobody can answer what has ended.
    const Answer late = AskTenants(OwnSocket(), "POST", "/v1/offers/" + id + "/decline");
    EXPECT_EQ(late.first, 409) << late.second;
    EXPECT_NCCL(ncclCommDestroy(rest));
  });
}

// All ranks answer at the same time, each in its own way: one answer counts, and all hear of it.
TEST(Offers, OfAnswersThatMeetOneCountsAtAllHosts) {
  TestCluster cluster(3);
  const std::string maker = cluster.daemon(1).socket_path();
  RunElastic(&cluster, {0, 1, 2}, [&](int rank, ncclComm_t all) {
    for (int round = 0; round < 10; ++round) {
      if (rank == 0) MakeOffer(maker, {{"kind", "grow"}, {"ranks", 3}, {"within_seconds", 60}});
      WorkUntil(all, [] {
        const std::string id = OnlyOffer(OwnSocket());
        return !id.empty() && StateOf(OwnSocket(), id) == "offered";
      });
      const std::string id = OnlyOffer(OwnSocket());
      const char* const verb = rank == 2 ? "/accept" : "/decline";
      const Answer answer = AskTenants(OwnSocket(), "POST", "/v1/offers/" + id + verb);
      const bool counts = answer.first == 200;
      EXPECT_TRUE(counts || answer.first == 409) << answer.first << answer.second;
      // An acceptance that counts is not taken back by anybody, nor the other way round.
      float told[2] = {counts && rank == 2 ? 1.0f : 0.0f, counts && rank != 2 ? 1.0f : 0.0f};
      EXPECT_NCCL(ncclAllReduce(told, told, 2, ncclFloat, ncclMax, all, nullptr));
      EXPECT_EQ(told[0] + told[1], 1) << "one of the two has happened";
      const std::string end = told[0] == 1 ? "accepted" : "declined";
      WorkUntil(all, [&] { return StateOf(OwnSocket(), id) == end; });
      if (rank == 0 && end == "accepted") {
        const Answer off = AskOperators(maker, "/v1/offers/" + id + "/withdraw", json::object());
        EXPECT_EQ(off.second.value("state", ""), "broken");
        EXPECT_EQ(off.second.value("broken_by", ""), "provider");
      }
      WorkUntil(all, [&] { return StateOf(OwnSocket(), id) != "accepted"; });
    }
    EXPECT_NCCL(ncclCommDestroy(all));
  });
}

// A host that the job comes to after the offer was made knows it, too, and may answer.
TEST(Offers, AHostThatComesLaterIsToldAndMayAnswer) {
  TestCluster cluster(3);
  const std::string maker = cluster.daemon(0).socket_path();
  HostedRanks ranks(&cluster, {0, 1, 2});
  ranks.Start([&](int rank) {
    setenv("HARMONAIZE_JOB", "elastic", 1);
    ncclComm_t first = nullptr;
    if (rank < 2) {
      const ncclUniqueId id = ranks.ShareId(1, rank == 0);
      EXPECT_NCCL(ncclCommInitRank(&first, 2, id, rank));
      EXPECT_EQ(CountRanks(first), 2);
      if (rank == 0) MakeOffer(maker, {{"kind", "grow"}, {"ranks", 2}, {"within_seconds", 60}});
    }
    ncclComm_t all = ranks.Join(rank);
    EXPECT_EQ(CountRanks(all), ranks.ranks());
    WorkUntil(all, [] { return !OnlyOffer(OwnSocket()).empty(); });
    const std::string id = OnlyOffer(OwnSocket());
    if (rank == 2) {
      const Answer countered =
          AskTenants(OwnSocket(), "POST", "/v1/offers/" + id + "/counter", {{"ranks", 1}});
      EXPECT_EQ(countered.second.value("state", ""), "countered") << countered.second;
    }
    WorkUntil(all, [&] { return StateOf(OwnSocket(), id) == "countered"; });
    if (rank == 0) {
      const Answer taken = AskOperators(maker, "/v1/offers/" + id + "/take", json::object());
      EXPECT_EQ(taken.second.value("ranks", 0), 1) << taken.second;
    }
    WorkUntil(all, [&] { return StateOf(OwnSocket(), id) == "accepted"; });
    if (first != nullptr) {
      EXPECT_NCCL(ncclCommDestroy(first));
    }
    EXPECT_NCCL(ncclCommDestroy(all));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

// The same in C: a rank hears of the offer, asks for something else, and hears what becomes of it.
TEST(Offers, AreHeardAndAnsweredInC) {
  TestCluster cluster(2);
  const std::string maker = cluster.daemon(0).socket_path();
  RunElastic(&cluster, {0, 1}, [&](int rank, ncclComm_t all) {
    hzOffer_t offer;
    EXPECT_EQ(hzNextOffer(all, 0, &offer), ncclInProgress);
    EXPECT_EQ(CountRanks(all), 2);
    if (rank == 0) {
      MakeOffer(maker, {{"kind", "grow"},
                        {"ranks", 4},
                        {"least_ranks", 2},
                        {"within_seconds", 60},
                        {"purpose", "free places"}});
    }
    EXPECT_NCCL(hzNextOffer(all, 20'000, &offer));
    const std::string id = offer.id;
    EXPECT_STREQ(offer.kind, "grow");
    EXPECT_STREQ(offer.state, "offered");
    EXPECT_EQ(offer.ranks, 4);
    EXPECT_EQ(offer.can_be_refused, 1);
    EXPECT_EQ(ReadJson(offer.json).at("purpose"), "free places");
    EXPECT_EQ(CountRanks(all), 2);
    if (rank == 1) {
      hzOfferTerms_t terms = HZ_OFFER_TERMS_INITIALIZER;
      terms.ranks = 600;
      EXPECT_EQ(hzAnswerOffer(id.c_str(), hzCounter, &terms), ncclInvalidArgument);
      terms.ranks = 3;
      EXPECT_NCCL(hzAnswerOffer(id.c_str(), hzCounter, &terms));
      EXPECT_EQ(hzAnswerOffer(id.c_str(), hzDecline, nullptr), ncclInvalidUsage);
      EXPECT_MENTIONS(nullptr, "accepted already");
      EXPECT_EQ(hzAnswerOffer("offer-0123456789abcdef", hzAccept, nullptr), ncclInvalidUsage);
      EXPECT_EQ(hzAnswerOffer(nullptr, hzAccept, nullptr), ncclInvalidArgument);
    }
    EXPECT_NCCL(hzNextOffer(all, 20'000, &offer));
    EXPECT_EQ(offer.id, id);
    EXPECT_STREQ(offer.state, "accepted") << "three are within the provider's concession";
    EXPECT_EQ(offer.ranks, 3);
    EXPECT_NCCL(ncclCommDestroy(all));
  });
}

// A job that has said how it answers is not asked, and a rank that does not leave is ended.
TEST(Offers, ARankThatHasAgreedToLeaveAndStaysIsEnded) {
  TestCluster cluster(2);
  const std::string maker = cluster.daemon(1).socket_path();
  RunElastic(&cluster, {0, 1}, [&](int rank, ncclComm_t all) {
    if (rank == 0) {
      EXPECT_NCCL(hzSetRequirements(all, "[elastic]\nleast_ranks = 1\noffers = 'accept'"));
      EXPECT_TRUE(Eventually(kLongestWait, [&] {
        const Answer granted = AskTenants(maker, "GET", "/v1/jobs/elastic/granted");
        return granted.second.at("values").contains("elastic.offers");
      }));
      const std::string id = MakeOffer(
          maker, {{"kind", "reclaim"}, {"which", {1}}, {"within_seconds", 2}, {"enforced", true}});
      EXPECT_EQ(StateOf(maker, id), "accepted");
      EXPECT_TRUE(Eventually(kLongestWait, [&] { return StateOf(maker, id) == "broken"; }));
      EXPECT_EQ(FieldOf(maker, id, "broken_by"), "tenant");
    }
    // Rank 1 waits for the other one, and is ended meanwhile.
    float data = 1;
    EXPECT_EQ(ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, all, nullptr), ncclRemoteError);
    EXPECT_NCCL(ncclCommAbort(all));
  });
}

// The job names another rank than was asked for, and that one stays, too.
TEST(Offers, OfRanksThatTheJobHasNamedInsteadTheseAreEnded) {
  TestCluster cluster(2);
  const std::string maker = cluster.daemon(1).socket_path();
  RunElastic(&cluster, {0, 1, 1}, [&](int rank, ncclComm_t all) {
    if (rank == 0) {
      const std::string id = MakeOffer(
          maker, {{"kind", "reclaim"}, {"which", {2}}, {"within_seconds", 60}, {"enforced", true}});
      const std::string target = "/v1/offers/" + id;
      const Answer absent = AskTenants(maker, "POST", target + "/counter", {{"which", {0}}});
      EXPECT_EQ(absent.first, 400) << absent.second;
      const Answer too_many = AskTenants(maker, "POST", target + "/counter", {{"ranks", 3}});
      EXPECT_EQ(too_many.first, 400) << too_many.second;
      const Answer elsewhere = AskOperators(maker, target + "/propose", {{"which", {0}}});
      EXPECT_EQ(elsewhere.first, 400) << elsewhere.second;
      EXPECT_EQ(StateOf(maker, id), "offered") << "what is refused changes nothing";
      // To the provider it makes no difference which rank leaves.
      const Answer other = AskTenants(maker, "POST", target + "/counter",
                                      {{"which", {1}}, {"due_within_seconds", 3}});
      EXPECT_EQ(other.second.value("state", ""), "accepted") << other.second;
      EXPECT_TRUE(Eventually(kLongestWait, [&] { return StateOf(maker, id) == "broken"; }));
    }
    float data = 1;
    EXPECT_EQ(ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, all, nullptr), ncclRemoteError);
    const std::string why = ncclGetLastError(all);
    EXPECT_TRUE(rank == 1 || why.find("rank 1") != std::string::npos) << why;
    EXPECT_NCCL(ncclCommAbort(all));
  });
}

// Maintenance that ends what runs at a host is a reclaim for a job that is elastic, and for no
// other. A job that has agreed to send less does so.
TEST(Offers, AnAnnouncementAsksElasticJobsForTheirRanks) {
  TestCluster cluster(2);
  const std::string maker = cluster.daemon(1).socket_path();
  RunElastic(&cluster, {0, 1}, [&](int rank, ncclComm_t all) {
    const auto announce = [&](json notice) {
      const Answer told = AskOperators(maker, "/v1/hosts/this/maintenance", std::move(notice));
      EXPECT_EQ(told.first, 200) << told.second;
      return told.second.value("id", "");
    };
    if (rank == 0) {
      announce({{"not_before", "2099-01-01T00:00:00Z"}});
      EXPECT_EQ(OnlyOffer(maker), "") << "the job has said nothing in [elastic]";
      EXPECT_NCCL(hzSetRequirements(all, "[elastic]\nleast_ranks = 1"));
      EXPECT_TRUE(Eventually(kLongestWait, [&] {
        const Answer granted = AskTenants(maker, "GET", "/v1/jobs/elastic/granted");
        return granted.second.at("values").contains("elastic.least_ranks");
      }));
      const auto in_an_hour = static_cast<int64_t>(time(nullptr) + 3600);
      char text[32] = {};
      tm parts{};
      gmtime_r(&in_an_hour, &parts);
      strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
      const std::string notice = announce({{"not_before", text}, {"kind", "reclaim"}});
      const std::string id = OnlyOffer(maker);
      EXPECT_NE(id, "");
      EXPECT_EQ(FieldOf(maker, id, "announcement"), notice);
      EXPECT_TRUE(Eventually(kLongestWait, [&] { return StateOf(OwnSocket(), id) == "offered"; }));
      EXPECT_EQ(AskTenants(OwnSocket(), "POST", "/v1/offers/" + id + "/decline").first, 409);
      announce({{"id", notice}, {"state", "withdrawn"}});
      EXPECT_TRUE(Eventually(kLongestWait, [&] { return StateOf(maker, id) == "withdrawn"; }));
    }
    EXPECT_EQ(CountRanks(all), 2);
    EXPECT_NCCL(ncclCommDestroy(all));
  });
}

TEST(Offers, AJobThatHasAgreedToSendLessHasThatCapUntilTheEnd) {
  TestCluster cluster(2);
  const std::string maker = cluster.daemon(1).socket_path();
  RunElastic(&cluster, {0, 1}, [&](int rank, ncclComm_t all) {
    if (rank == 1) {
      const auto cap = [&] {
        return AskTenants(maker, "GET", "/v1/jobs/elastic/granted")
            .second.at("values")
            .value("collectives.bandwidth_cap", "");
      };
      const std::string id = MakeOffer(
          maker, {{"kind", "slow_down"}, {"bytes_per_second", 2e6}, {"within_seconds", 4}});
      EXPECT_EQ(cap(), "");
      EXPECT_EQ(AskTenants(maker, "POST", "/v1/offers/" + id + "/accept").first, 200);
      EXPECT_EQ(cap(), "2 MB/s");
      EXPECT_TRUE(Eventually(kLongestWait, [&] { return StateOf(maker, id) == "fulfilled"; }));
      EXPECT_EQ(cap(), "");
    }
    EXPECT_EQ(CountRanks(all), 2);
    EXPECT_NCCL(ncclCommDestroy(all));
  });
}

// What was agreed is known to the next daemon, however the first one ended.
TEST(Offers, SurviveACrashOfTheDaemon) {
  RestartingDaemon daemon;
  setenv("HARMONAIZE_JOB", "elastic", 1);
  ncclUniqueId unique;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&unique), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&comm, 1, unique, 0), ncclSuccess);
  const std::string id =
      MakeOffer(daemon.socket(), {{"kind", "grow"}, {"ranks", 2}, {"within_seconds", 600}});
  const Answer accepted = AskTenants(daemon.socket(), "POST", "/v1/offers/" + id + "/accept");
  ASSERT_EQ(accepted.first, 200) << accepted.second;
  daemon.Crash();
  EXPECT_EQ(StateOf(daemon.socket(), id), "accepted");
  EXPECT_EQ(AskTenants(daemon.socket(), "GET", "/v1/offers/" + id).second.at("deadline"),
            accepted.second.at("deadline"));
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

// What belongs to nobody, or cannot be, is refused with the way out.
TEST(Offers, WhatCannotBeIsRefused) {
  TestCluster cluster(2);
  const std::string maker = cluster.daemon(0).socket_path();
  RunOnHosts(&cluster, {0, 1}, [&](int rank, ncclComm_t all) {
    EXPECT_EQ(CountRanks(all), 2);
    if (rank == 0) {
      const auto refused = [&](int status, const json& order, const std::string& why) {
        const Answer answer = AskOperators(maker, "/v1/offers", order);
        EXPECT_EQ(answer.first, status) << answer.second;
        EXPECT_NE(answer.second.value("detail", "").find(why), std::string::npos) << answer.second;
      };
      const std::string job = AskTenants(maker, "GET", "/v1/jobs").second.at("jobs").at(0).at("id");
      refused(404, {{"job", "nobodys"}, {"kind", "grow"}, {"within_seconds", 9}}, "no such job");
      refused(400, {{"job", job}, {"kind", "shrink"}, {"within_seconds", 9}}, "'kind' is grow");
      refused(400, {{"job", job}, {"kind", "grow"}}, "'within_seconds'");
      refused(400, {{"job", job}, {"kind", "reclaim"}, {"which", {1}}, {"within_seconds", 9}},
              "rank 1 of job");
      refused(400, {{"job", job}, {"kind", "reclaim"}, {"ranks", 2}, {"within_seconds", 9}},
              "cannot leave");
      refused(400,
              {{"job", job}, {"kind", "grow"}, {"within_seconds", 9}, {"can_be_refused", false}},
              "a grow can be refused");
      refused(400,
              {{"job", job},
               {"kind", "slow_down"},
               {"bytes_per_second", 1e9},
               {"within_seconds", 9},
               {"enforced", true}},
              "nothing of it is enforced");
      EXPECT_EQ(AskTenants(maker, "GET", "/v1/offers?state=opn").first, 400);
      // Tenants make no offers, not to themselves either: they may only read the list.
      EXPECT_EQ(AskTenants(maker, "POST", "/v1/offers",
                           {{"job", job}, {"kind", "grow"}, {"within_seconds", 9}})
                    .first,
                405);
      EXPECT_EQ(AskTenants(maker, "POST", "/v1/offers/offer-0123456789abcdef/accept").first, 404);
      EXPECT_EQ(AskTenants(maker, "POST", "/v1/offers/offer-0123456789abcdef/take").first, 404);
    }
    EXPECT_EQ(CountRanks(all), 2);
  });
}

}  // namespace
}  // namespace harmonaize::testing
