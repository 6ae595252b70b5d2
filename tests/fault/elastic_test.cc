// Communicators shrink, grow, are revoked, and lose ranks and whole daemons, at random and over and
// over, on several hosts: every call returns, whoever is left sums right after each step, ranks
// that were excluded may do what they like, and nothing piles up.
//
// HARMONAIZE_TEST_ROUNDS sets the number of steps (1000 for the full proof; the default keeps the
// suite short), HARMONAIZE_TEST_SEED the seed, which is printed.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "src/base/json_text.h"
#include "tests/support/cluster.h"
#include "tests/support/puppet_rank.h"
#include "tests/support/random_programme.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

constexpr int kDefaultSteps = kSanitized ? 30 : 250;
constexpr int kHosts = 4;
/// The host whose daemon is never killed, so that it shows what piles up.
constexpr int kWitness = 3;
/// Most ranks of the job. More would only take longer on a machine with few processors.
constexpr size_t kMostRanks = 9;
/// Most ranks that were excluded and have not ended.
constexpr size_t kMostStrays = 5;
/// Whatever has not returned within this time hangs: some times what a formation may wait for a
/// rank that has died before it has applied.
constexpr std::chrono::seconds kHangs(kSanitized ? 90 : 30);
constexpr const char* kRanksConfig = kSanitized ? "[ranks]\nformation_timeout_seconds = 10\n"
                                                : "[ranks]\nformation_timeout_seconds = 3\n";

int Steps() {
  const char* given = std::getenv("HARMONAIZE_TEST_ROUNDS");
  return given == nullptr ? kDefaultSteps : std::atoi(given);
}

/// A puppet, where it is, its rank in its communicator, and in the one that forms.
struct Seat {
  std::unique_ptr<PuppetRank> puppet;
  int host = 0;
  int rank = 0;
  int next_rank = 0;
};

bool HasFailed() {
  return ::testing::Test::HasFailure();
}

/// A rank that was excluded.
struct Stray {
  Seat seat;
  bool stopped = false;
};

std::string StatusOf(DaemonProcess& daemon) {
  const Result<std::string> status = FetchDaemonStatus(daemon.socket_path());
  return status.ok() ? *status : status.status().message();
}

/// A job whose ranks are puppets, and what befalls it.
class ElasticJob {
 public:
  ElasticJob(TestCluster* cluster, uint32_t seed) : cluster_(cluster), random_(seed) {}

  /// Does one step; afterwards the ranks that are left have summed right.
  void Step(int number);
  /// Ends all ranks.
  void End();

 private:
  int Pick(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }
  bool Chance(int one_in) { return Pick(one_in) == 0; }
  int Size() const { return static_cast<int>(group_.size()); }
  void Note(const std::string& what);
  void Pause(int most_us);
  Seat NewSeat(int rank);

  std::optional<Outcome> Answer(Seat& seat, const std::string& what);
  bool AnswerWell(Seat& seat, const std::string& what);
  bool AllDo(const Command& command, const std::string& what);
  void ExpectFailure(Seat& seat, std::vector<ncclResult_t> results, const std::string& what);

  void Begin();
  void KillRanks();
  void KillDaemon();
  void ShrinkAtWill();
  void Grow();
  void RevokeOrSplit();

  void LetWork(const std::vector<int>& lost, bool revokes = false);
  std::vector<Seat> TakeOut(const std::vector<int>& places);
  std::vector<int> PickPlaces(int count);
  void KillNow(std::vector<Seat>* victims);
  Command ShrinkCommand(bool aborts) const;
  void Shrink(bool aborts);
  void LoseOneWhileForming();
  bool AllFormed(const std::string& what);
  void DropNext();
  void TakeNext();
  void SumAndGoOn();
  void Sum();
  void LetStray(Seat seat, bool parent_lives);
  void EndStray();
  void EndSeat(Seat* seat, const std::string& what);

  TestCluster* const cluster_;
  std::mt19937 random_;
  std::vector<Seat> group_;  // those that live, by rank in their communicator
  int ranks_ = 0;            // of that communicator, with those that are lost
  int next_ranks_ = 0;       // of the communicator that forms
  std::vector<Stray> strays_;
  std::string story_;
};

