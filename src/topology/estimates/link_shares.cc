#include "src/topology/estimates/link_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace harmonaize {
namespace {

/// Time constant of the mean rate, in seconds: jobs send in bursts, so a mean of about this long
/// counts.
constexpr double kMeanSeconds = 0.3;
/// Mean rates below this many bytes a second count as nothing.
constexpr double kNothing = 1000;
/// Fraction of an edge's capacity that every job is taken to want at least. If all other jobs need
/// less than this together, no job is held back for them.
constexpr double kLeastWanted = 0.01;
/// A job that sends and has less than this fraction of its share is deprived of it by others.
constexpr double kDeprived = 0.9;
/// A job using at least this fraction of its grant is assumed to be limited by it.
constexpr double kTaken = 0.97;
/// Least headroom, as a fraction of the job's mean rate.
constexpr double kLeastHeadroom = 0.05;
/// Factor on the headroom while the job uses less of its grant than kTaken.
constexpr double kHeadroomStep = 0.8;
/// Seconds for which a deprived job is given room, to see whether it takes it.
constexpr double kTrialSeconds = 1.5;
/// The same for a preferred job, whose room costs the others more. The mean rate needs about this
/// long to follow.
constexpr double kPreferredTrialSeconds = 0.8;
/// The trial goes on while the job is at least this many times as fast as before it.
constexpr double kTakesRoom = 1.1;
/// The rate to compare with grows by this factor after each such trial.
constexpr double kBaseCreeps = 1.03;
/// For a preferred job the rate to compare with comes nearer to what the job has, by this fraction
/// of the difference, so that its trials end sooner.
constexpr double kPreferredBaseCreeps = 0.5;
/// A trial of a preferred job that ended this many seconds ago tells nothing any more. Above the
/// time between two looks at a large cluster.
constexpr double kStaleSeconds = 4;
/// Room of a preferred job beyond what it has, as a fraction of the rest of its share. The more,
/// the less a job of small operations waits in the others' queues, and the less is left to the
/// others.
constexpr double kRoomOfRest = 0.35;
/// A preferred job that sends this many times its mean rate wants more than before.
constexpr double kRises = 1.1;
/// A job is preferred if its priority makes its share this many times as large.
constexpr double kPreferred = 1.01;
/// Seconds without room after the first trial that failed. They double after each further one.
constexpr double kFirstRestSeconds = 0.5;
/// Most seconds without room after a trial that failed.
constexpr double kLongestRestSeconds = 32;
/// A job that has more than this multiple of its share may be held back.
constexpr double kAbove = 1.15;
/// A job stays held back while it has more than this fraction of its share. A released job takes
/// what it can before that is seen, so the bound is low.
constexpr double kBelow = 0.5;
/// Factor by which each flow of a job may send more while together they take less than their grant,
/// because flows of one job do not all send at the same time.
constexpr double kStretchStep = 1.1;
/// Most that these factors may multiply to.
constexpr double kMostStretch = 8;
/// Fraction of an equal share with which a flow that rests may begin.
constexpr double kBegins = 0.25;
/// A job that sends and has less than this fraction of its floor is deprived of it. Above what a
/// tenant is told of as missed.
constexpr double kDeprivedOfFloor = 0.98;
/// A job that has more than this multiple of its share may be held back for one that is deprived of
/// its floor.
constexpr double kAboveForFloor = 1.02;
/// Longest rest, in seconds, of a job that is deprived of its floor: it was promised to have the
/// floor soon after it wants it.
constexpr double kLongestFloorRestSeconds = 2;
/// Longest rest, in seconds, of a preferred job: the job is to have what it wants soon after it
/// wants it.
constexpr double kLongestPreferredRestSeconds = 8;
/// Fraction of its floor below which the floor is missed.
constexpr double kMissedFloor = 0.95;
/// An edge over which at least this fraction of its usable capacity goes is full.
constexpr double kFull = 0.85;
/// A flow that has something to send for at least this fraction of the time would send more.
constexpr double kBusy = 0.9;
/// Multiple of its cap from which on an owner is held back to it: below, it is noise.
constexpr double kAboveCap = 1.02;
/// Relative changes of the available rate up to this are noise.
constexpr double kNoise = 0.08;
/// Available capacity of at least this fraction of the edge's counts as all of it.
constexpr double kWhole = 0.9;

/// Factor by which one step of priority multiplies a weight.
constexpr double kPriorityStep = 1000;

/// Returns a weight without the factor of a priority. The terms do not tell the priority that the
/// provider has given to a tenant. So a weight of kPriorityStep or more counts as one with a
/// priority.
double WithoutPriority(double weight, int priority) {
  weight /= PriorityFactor(priority);
  while (weight >= kPriorityStep) weight /= kPriorityStep;
  return std::max(weight, std::numeric_limits<double>::min());
}

}  // namespace

