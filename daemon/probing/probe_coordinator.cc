#include "daemon/probing/probe_coordinator.h"

#include <algorithm>
#include <set>

#include "daemon/probing/probe_nics.h"
#include "daemon/runtime/guarded.h"
#include "src/topology/fabric/fabric.h"

namespace harmonaize::daemon {
namespace {

/// Longest name of a host in a fabric, in characters.
constexpr size_t kLongestName = 32;
/// Longest wait, in seconds, for a daemon to open its NICs' addresses.
constexpr double kOpenPatience = 15;
/// Longest wait for an answer, in seconds, beyond the measuring itself.
constexpr double kAnswerPatience = 15;
/// Delay, in seconds, of a run after the word to begin, which goes out over the quiet network
/// before traffic is in its way.
constexpr double kDelay = 0.02;
/// Number of hosts above which round trips of pairs that have no host in common go at the same
/// time: it would take too long otherwise.
constexpr int kOneAfterTheOther = 16;
/// Samples of all pairs together in one pass.
constexpr size_t kSamplesInAll = 200'000;
/// The most samples of each pair: they let both ends be everywhere (VisitProcessors).
constexpr size_t kMostSamples = 80;
/// The fewest samples of each pair: their tenth percentile is looked at.
constexpr size_t kLeastSamples = 20;
/// Time, in seconds, that each round trip is given before an answer counts as missing.
constexpr double kSlowRoundTrip = 0.01;

bool SameHosts(const std::pair<Endpoint, Endpoint>& a, const std::pair<Endpoint, Endpoint>& b) {
  return a.first.host == b.first.host && a.second.host == b.second.host;
}

}  // namespace

void MakeNamesUnique(std::vector<std::string>* names) {
  std::set<std::string> taken;
  for (std::string& name : *names) {
    std::string unique = name;
    for (int number = 2; !taken.insert(unique).second; ++number) {
      const std::string end = fmt::format("-{}", number);
      unique = name.substr(0, kLongestName - end.size()) + end;
    }
    name = unique;
  }
}

ProbeCoordinator::ProbeCoordinator(uint64_t probe, std::vector<std::string> daemons, double seconds,
                                   Calls calls)
    : probe_(probe),
      daemons_(std::move(daemons)),
      seconds_(seconds),
      calls_(std::move(calls)),
      thread_([this] { Run(); }) {}

ProbeCoordinator::~ProbeCoordinator() {
  Cancel(RemoteError("the daemon was stopped"));
  thread_.join();
}

void ProbeCoordinator::Deliver(size_t daemon, ClusterMessage message) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.emplace_back(daemon, std::move(message));
  }
  came_.notify_one();
}

void ProbeCoordinator::Cancel(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_.ok()) cancelled_ = why;
  }
  came_.notify_one();
}

void ProbeCoordinator::Run() {
  const Status status = Caught([this] { return Probe(); });
  GuardedAndLogged("the end of a probe", [&] {
    for (size_t daemon = 0; daemon < daemons_.size(); ++daemon) {
      calls_.send(daemon, ProbeEndMessage{probe_, status.message()});
    }
    calls_.done(Caught([&]() -> Result<std::string> {
      if (!status.ok()) return status;
      return FormatMeasurements(measurements_);
    }));
  });
}

Status ProbeCoordinator::Probe() {
  calls_.progress(fmt::format("{} daemons open their NICs' addresses", daemons_.size()));
  HZ_RETURN_IF_ERROR(Open());
  for (;;) {
    const NextMeasurements next = NextProbes(measurements_);
    if (next.empty()) return Status::Ok();
    calls_.progress(next.why);
    if (!next.round_trips.empty()) HZ_RETURN_IF_ERROR(MeasureRoundTrips(next.round_trips));
    if (!next.transfers.empty()) {
      HZ_RETURN_IF_ERROR(MeasureTransfers(
          next.transfers, std::min(seconds_ * next.times_as_long, kMostProbeSeconds)));
    }
  }
}

// ---------------------------------------------------------------------------------------------
// Who takes part

Status ProbeCoordinator::Open() {
  std::vector<size_t> all;
  for (size_t daemon = 0; daemon < daemons_.size(); ++daemon) {
    HZ_ASSIGN_OR_RETURN(const ProbeToken token, DrawProbeToken());
    tokens_.push_back(token);
    all.push_back(daemon);
    calls_.send(daemon, ProbeOpenMessage{probe_, {token.begin(), token.end()}});
  }
  const auto ready = WaitFor<ProbeReadyMessage>(all, 0, kOpenPatience);
  return ready.ok() ? TakeReady(*ready) : ready.status();
}