void ElasticJob::Note(const std::string& what) {
  story_ += what + "; ";
}

void ElasticJob::Pause(int most_us) {
  std::this_thread::sleep_for(std::chrono::microseconds(Pick(most_us)));
}

Seat ElasticJob::NewSeat(int rank) {
  const int host = Pick(kHosts);
  return {std::make_unique<PuppetRank>(cluster_->daemon(host).socket_path()), host, rank, rank};
}

std::optional<Outcome> ElasticJob::Answer(Seat& seat, const std::string& what) {
  // After a failure nothing is as expected, and nobody waits for more of it.
  std::optional<Outcome> outcome =
      seat.puppet->Answer(HasFailed() ? std::chrono::seconds(0) : kHangs);
  if (outcome.has_value() || HasFailed()) return outcome;
  std::string states;
  for (int host = 0; host < kHosts; ++host) states += StatusOf(cluster_->daemon(host)) + "\n";
  ADD_FAILURE() << what << ": rank " << seat.rank << " at host " << seat.host << " (process "
                << seat.puppet->process() << ") does not return\n"
                << states;
  if (std::getenv("HARMONAIZE_TEST_HOLDS") != nullptr) {
    std::this_thread::sleep_for(std::chrono::seconds(600));
  }
  return std::nullopt;
}

bool ElasticJob::AnswerWell(Seat& seat, const std::string& what) {
  const std::optional<Outcome> outcome = Answer(seat, what);
  if (!outcome.has_value()) return false;
  EXPECT_EQ(outcome->result, ncclSuccess) << what << ": rank " << seat.rank << " at host "
                                          << seat.host << ": " << outcome->error.data();
  return outcome->result == ncclSuccess;
}

void ElasticJob::ExpectFailure(Seat& seat, std::vector<ncclResult_t> results,
                               const std::string& what) {
  const std::optional<Outcome> outcome = Answer(seat, what);
  if (!outcome.has_value()) return;
  EXPECT_NE(std::find(results.begin(), results.end(), outcome->result), results.end())
      << what << ": rank " << seat.rank << " at host " << seat.host << ": result "
      << outcome->result << ", " << outcome->error.data();
}

bool ElasticJob::AllDo(const Command& command, const std::string& what) {
  for (Seat& seat : group_) seat.puppet->Tell(command);
  bool well = true;
  for (Seat& seat : group_) well = AnswerWell(seat, what) && well;
  return well;
}

// ---------------------------------------------------------------------------------------------
// Sums

void ElasticJob::Sum() {
  constexpr int kElements[] = {1, 100, 5'000, 300'000};
  Command command{.act = Act::kSum, .elements = kElements[Pick(4)], .seed = Pick(1'000'000)};
  command.ranks = Size();
  for (int rank = 0; rank < Size(); ++rank) {
    command.rank = rank;
    group_[static_cast<size_t>(rank)].puppet->Tell(command);
  }
  for (Seat& seat : group_) AnswerWell(seat, "a sum");
}

void ElasticJob::TakeNext() {
  AllDo({.act = Act::kTakeNext, .aborts = Chance(2)}, "the end of the parent");
  ranks_ = next_ranks_;
  for (Seat& seat : group_) seat.rank = seat.next_rank;
}

// The communicator that has formed takes the place of the one before.
void ElasticJob::SumAndGoOn() {
  Sum();
  TakeNext();
  Sum();
}

// ---------------------------------------------------------------------------------------------
// Steps

void ElasticJob::Step(int number) {
  story_ = fmt::format("step {}, {} ranks: ", number, Size());
  SCOPED_TRACE(fmt::format("step {}", number));
  const int dice = Pick(20);
  if (group_.empty()) {
    Begin();
  } else if (Size() == 1 || (dice < 6 && group_.size() < kMostRanks)) {
    Grow();
  } else if (dice < 12) {
    KillRanks();
  } else if (dice < 16) {
    ShrinkAtWill();
  } else if (dice < 18) {
    RevokeOrSplit();
  } else {
    KillDaemon();
  }
  if (strays_.size() > kMostStrays || (!strays_.empty() && Chance(3))) EndStray();
  if (HasFailed()) std::printf("%s\n", story_.c_str());
}