double PriorityFactor(int priority) {
  return std::pow(kPriorityStep, static_cast<double>(priority));
}

// The share of a claim grows with a level, the same for all, from its floor on up to what it wants.
// The level is raised until the shares are the capacity together.
std::vector<double> ShareOut(std::span<const Claim> claims, double capacity) {
  double floors = 0;
  for (const Claim& claim : claims) floors += std::min(claim.floor, claim.wanted);
  const double scale = floors > capacity ? capacity / floors : 1;
  const auto least = [scale](const Claim& one) { return scale * std::min(one.floor, one.wanted); };

  struct Turn {
    double level = 0;
    double growth = 0;  // change of the growth of all shares, from this level on
  };
  std::vector<Turn> turns;
  turns.reserve(2 * claims.size());
  for (const Claim& claim : claims) {
    turns.push_back({least(claim) / claim.weight, claim.weight});
    turns.push_back({claim.wanted / claim.weight, -claim.weight});
  }
  std::sort(turns.begin(), turns.end(),
            [](const Turn& one, const Turn& other) { return one.level < other.level; });
  double level = 0;
  double growth = 0;
  double total = scale * floors;
  for (const Turn& turn : turns) {
    const double next = total + growth * (turn.level - level);
    if (next > capacity && growth > 0) {
      level += std::max(capacity - total, 0.0) / growth;
      break;
    }
    total = next;
    level = turn.level;
    growth += turn.growth;
  }
  std::vector<double> shares;
  shares.reserve(claims.size());
  for (const Claim& claim : claims) {
    shares.push_back(std::min(claim.wanted, std::max(least(claim), level * claim.weight)));
  }
  return shares;
}

void LinkShares::Take(std::span<const JobFlow> flows,
                      const std::function<double(int edge)>& capacity, double now_seconds) {
  TakeMeans(flows, now_seconds);
  SumUp(capacity);
  GiveRoom(now_seconds);
  held_back_.clear();
  floors_.clear();
  for (const int edge : used_) {
    Grant(&edges_[static_cast<size_t>(edge)]);
    NoteFloors(edges_[static_cast<size_t>(edge)]);
  }
}

void LinkShares::TakeMeans(std::span<const JobFlow> flows, double now_seconds) {
  const double passed = taken_seconds_ < 0 ? kMeanSeconds : now_seconds - taken_seconds_;
  taken_seconds_ = now_seconds;
  const double kept = std::exp(-passed / kMeanSeconds);
  for (auto& [name, flow] : flows_) {
    flow.mean *= kept;
    flow.last = 0;
  }
  for (const JobFlow& now : flows) {
    const auto [found, is_new] = flows_.try_emplace({now.rail, now.job});
    Flow& flow = found->second;
    flow.mean += is_new ? now.bytes_per_second : (1 - kept) * now.bytes_per_second;
    flow.last = now.bytes_per_second;
    flow.sending = now.sending;
    flow.busy = now.busy;
    flow.weight = now.weight;
    flow.terms = now.terms;
    flow.edges = now.edges;
  }
  std::erase_if(flows_, [](const auto& one) { return one.second.mean < kNothing; });
  std::set<JobId> jobs;
  for (const auto& [name, flow] : flows_) jobs.insert(name.second);
  std::erase_if(available_, [&jobs](const auto& one) { return !jobs.contains(one.first); });
}

// A linear search, because few jobs send over one edge.
LinkShares::Part* LinkShares::EdgeParts::Of(const JobId& job) {
  const auto found =
      std::find_if(jobs.begin(), jobs.end(), [&job](const Part& part) { return part.job == job; });
  return found != jobs.end() ? &*found : &jobs.emplace_back(Part{.job = job});
}