Status ProbeCoordinator::TakeReady(const std::map<size_t, ProbeReadyMessage>& ready) {
  std::vector<std::string> names;
  std::map<std::string, int> holders;
  for (const auto& [daemon, answer] : ready) {
    names.push_back(FitFabricName(answer.host));
    for (const ProbeNic& nic : answer.nics) ++holders[nic.address];
  }
  MakeNamesUnique(&names);
  for (const auto& [daemon, answer] : ready) {
    ProbedHost& host = measurements_.hosts.emplace_back();
    host.name = names[daemon];
    std::vector<Place>& places = places_.emplace_back();
    for (size_t nic = 0; nic < answer.nics.size(); ++nic) {
      // An address that several hosts have leads nowhere, as those of container engines' bridges
      // do.
      if (holders[answer.nics[nic].address] > 1) continue;
      host.nics.push_back({answer.nics[nic].device, answer.nics[nic].address});
      places.push_back({daemon, static_cast<int>(nic), answer.nics[nic]});
    }
    if (host.nics.empty()) {
      return InvalidUsage("{} has no address that no other of the hosts has", NameOf(daemon));
    }
  }
  return ValidateMeasurements(measurements_);
}

std::string ProbeCoordinator::NameOf(size_t daemon) const {
  if (daemon >= measurements_.hosts.size()) return "the daemon at " + daemons_[daemon];
  return fmt::format("{} (the daemon at {})", measurements_.hosts[daemon].name, daemons_[daemon]);
}

// ---------------------------------------------------------------------------------------------
// Measuring

ProbeTarget ProbeCoordinator::TargetFor(Endpoint from, Endpoint to) const {
  const Place& place = PlaceOf(to);
  const ProbeToken& token = tokens_[place.daemon];
  return {.nic = PlaceOf(from).nic,
          .address = place.at.address,
          .port = place.at.port,
          .token = {token.begin(), token.end()}};
}

Status ProbeCoordinator::MeasureRoundTrips(
    const std::vector<std::pair<Endpoint, Endpoint>>& pairs) {
  const auto samples =
      static_cast<int>(std::clamp(kSamplesInAll / pairs.size(), kLeastSamples, kMostSamples));
  std::span<const std::pair<Endpoint, Endpoint>> left(pairs);
  while (!left.empty()) {
    const size_t length = BatchLength(left);
    HZ_RETURN_IF_ERROR(MeasureBatch(left.first(length), samples));
    left = left.subspan(length);
  }
  return Status::Ok();
}

/// Returns the length of the next batch: all NIC pairs of two hosts; of many hosts, as many such as
/// have no host in common.
size_t ProbeCoordinator::BatchLength(std::span<const std::pair<Endpoint, Endpoint>> pairs) const {
  const bool together = measurements_.hosts.size() > kOneAfterTheOther;
  std::set<int> busy = {pairs[0].first.host, pairs[0].second.host};
  for (size_t i = 1; i < pairs.size(); ++i) {
    if (SameHosts(pairs[i], pairs[i - 1])) continue;
    const bool free = !busy.contains(pairs[i].first.host) && !busy.contains(pairs[i].second.host);
    if (!together || !free) return i;
    busy.insert(pairs[i].first.host);
    busy.insert(pairs[i].second.host);
  }
  return pairs.size();
}

Status ProbeCoordinator::MeasureBatch(std::span<const std::pair<Endpoint, Endpoint>> pairs,
                                      int samples) {
  const uint64_t step = ++step_;
  std::map<size_t, ProbeRoundTripsMessage> tasks;
  std::map<size_t, std::vector<size_t>> asked;  // by daemon, places in `pairs`
  size_t longest = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const size_t daemon = PlaceOf(pairs[i].first).daemon;
    ProbeRoundTripsMessage& task = tasks[daemon];
    task.targets.push_back(TargetFor(pairs[i].first, pairs[i].second));
    asked[daemon].push_back(i);
    longest = std::max(longest, task.targets.size());
  }
  std::vector<size_t> busy;
  for (auto& [daemon, task] : tasks) {
    task.probe = probe_;
    task.step = step;
    task.samples = samples;
    calls_.send(daemon, task);
    busy.push_back(daemon);
  }
  const double patience = kAnswerPatience + static_cast<double>(longest) * samples * kSlowRoundTrip;
  HZ_ASSIGN_OR_RETURN(const auto answers, WaitFor<ProbeResultMessage>(busy, step, patience));
  for (const auto& [daemon, answer] : answers) {
    if (answer.samples.size() != asked[daemon].size()) {
      return RemoteError("{} answered something else than was asked", NameOf(daemon));
    }
    for (size_t i = 0; i < answer.samples.size(); ++i) {
      const auto& [from, to] = pairs[asked[daemon][i]];
      measurements_.round_trips.push_back(
          {from, to, !answer.samples[i].empty(), answer.samples[i]});
    }
  }
  return ValidateMeasurements({measurements_.hosts, measurements_.round_trips, {}});
}