void ElasticJob::Begin() {
  const int ranks = 1 + Pick(6);
  Note(fmt::format("{} ranks begin", ranks));
  ranks_ = 0;
  for (int rank = 0; rank < ranks; ++rank) group_.push_back(NewSeat(rank));
  next_ranks_ = ranks;
  Seat& maker = group_[static_cast<size_t>(Pick(ranks))];
  maker.puppet->Tell({.act = Act::kMakeId});
  const std::optional<Outcome> made = Answer(maker, "an id");
  if (!made.has_value()) return;
  Command command{.act = Act::kJoin, .id = made->id, .ranks = ranks};
  for (Seat& seat : group_) {
    command.rank = seat.rank;
    seat.puppet->Tell(command);
  }
  if (Size() > 1 && Chance(4)) return LoseOneWhileForming();
  if (AllFormed("a start")) SumAndGoOn();
}

/// Returns places in the group, in order and each once, and leaves one out at least.
std::vector<int> ElasticJob::PickPlaces(int count) {
  std::vector<int> places;
  for (int place = 0; place < Size(); ++place) places.push_back(place);
  std::shuffle(places.begin(), places.end(), random_);
  places.resize(static_cast<size_t>(std::min(count, Size() - 1)));
  std::sort(places.begin(), places.end());
  return places;
}

std::vector<Seat> ElasticJob::TakeOut(const std::vector<int>& places) {
  std::vector<Seat> taken;
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    taken.push_back(std::move(group_[static_cast<size_t>(*place)]));
    group_.erase(group_.begin() + *place);
  }
  return taken;
}

void ElasticJob::KillNow(std::vector<Seat>* victims) {
  for (Seat& victim : *victims) victim.puppet->Kill();
  for (Seat& victim : *victims) victim.puppet->AwaitEnd();
}