// Sums up, from the flows, what each job sends over each edge.
void LinkShares::SumUp(const std::function<double(int edge)>& capacity) {
  for (const int edge : used_) {
    for (Part& part : edges_[static_cast<size_t>(edge)].jobs) {
      part.mean = 0;
      part.last = 0;
      part.busy = 0;
      part.flows = 0;
    }
  }
  for (const auto& [name, flow] : flows_) {
    for (const CrossedEdge& crossed : *flow.edges) {
      const auto edge = static_cast<size_t>(crossed.edge);
      if (edge >= edges_.size()) edges_.resize(edge + 1);
      if (edges_[edge].jobs.empty()) used_.push_back(crossed.edge);
      Part& part = *edges_[edge].Of(name.second);
      part.mean += crossed.part * flow.mean;
      part.last += crossed.part * flow.last;
      part.sending = flow.sending;
      part.busy = std::max(part.busy, flow.busy);
      part.weight = flow.weight;
      part.plain_weight = WithoutPriority(flow.weight, flow.terms.priority);
      part.terms = flow.terms;
      ++part.flows;
    }
  }
  for (const int number : used_) {
    EdgeParts& edge = edges_[static_cast<size_t>(number)];
    edge.capacity = kUsable * capacity(number);
    std::erase_if(edge.jobs, [](const Part& part) { return part.flows == 0; });
    Weigh(&edge);
    DivideTerms(&edge);
    FindFair(&edge);
  }
  std::erase_if(used_, [this](int edge) { return edges_[static_cast<size_t>(edge)].jobs.empty(); });
}

// Divides each tenant's weight over its jobs of one priority.
void LinkShares::Weigh(EdgeParts* edge) {
  if (edge->jobs.size() < 2) return;
  std::map<std::pair<uint32_t, int>, int> jobs;
  for (const Part& part : edge->jobs) ++jobs[{part.job.tenant, part.terms.priority}];
  for (Part& part : edge->jobs) {
    const int sharers = jobs[{part.job.tenant, part.terms.priority}];
    part.weight /= sharers;
    part.plain_weight /= sharers;
  }
}

// Divides the floor and the cap of each owner over its jobs, by what they have had lately, and the
// cap of each tenant likewise.
void LinkShares::DivideTerms(EdgeParts* edge) {
  std::map<std::pair<uint32_t, uint64_t>, double> means;
  std::map<uint32_t, double> tenants;
  for (Part& part : edge->jobs) {
    part.floor = 0;
    part.cap = std::numeric_limits<double>::infinity();
    if (!part.terms.any()) continue;
    means[{part.job.tenant, part.terms.owner}] += part.mean + kNothing;
    tenants[part.job.tenant] += part.mean + kNothing;
  }
  if (means.empty()) return;
  for (Part& part : edge->jobs) {
    if (!part.terms.any()) continue;
    const double had = part.mean + kNothing;
    const double portion = had / means[{part.job.tenant, part.terms.owner}];
    part.floor = portion * part.terms.floor;
    if (part.terms.cap > 0) part.cap = portion * part.terms.cap;
    if (part.terms.tenant_cap > 0) {
      part.cap = std::min(part.cap, had / tenants[part.job.tenant] * part.terms.tenant_cap);
    }
  }
}

void LinkShares::FindFair(EdgeParts* edge) {
  double weights = 0;
  bool any_terms = false;
  bool any_priority = false;
  for (const Part& part : edge->jobs) {
    weights += part.weight;
    any_terms |= part.terms.any();
    any_priority |= part.plain_weight < part.weight;
  }
  for (Part& part : edge->jobs) part.fair = edge->capacity * part.weight / weights;
  if (any_terms) ShareByTerms(edge, &Part::weight, &Part::fair);
  for (Part& part : edge->jobs) part.plain_fair = part.fair;
  if (any_priority) ShareByTerms(edge, &Part::plain_weight, &Part::plain_fair);
}

// Shares out the edge as if all jobs wanted all that they can have.
void LinkShares::ShareByTerms(EdgeParts* edge, double Part::*weight, double Part::*share) {
  std::vector<Claim> claims;
  for (const Part& part : edge->jobs) {
    claims.push_back({std::min(part.cap, edge->capacity), part.*weight, part.floor});
  }
  const std::vector<double> shares = ShareOut(claims, edge->capacity);
  for (size_t i = 0; i < shares.size(); ++i) edge->jobs[i].*share = shares[i];
}

