// `harmonaize offers` and `harmonaize offer` against a real daemon.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "include/harmonaize.h"
#include "src/base/json_text.h"
#include "tests/integration/command_on_job.h"
#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

class OfferCommandTest : public CommandOnJobTest {
 protected:
  Ended Run(const std::vector<std::string>& words) { return RunOnJob(words); }
  /// Runs `harmonaize offer`, which has to succeed, and returns the offer.
  json Offer(std::vector<std::string> words) {
    words.insert(words.begin(), "offer");
    words.push_back("--json");
    const Ended ended = Run(words);
    EXPECT_EQ(ended.status, 0) << ended.error;
    return ReadJson(ended.output);
  }
};

TEST_F(OfferCommandTest, AnOfferIsMadeListedCounteredAndTaken) {
  const json made = Offer({"make", "llama", "grow", "--ranks", "4", "--within", "10min",
                           "--purpose", "free places", "--price", "0.5"});
  const std::string id = made.value("id", "");
  const Ended listed = Run({"offers"});
  ExpectHolds(listed.output, id);
  ExpectHolds(listed.output, "purpose: free places");
  ExpectHolds(listed.output, "0.5 credits");
  EXPECT_EQ(Offer({"counter", id, "--ranks", "2", "--reason", "two are enough"}).at("state"),
            "countered");
  ExpectHolds(Run({"offers", "--job", "llama"}).output, "the job asks for 2 ranks");
  const json taken = Offer({"take", id.substr(0, 14)});
  EXPECT_EQ(taken.at("state"), "accepted");
  EXPECT_EQ(taken.at("ranks"), 2);
  ExpectHolds(Run({"promises"}).output, id);
  ExpectHolds(Run({"promises"}).output, "  open\n");
  EXPECT_EQ(Offer({"withdraw", id, "--reason", "a host has failed"}).at("broken_by"), "provider");
  const json promised = ReadJson(Run({"promises", "--json"}).output);
  EXPECT_EQ(promised.at("promises"), json::array());
  EXPECT_EQ(promised.at("offers").at(0).at("state"), "broken");
  EXPECT_EQ(Run({"offers"}).output, "no offers\n");
  ExpectHolds(Run({"offers", "--all"}).output, "broken by the provider");
}

TEST_F(OfferCommandTest, OneThatIsDeclinedIsNotMadeAgainUnlessOneInsists) {
  const std::string id =
      Offer({"make", "llama", "slow_down", "--rate", "100 MB/s", "--within", "10min"})
          .value("id", "");
  ExpectHolds(Run({"offers"}).output, "at most 100 MB/s");
  const Ended declined = Run({"offer", "decline", id, "--not-again", "1h"});
  EXPECT_EQ(declined.status, 0) << declined.error;
  ExpectHolds(declined.output, "declined");
  const std::vector<std::string> again = {"offer",  "make",   "llama",    "slow_down",
                                          "--rate", "1 GB/s", "--within", "10min"};
  const Ended refused = Run(again);
  EXPECT_EQ(refused.status, 1);
  ExpectHolds(refused.error, "--insist");
  std::vector<std::string> insists = again;
  insists.push_back("--insist");
  EXPECT_EQ(Run(insists).status, 0);
}

TEST_F(OfferCommandTest, AnOfferIsKeptToAndReplacedByAnother) {
  const std::string id = Offer({"make", "llama", "grow", "--ranks", "4", "--within", "10min",
                                "--later", "1h", "--price", "2"})
                             .value("id", "");
  Offer({"counter", id, "--price", "1", "--later", "2h", "--ranks", "3"});
  ExpectHolds(Run({"offers"}).output, "take " + id + ", or keep, or propose\n");
  const json kept = Offer({"keep", id, "--reason", "others pay that"});
  EXPECT_EQ(kept.at("state"), "offered");
  EXPECT_EQ(kept.at("price"), 2);
  ExpectHolds(Run({"offers"}).output, "reason: others pay that\n");
  const json proposed = Offer({"propose", id, "--ranks", "3", "--within", "20min"});
  EXPECT_EQ(proposed.at("ranks"), 3);
  EXPECT_EQ(proposed.at("price"), 2) << "what is not named stays";
  EXPECT_EQ(Offer({"accept", id}).at("state"), "accepted");
}

TEST_F(OfferCommandTest, JobsAreFoundByTheBeginningOfTheirIdsThatTablesShow) {
  const json jobs = ReadJson(Run({"jobs", "--json"}).output);
  const std::string job = jobs.at("jobs").at(0).at("id").get<std::string>().substr(0, 8);
  const json made = Offer({"make", job, "grow", "--within", "10min"});
  EXPECT_EQ(made.at("job_name"), "llama");
  ExpectHolds(Run({"offers", "--job", job}).output, made.at("id"));
  EXPECT_EQ(Run({"offers", "--job", "other"}).output, "no offers\n");
}

TEST_F(OfferCommandTest, MistakesAreNamed) {
  const auto expect = [&](int status, const std::vector<std::string>& words,
                          const std::string& text) {
    const Ended ended = Run(words);
    EXPECT_EQ(ended.status, status) << ended.error;
    ExpectHolds(ended.error, text);
  };
  expect(2, {"offer", "make", "llama", "grow"}, "--within");
  expect(2, {"offer", "make", "llama", "party", "--within", "9s"}, "party");
  expect(2, {"offer", "make", "llama", "grow", "--within", "soon"}, "soon");
  expect(2, {"offer", "accept"}, "OFFER");
  expect(2, {"offer", "make", "llama", "grow", "--within", "9s", "--deadline", "2099-01-01 00:00"},
         "--within excludes --deadline");
  expect(
      2,
      {"offer", "counter", "offer-0123456789abcdef", "--later", "9s", "--due", "2099-01-01 00:00"},
      "--later excludes --due");
  expect(1, {"offer", "make", "llama", "grow", "--within", "9s", "--must"},
         "a grow can be refused");
  expect(1, {"offer", "accept", "offer-0123456789abcdef"}, "there is no offer");
  expect(1, {"offer", "make", "nobodys", "grow", "--within", "9s"}, "no such job");
  expect(1, {"offer", "make", "llama", "reclaim", "--which", "7", "--within", "9s"}, "rank 7");
}

}  // namespace
}  // namespace harmonaize::testing