Status ProbeCoordinator::MeasureTransfers(const TransferSet& set, double seconds) {
  const uint64_t connecting = ++step_;
  std::map<size_t, ProbeConnectMessage> senders;
  std::set<size_t> taking_part;
  std::vector<size_t> receivers;
  for (size_t i = 0; i < set.size(); ++i) {
    ProbeTarget target = TargetFor(set[i].from, set[i].to);
    target.transfer = static_cast<int>(i);
    target.connections = set[i].connections;
    senders[PlaceOf(set[i].from).daemon].targets.push_back(std::move(target));
    taking_part.insert({PlaceOf(set[i].from).daemon, PlaceOf(set[i].to).daemon});
  }
  std::vector<size_t> busy;
  for (auto& [daemon, task] : senders) {
    task.probe = probe_;
    task.step = connecting;
    calls_.send(daemon, task);
    busy.push_back(daemon);
  }
  const auto connected = WaitFor<ProbeResultMessage>(busy, connecting, kAnswerPatience);
  if (!connected.ok()) return connected.status();
  const ProbeRunMessage run{
      .probe = probe_, .step = ++step_, .set = connecting, .delay = kDelay, .seconds = seconds};
  for (const size_t daemon : taking_part) calls_.send(daemon, run);
  const auto answers = WaitFor<ProbeResultMessage>({taking_part.begin(), taking_part.end()},
                                                   run.step, seconds + kAnswerPatience);
  return answers.ok() ? TakeCounts(set, *answers, seconds) : answers.status();
}

Status ProbeCoordinator::TakeCounts(const TransferSet& set, const Answers& answers,
                                    double seconds) {
  std::vector<int64_t> bytes(set.size());
  for (const auto& [daemon, answer] : answers) {
    for (const ProbeCount& count : answer.counts) {
      const auto transfer = static_cast<size_t>(count.transfer);
      const bool sound = count.transfer >= 0 && transfer < set.size() && count.bytes >= 0 &&
                         PlaceOf(set[transfer].to).daemon == daemon;
      if (!sound) return RemoteError("{} counted what was not asked for", NameOf(daemon));
      bytes[transfer] += count.bytes;
    }
  }
  ConcurrentTransfers measured;
  for (size_t i = 0; i < set.size(); ++i) {
    const double rate = static_cast<double>(bytes[i]) / (seconds * (1 - kProbeWarmUp));
    measured.push_back({set[i].from, set[i].to, set[i].connections, rate});
  }
  measurements_.concurrent.push_back(measured);
  return ValidateMeasurements({measurements_.hosts, {}, {std::move(measured)}});
}

// ---------------------------------------------------------------------------------------------
// Waiting

Result<std::pair<size_t, ClusterMessage>> ProbeCoordinator::TakeMessage(
    ProbeClock::time_point deadline) {
  std::unique_lock lock(mutex_);
  came_.wait_until(lock, deadline, [this] { return !cancelled_.ok() || !inbox_.empty(); });
  if (!cancelled_.ok()) return cancelled_;
  if (inbox_.empty()) return Status(Code::kInProgress, "");
  std::pair<size_t, ClusterMessage> message = std::move(inbox_.front());
  inbox_.pop_front();
  return message;
}

template <typename Message>
Result<std::map<size_t, Message>> ProbeCoordinator::WaitFor(const std::vector<size_t>& from,
                                                            uint64_t step, double seconds) {
  const auto deadline = After(ProbeClock::now(), seconds);
  std::map<size_t, Message> answers;
  while (answers.size() < from.size()) {
    Result<std::pair<size_t, ClusterMessage>> taken = TakeMessage(deadline);
    if (taken.status().code() == Code::kInProgress) {
      const auto missing = std::find_if(from.begin(), from.end(),
                                        [&](size_t one) { return !answers.contains(one); });
      return RemoteError("{} did not answer within {:.0f} s", NameOf(*missing), seconds);
    }
    if (!taken.ok()) return taken.status();
    const auto& [daemon, message] = *taken;
    if (const auto* end = message.As<ProbeEndMessage>()) {
      return RemoteError("{} {}", NameOf(daemon), end->why);
    }
    const auto* answer = message.template As<Message>();
    if (answer == nullptr || std::find(from.begin(), from.end(), daemon) == from.end()) continue;
    if constexpr (requires { answer->step; }) {
      if (answer->step != step) continue;
    }
    if (!answer->status.ok()) {
      return Status(answer->status.code(),
                    fmt::format("{}: {}", NameOf(daemon), answer->status.message()));
    }
    answers.emplace(daemon, *answer);
  }
  return answers;
}

}  // namespace harmonaize::daemon