// Gives deprived jobs room for a while. A job that has less than its share may not want more, or
// may be unable to take it: its data waits in the others' queues at each of its steps and is late,
// however much it is granted. That shows when the others are held back to their shares for a while.
void LinkShares::GiveRoom(double now_seconds) {
  std::map<JobId, Deprived> deprived;
  for (const int number : used_) {
    const EdgeParts& edge = edges_[static_cast<size_t>(number)];
    if (edge.jobs.size() < 2) continue;
    for (const Part& part : edge.jobs) {
      if (!IsDeprived(part)) continue;
      deprived[part.job].of_floor |= IsDeprivedOfFloor(part);
      deprived[part.job].is_preferred |= IsPreferred(part);
    }
  }
  std::erase_if(trials_, [&](const auto& one) {
    return !deprived.contains(one.first) &&
           now_seconds > one.second.until_seconds + kLongestRestSeconds;
  });
  if (deprived.empty()) return;
  for (const auto& [name, flow] : flows_) {
    const auto found = deprived.find(name.second);
    if (found != deprived.end()) found->second.mean += flow.mean;
  }
  for (const auto& [job, one] : deprived) trials_[job].Take(one, now_seconds);
}

double LinkShares::Deprived::longest_rest_seconds() const {
  if (of_floor) return kLongestFloorRestSeconds;
  return is_preferred ? kLongestPreferredRestSeconds : kLongestRestSeconds;
}

void LinkShares::Trial::Take(const Deprived& job, double now_seconds) {
  if (job.is_preferred && now_seconds > until_seconds + kStaleSeconds) {
    *this = {.until_seconds = now_seconds + kFirstRestSeconds};
  }
  if (!gives_room) {
    until_seconds = std::min(until_seconds, now_seconds + job.longest_rest_seconds());
  }
  if (now_seconds < until_seconds) return;
  if (gives_room) {
    Judge(job);
  } else {
    gives_room = true;
    base = job.mean;
  }
  const double trial_seconds = job.is_preferred ? kPreferredTrialSeconds : kTrialSeconds;
  until_seconds = now_seconds + (gives_room ? trial_seconds : rest_seconds);
}

// Decides whether a job keeps its room.
void LinkShares::Trial::Judge(const Deprived& job) {
  gives_room = job.mean >= kTakesRoom * base;
  if (gives_room) {
    rest_seconds = 0;
    base = job.is_preferred ? base + kPreferredBaseCreeps * (job.mean - base) : kBaseCreeps * base;
  } else {
    rest_seconds = std::clamp(2 * rest_seconds, kFirstRestSeconds, job.longest_rest_seconds());
  }
}

bool LinkShares::HasRoom(const Part& part) const {
  const auto trial = trials_.find(part.job);
  return trial != trials_.end() && trial->second.gives_room && IsDeprived(part);
}

// Returns the rate for which a job is given room; 0: for none. In a trial that is its share. But
// the share of a preferred job may be nearly the whole edge. So a preferred job gets its plain
// share in a trial, or a part of what it does not use, if that is more. A preferred job whose rate
// rises does not wait for a trial.
double LinkShares::RoomFor(const Part& part) const {
  const bool in_trial = HasRoom(part);
  const double share = part.fair * part.sending;
  if (!IsPreferred(part)) return in_trial ? share : 0;
  if (!in_trial && part.last <= kRises * part.mean) return 0;
  const double rate = std::max(part.mean, part.last);
  const double least = in_trial ? part.plain_fair * part.sending : 0;
  return std::min(share, std::max(least, rate + kRoomOfRest * (share - rate)));
}

// Returns the rate that a job is taken to want of an edge. If a preferred job sends more than in
// the mean, the claim follows at once.
double LinkShares::ClaimOf(const EdgeParts& edge, const Part& part) const {
  const double risen = IsPreferred(part) ? part.last * (1 + part.headroom) : 0;
  const double wanted =
      std::max({part.Wanted(), risen, kLeastWanted * edge.capacity, RoomFor(part)});
  return std::min(wanted, part.cap);
}