// All work, those that will be lost as well; or all the others wait for one of these. `revokes`:
// instead of being lost, it revokes the communicator.
void ElasticJob::LetWork(const std::vector<int>& lost, bool revokes) {
  Command command{.act = Chance(3) ? Act::kWait : Act::kWork,
                  .work = static_cast<Work>(Pick(kWorks)),
                  .wait = static_cast<Wait>(Pick(kWaits))};
  // A revoked communicator can be split.
  if (revokes && command.work == Work::kSplits) command.work = Work::kMixed;
  if (revokes && command.wait == Wait::kSplit) command.wait = Wait::kGrowth;
  const bool waits = command.act == Act::kWait;
  command.quiet = group_[static_cast<size_t>(lost.front())].rank;
  Note(waits ? fmt::format("wait {}", static_cast<int>(command.wait))
             : fmt::format("work {}", static_cast<int>(command.work)));
  for (int place = 0; place < Size(); ++place) {
    const bool is_lost = std::find(lost.begin(), lost.end(), place) != lost.end();
    command.revokes_after_us = revokes && is_lost ? Pick(12'000) : -1;
    if (!waits || !is_lost) group_[static_cast<size_t>(place)].puppet->Tell(command);
  }
  if (!Chance(6)) Pause(12'000);
}

void ElasticJob::KillRanks() {
  const std::vector<int> places = PickPlaces(Chance(3) ? 1 + Pick(Size()) : 1);
  LetWork(places);
  std::vector<Seat> victims = TakeOut(places);
  for (const Seat& victim : victims) {
    Note(fmt::format("kill rank {} at host {}", victim.rank, victim.host));
  }
  KillNow(&victims);
  for (Seat& seat : group_) ExpectFailure(seat, {ncclRemoteError}, "after a kill");
  Shrink(!Chance(4));
}

void ElasticJob::KillDaemon() {
  const int host = Pick(kWitness);
  std::vector<int> places;
  for (int place = 0; place < Size(); ++place) {
    if (group_[static_cast<size_t>(place)].host == host) places.push_back(place);
  }
  Note(fmt::format("kill daemon {} with {} ranks", host, places.size()));
  if (places.empty()) {
    cluster_->daemon(host).Kill();
    Sum();
    return cluster_->Restart(host);
  }
  LetWork(places);
  cluster_->daemon(host).Kill();
  std::vector<Seat> lost = TakeOut(places);
  for (Seat& seat : lost) {
    // One that has not begun yet finds that there is no daemon for its stream.
    const std::vector<ncclResult_t> results = {ncclRemoteError, ncclSystemError};
    if (seat.puppet->owes_answer()) ExpectFailure(seat, results, "without the daemon");
  }
  for (Seat& seat : group_) ExpectFailure(seat, {ncclRemoteError}, "after the loss of a daemon");
  const bool restarts_first = Chance(2);
  if (restarts_first) cluster_->Restart(host);
  if (!group_.empty()) Shrink(!Chance(4));
  if (!restarts_first) cluster_->Restart(host);
  for (Seat& seat : lost) EndSeat(&seat, "the end without the daemon");
}

void ElasticJob::ShrinkAtWill() {
  const std::vector<int> places = PickPlaces(1 + Pick(Size()));
  std::vector<Seat> excluded = TakeOut(places);
  const bool aborts = Chance(2);
  Note(fmt::format("exclude {} ranks{}", excluded.size(), aborts ? " with an abort" : ""));
  const size_t strays_before = strays_.size();
  for (Seat& seat : excluded) LetStray(std::move(seat), !aborts);
  Shrink(aborts);
  // Nobody meets those any more who have posted something since.
  for (size_t i = strays_before; i < strays_.size(); ++i) {
    Seat& seat = strays_[i].seat;
    if (strays_[i].stopped || !seat.puppet->owes_answer()) continue;
    // It may have been revoked before.
    ExpectFailure(seat, {ncclRemoteError, ncclInvalidUsage}, "an excluded rank");
  }
}

// An excluded rank does nothing, is stopped, or goes on posting. If the parent lives, it posts what
// needs a rank that leaves: for a message of one that is excluded, too, it may wait as long as it
// likes.
void ElasticJob::LetStray(Seat seat, bool parent_lives) {
  const int way = Pick(4);
  Note(fmt::format("rank {} strays in way {}", seat.rank, way));
  if (way >= 2) {
    auto work = static_cast<Work>(Pick(kWorks));
    const bool has_messages = work == Work::kMessages || work == Work::kMixed;
    if (parent_lives && has_messages) work = Work::kWindowed;
    seat.puppet->Tell({.act = way == 2 ? Act::kWork : Act::kWait,
                       .work = work,
                       .wait = static_cast<Wait>(Pick(kWaits)),
                       .quiet = group_.front().rank});
  }
  if (way == 1) seat.puppet->Stop();
  strays_.push_back({std::move(seat), way == 1});
}

void ElasticJob::EndStray() {
  const auto place = strays_.begin() + Pick(static_cast<int>(strays_.size()));
  Stray stray = std::move(*place);
  strays_.erase(place);
  if (Chance(3)) return;  // killed, as it is
  if (stray.stopped) stray.seat.puppet->GoOn();
  EndSeat(&stray.seat, "the end of an excluded rank");
}

void ElasticJob::EndSeat(Seat* seat, const std::string& what) {
  seat->puppet->Tell({.act = Act::kEnd, .aborts = Chance(2)});
  AnswerWell(*seat, what);
}

void ElasticJob::RevokeOrSplit() {
  if (Size() > 1 && Chance(2)) {
    const int revoker = Pick(Size());
    Note(fmt::format("rank {} revokes", revoker));
    LetWork({revoker}, true);
    Seat& seat = group_[static_cast<size_t>(revoker)];
    if (!seat.puppet->owes_answer()) seat.puppet->Tell({.act = Act::kRevoke});
    for (Seat& each : group_) {
      const std::optional<Outcome> outcome = Answer(each, "after a revocation");
      if (!outcome.has_value()) return;
    }
    if (Chance(2)) return ShrinkAtWill();
  }
  Note("split");
  next_ranks_ = Size();
  for (Seat& seat : group_) seat.next_rank = seat.rank;
  if (AllDo({.act = Act::kSplit}, "a split")) SumAndGoOn();
}

// ---------------------------------------------------------------------------------------------
// Communicators that form

Command ElasticJob::ShrinkCommand(bool aborts) const {
  Command command{.act = Act::kShrink, .aborts = aborts};
  for (int rank = 0; rank < ranks_; ++rank) {
    const bool stays = std::any_of(group_.begin(), group_.end(),
                                   [rank](const Seat& seat) { return seat.rank == rank; });
    if (!stays) command.excluded[static_cast<size_t>(command.excluded_count++)] = rank;
  }
  return command;
}

// Leaves out all ranks that are lost or excluded; now and then one dies in the midst of it.
void ElasticJob::Shrink(bool aborts) {
  const Command command = ShrinkCommand(aborts);
  next_ranks_ = Size();
  for (int place = 0; place < Size(); ++place) {
    Seat& seat = group_[static_cast<size_t>(place)];
    seat.next_rank = place;
    seat.puppet->Tell(command);
  }
  Note("shrink");
  if (Size() > 1 && Chance(5)) return LoseOneWhileForming();
  if (AllFormed("a shrink")) SumAndGoOn();
}

void ElasticJob::Grow() {
  const int added = 1 + Pick(std::min(3, static_cast<int>(kMostRanks) - Size()));
  Note(fmt::format("grow by {}", added));
  Seat& maker = group_[static_cast<size_t>(Pick(Size()))];
  maker.puppet->Tell({.act = Act::kMakeGrowId});
  const std::optional<Outcome> made = Answer(maker, "an id for a growth");
  if (!made.has_value()) return;
  EXPECT_EQ(made->result, ncclSuccess) << made->error.data();
  next_ranks_ = Size() + added;
  Command command{.act = Act::kGrow, .id = made->id, .ranks = next_ranks_};
  for (Seat& seat : group_) {
    seat.next_rank = seat.rank;
    seat.puppet->Tell(command);
  }
  command.act = Act::kJoinGrowth;
  for (command.rank = ranks_; command.rank < next_ranks_; ++command.rank) {
    group_.push_back(NewSeat(command.rank));
    group_.back().puppet->Tell(command);
  }
  if (Chance(5)) return LoseOneWhileForming();
  if (AllFormed("a growth")) SumAndGoOn();
}

// One rank dies while all are in a call that makes a communicator. The others go on with what has
// formed, if it has, or with its parent.
void ElasticJob::LoseOneWhileForming() {
  Pause(Chance(2) ? 1'500 : 8'000);
  std::vector<Seat> lost = TakeOut(PickPlaces(1));
  Note(fmt::format("lose rank {} at host {} meanwhile", lost.front().rank, lost.front().host));
  KillNow(&lost);
  bool formed = true;
  for (Seat& seat : group_) {
    const std::optional<Outcome> outcome = Answer(seat, "a formation that loses a rank");
    if (!outcome.has_value()) return;
    // A rank that comes by an id whose maker has died is told that nobody knows the id.
    EXPECT_TRUE(outcome->result == ncclSuccess || outcome->result == ncclRemoteError ||
                (seat.rank >= ranks_ && outcome->result == ncclInvalidArgument))
        << outcome->result << ", " << outcome->error.data();
    formed = formed && outcome->result == ncclSuccess;
  }
  const bool has_parent = ranks_ > 0;
  const bool was_of_parent = lost.front().rank < ranks_;
  if (formed && (Chance(2) || !has_parent)) {
    Note("go on with what has formed");
    TakeNext();
    return Shrink(Chance(2));
  }
  DropNext();
  if (group_.empty()) return;
  if (was_of_parent) return Shrink(Chance(2));
  Sum();
}

// The ranks of a parent go on with it, and the others end.
void ElasticJob::DropNext() {
  AllDo({.act = Act::kDropNext}, "the end of what has not formed");
  std::erase_if(group_, [this](const Seat& seat) { return seat.rank >= ranks_; });
}

// Returns whether all ranks say that the communicator has formed.
bool ElasticJob::AllFormed(const std::string& what) {
  bool formed = true;
  for (Seat& seat : group_) formed = AnswerWell(seat, what) && formed;
  return formed;
}

void ElasticJob::End() {
  for (Stray& stray : strays_) {
    if (stray.stopped) stray.seat.puppet->GoOn();
    EndSeat(&stray.seat, "the end of an excluded rank");
  }
  AllDo({.act = Act::kEnd, .aborts = Chance(2)}, "the end");
  strays_.clear();
  group_.clear();
}

// ---------------------------------------------------------------------------------------------
// The test

/// Most that the connection is charged for which asks for a status, of connections and of bytes.
constexpr int64_t kOfTheAsker = 64 << 10;

/// Returns what the daemon holds for tenants, but for the connection that asks; "" if nothing.
std::string HeldAt(DaemonProcess& daemon) {
  const nlohmann::json report = ReadJson(StatusOf(daemon));
  if (report.is_discarded()) return "no status";
  std::string held;
  for (const auto& tenant : report.at("tenants")) {
    for (const auto& one : tenant.at("holds")) {
      const std::string resource = one.at("resource");
      const bool asked = resource == "connections" || resource.starts_with("bytes of the daemon");
      const int64_t most = !asked ? 0 : resource == "connections" ? 1 : kOfTheAsker;
      if (one.at("held") > most) held += JsonText(one);
    }
    if (!tenant.at("communicators").empty()) held += JsonText(tenant.at("communicators"));
  }
  return held;
}

void ExpectNothingHeld(TestCluster* cluster) {
  for (int host = 0; host < kHosts; ++host) {
    std::string held = HeldAt(cluster->daemon(host));
    const auto start = std::chrono::steady_clock::now();
    while (!held.empty() && std::chrono::steady_clock::now() - start < kHangs) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      held = HeldAt(cluster->daemon(host));
    }
    EXPECT_EQ(held, "") << "at host " << host;
  }
}

/// Expects that all events could be told.
void ExpectEventsTold(TestCluster* cluster) {
  for (int host = 0; host < kHosts; ++host) {
    const std::string log = cluster->daemon(host).Log();
    const size_t at = log.find("an event cannot be told");
    EXPECT_EQ(at, std::string::npos) << log.substr(at, 200);
  }
}

TEST(Elastic, CommunicatorsSurviveWhateverBefallsTheirRanks) {
  const uint32_t seed = ProgrammeSeed();
  std::printf("HARMONAIZE_TEST_SEED=%u\n", seed);
  TestCluster cluster(kHosts, kRanksConfig, "", "", /*keep_logs=*/true);
  ElasticJob job(&cluster, seed);
  const int steps = Steps();
  DaemonProcess& witness = cluster.daemon(kWitness);
  const int warm_up = std::max(steps / 5, 10);
  for (int step = 0; step < warm_up && !HasFailed(); ++step) job.Step(step);
  if (!HasFailed()) job.End();
  if (!HasFailed()) ExpectNothingHeld(&cluster);
  const int descriptors = witness.OpenDescriptors();
  const int mappings = witness.Mappings();
  const long resident = witness.ResidentKilobytes();
  for (int step = warm_up; step < steps && !HasFailed(); ++step) job.Step(step);
  if (!HasFailed()) job.End();
  if (HasFailed()) return;
  ExpectNothingHeld(&cluster);
  ExpectEventsTold(&cluster);
  EXPECT_TRUE(witness.SettlesTo(descriptors))
      << witness.OpenDescriptors() << ", before " << descriptors;
  if (!kSanitized) {
    EXPECT_LE(witness.Mappings(), mappings + 30);
    EXPECT_LE(witness.ResidentKilobytes(), resident + 16384 + steps);
  }
}

}  // namespace
}  // namespace harmonaize::testing