// Returns how much of what the claims leave a job that is held back gets for its plain weight. Jobs
// that are not held back have no use for it. Priorities do not count here, because the claims of
// preferred jobs come first.
double LinkShares::LeftByWeight(const EdgeParts& edge, double left) {
  double weights = 0;
  for (const Part& part : edge.jobs) weights += part.held_back ? part.plain_weight : 0;
  return weights > 0 ? std::max(left, 0.0) / weights : 0;
}

void LinkShares::Grant(EdgeParts* edge) {
  claims_.clear();
  for (Part& part : edge->jobs) {
    if (IsPreferred(part) && part.mean >= kTaken * part.granted) part.headroom = kMostHeadroom;
    claims_.push_back({ClaimOf(*edge, part), part.weight, part.floor});
  }
  const std::vector<double> shares = ShareOut(claims_, edge->capacity);
  const double left = edge->capacity - std::accumulate(shares.begin(), shares.end(), 0.0);
  bool any_deprived = false;
  bool of_floor = false;
  double needed = 0;
  for (const Part& part : edge->jobs) {
    any_deprived |= IsDeprived(part);
    of_floor |= IsDeprivedOfFloor(part);
    needed += NeededBy(part);
  }
  const double left_by_weight = LeftByWeight(*edge, left);
  const double above = of_floor ? kAboveForFloor : kAbove;
  for (size_t i = 0; i < shares.size(); ++i) {
    Part& part = edge->jobs[i];
    const double had = part.granted;
    part.granted = shares[i] + (part.held_back ? left_by_weight * part.plain_weight : 0);
    part.granted = std::min(part.granted, part.cap);
    const bool has_much =
        any_deprived && part.mean > above * part.fair && part.granted < claims_[i].wanted;
    const bool has_some = part.held_back && part.mean > kBelow * part.fair;
    // While the others pause, or have enough, the job may have all.
    const bool has_others = needed - NeededBy(part) > kLeastWanted * edge->capacity;
    part.held_back = (has_others && (has_much || has_some)) || ExceedsCap(part);
    if (part.held_back) held_back_.insert(part.job);
    Adapt(&part, had);
  }
}

// Returns whether a priority gives the job more of the edge than its plain share.
bool LinkShares::IsPreferred(const Part& part) {
  return part.fair > kPreferred * part.plain_fair;
}

bool LinkShares::IsDeprivedOfFloor(const Part& part) {
  const double floor = std::min(part.floor, part.fair);
  return part.last > 0 && part.mean < kDeprivedOfFloor * floor * part.sending;
}

bool LinkShares::IsDeprived(const Part& part) {
  return (part.last > 0 && part.mean < kDeprived * part.fair * part.sending) ||
         IsDeprivedOfFloor(part);
}

// Returns whether a job has more than its part of the cap, or has had, and is still near it. Its
// hosts keep each to the cap, so this is about edges where the flows of several hosts meet.
bool LinkShares::ExceedsCap(const Part& part) {
  return part.mean > (part.held_back ? kBelow : kAboveCap) * part.cap;
}

// Returns what a job needs others to leave to it. A job that computes and sends by turns, and has
// its share while it sends, would not gain if others were held back all the time.
double LinkShares::NeededBy(const Part& part) {
  return part.sending >= 1 || IsDeprived(part) ? part.last : 0;
}

// Notes how the floors on an edge fare. A job that has less than its floor may not want more. But
// where the others are held back for it, and the edge is full all the same, or the job has data
// waiting, it cannot have it; and where the edge carries less than was promised, who takes all that
// is left would have its floor.
void LinkShares::NoteFloors(const EdgeParts& edge) {
  double sent = 0;
  for (const Part& part : edge.jobs) sent += part.last;
  for (const Part& part : edge.jobs) {
    if (part.floor <= 0 || part.last <= 0) continue;
    const double floor = part.floor * part.sending;
    FloorReport report{.state = FloorState::kKept, .had = part.mean};
    const bool held_up = sent >= kFull * edge.capacity || part.busy >= kBusy;
    const bool has_less = part.mean < kMissedFloor * floor && held_up;
    const bool takes_all = part.fair < kMissedFloor * part.floor && part.mean > kBelow * part.fair;
    if (has_less) {
      report.state = HasRoom(part) || takes_all ? FloorState::kMissed : FloorState::kUnknown;
    }
    const auto [known, is_new] = floors_.try_emplace(part.job, report);
    const bool worse =
        report.state == FloorState::kMissed ||
        (report.state == FloorState::kUnknown && known->second.state == FloorState::kKept);
    if (!is_new && worse) known->second = report;
  }
}

// Adapts headroom and stretch to what the job has taken lately of the grant that it `had` before.
void LinkShares::Adapt(Part* part, double had) {
  part->headroom = part->mean >= kTaken * part->granted
                       ? kMostHeadroom
                       : std::max(kHeadroomStep * part->headroom, kLeastHeadroom);
  if (!part->held_back) {
    part->stretch = 1;
  } else if (std::max(part->mean, part->last) < kUsable * had) {
    part->stretch = std::min(part->stretch * kStretchStep, kMostStretch);
  } else if (part->mean > part->granted) {
    part->stretch = std::max(part->stretch / kStretchStep, 1.0);
  }
}

// Returns the least that any of the flow's edges grants it.
double LinkShares::LimitOf(const Flow& flow, const JobId& job, bool* held_back) const {
  double least = std::numeric_limits<double>::infinity();
  *held_back = false;
  if (!held_back_.contains(job)) return flow.mean * (1 + kMostHeadroom);
  for (const CrossedEdge& crossed : *flow.edges) {
    for (const Part& part : edges_[static_cast<size_t>(crossed.edge)].jobs) {
      if (part.job != job || !part.held_back) continue;
      *held_back = true;
      const double equal = kBegins / static_cast<double>(part.flows);
      least = std::min(least, part.stretch * part.granted * std::max(flow.mean / part.mean, equal));
    }
  }
  return *held_back ? least : flow.mean * (1 + kMostHeadroom);
}

std::vector<JobLimit> LinkShares::Limits() const {
  std::vector<JobLimit> limits;
  if (held_back_.empty()) return limits;
  // A rail's limits are kept if any of its jobs is held back.
  auto next = flows_.begin();
  while (next != flows_.end()) {
    const FabricRail rail = next->first.first;
    const size_t first = limits.size();
    bool any = false;
    for (; next != flows_.end() && next->first.first == rail; ++next) {
      bool held_back = false;
      const double limit = LimitOf(next->second, next->first.second, &held_back);
      limits.push_back({rail, next->first.second, next->second.terms.owner, limit, held_back});
      any |= held_back;
    }
    if (!any) limits.resize(first);
  }
  return limits;
}

// Returns what a job would get if it wanted all of the edge.
double LinkShares::LeftFor(const EdgeParts& edge, const JobId& job, double weight) {
  std::vector<Claim> claims;
  LinkTerms terms;
  double floor = 0;
  for (const Part& part : edge.jobs) {
    if (part.job != job) continue;
    terms = part.terms;
    floor = part.floor;
  }
  const auto shares_weight = [&](const Part& part) {
    return part.job.tenant == job.tenant && part.terms.priority == terms.priority;
  };
  int jobs = 1;  // of this tenant and priority
  for (const Part& part : edge.jobs) jobs += part.job != job && shares_weight(part) ? 1 : 0;
  claims.push_back({edge.capacity, weight / jobs, floor});
  for (const Part& part : edge.jobs) {
    if (part.job == job) continue;
    const double share = shares_weight(part) ? weight / jobs : part.weight;
    claims.push_back({std::min(part.Wanted(), part.cap), share, part.floor});
  }
  return ShareOut(claims, edge.capacity).front();
}

const std::map<int, double>& LinkShares::AvailableTo(const JobId& job, double weight,
                                                     std::span<const int> edges) {
  std::map<int, double>& in_force = available_[job];
  for (const int number : edges) {
    const EdgeParts* const edge = static_cast<size_t>(number) < edges_.size()
                                      ? &edges_[static_cast<size_t>(number)]
                                      : nullptr;
    const auto found = in_force.find(number);
    const bool alone = edge == nullptr || edge->jobs.empty() ||
                       (edge->jobs.size() == 1 && edge->jobs[0].job == job);
    const double left = alone ? 0 : LeftFor(*edge, job, weight);
    if (alone || left >= kWhole * edge->capacity) {
      if (found != in_force.end()) in_force.erase(found);
    } else if (found == in_force.end()) {
      in_force.emplace(number, left);
    } else if (std::abs(left - found->second) > kNoise * std::max(left, found->second)) {
      found->second = left;
    }
  }
  return in_force;
}

}  // namespace harmonaize
