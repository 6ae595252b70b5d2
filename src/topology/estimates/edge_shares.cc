#include "src/topology/estimates/edge_shares.h"

#include <algorithm>
#include <numeric>

namespace harmonaize {
namespace {

/// Fraction of an edge's capacity that the sharers of a tenant are taken to want at least,
/// together. If all others need less than this, no one is held back for them.
constexpr double kLeastWanted = 0.01;
/// A sharer that sends and has less than this fraction of its share is deprived of it by others.
constexpr double kDeprived = 0.9;
/// A sharer using at least this fraction of its grant is assumed to be limited by it.
constexpr double kTaken = 0.97;
/// Least headroom, as a fraction of the sharer's mean rate.
constexpr double kLeastHeadroom = 0.05;
/// Factor on the headroom while the sharer uses less of its grant than kTaken.
constexpr double kHeadroomStep = 0.8;
/// Room of a preferred sharer beyond what it has, as a fraction of the rest of its share. The more,
/// the less a job of small operations waits in the others' queues, and the less is left to the
/// others.
constexpr double kRoomOfRest = 0.35;
/// A preferred sharer that sends this many times its mean rate wants more than before.
constexpr double kRises = 1.1;
/// A sharer is preferred if its priority makes its share this many times as large.
constexpr double kPreferred = 1.01;
/// A sharer that has more than this multiple of its share may be held back, if few have more than
/// theirs.
constexpr double kAbove = 1.15;
/// The same if many have a little more: together they may have taken all of another's share. Below
/// this multiple, it is noise.
constexpr double kLeastAbove = 1.01;
/// The multiple lies at this fraction of what the others would have above their shares, if each had
/// as much of what the deprived lack.
constexpr double kPartOfExcess = 0.5;
/// A sharer stays held back while it has more than this fraction of its share. A released one takes
/// what it can before that is seen, so the bound is low.
constexpr double kBelow = 0.5;
/// Factor by which each flow may send more while together they take less than their grant, because
/// flows of one job do not all send at the same time.
constexpr double kStretchStep = 1.1;
/// Most that these factors may multiply to.
constexpr double kMostStretch = 8;
/// Fraction of a grant up to which the flows together do not take it.
constexpr double kUnused = 0.95;
/// Fraction of an equal share with which a flow that rests may begin.
constexpr double kBegins = 0.25;
/// A sharer that sends and has less than this fraction of its floor is deprived of it. Above what a
/// tenant is told of as missed.
constexpr double kDeprivedOfFloor = 0.98;
/// A sharer that has more than this multiple of its share may be held back for one that is deprived
/// of its floor.
constexpr double kAboveForFloor = 1.02;
/// Fraction of its floor below which the floor is missed.
constexpr double kMissedFloor = 0.95;
/// Multiple of its cap from which on a sharer is held back to it: below, it is noise.
constexpr double kAboveCap = 1.02;
/// Mean rate, in bytes a second, by which floors and caps are divided among those that send
/// nothing.
constexpr double kLeastCounted = 1000;

/// Returns the stretch of a sharer or a group for the next interval: up while less is taken than
/// was granted before, down while more is taken than is granted.
template <typename Taker>
double NextStretch(const Taker& taker) {
  if (std::max(taker.mean, taker.last) < kUnused * taker.had) {
    return std::min(taker.stretch * kStretchStep, kMostStretch);
  }
  if (taker.mean > taker.granted) return std::max(taker.stretch / kStretchStep, 1.0);
  return taker.stretch;
}

}  // namespace

// ---------------------------------------------------------------------------------------------
// What a sharer has

bool EdgeShares::Part::IsPreferred() const {
  return fair > kPreferred * plain_fair;
}

bool EdgeShares::Part::IsDeprivedOfFloor() const {
  return last > 0 && mean < kDeprivedOfFloor * std::min(floor, fair) * sending;
}

bool EdgeShares::Part::IsDeprived() const {
  return (last > 0 && mean < kDeprived * fair * sending) || IsDeprivedOfFloor();
}

bool EdgeShares::Part::MissesFloor() const {
  return mean < kMissedFloor * floor * sending;
}

bool EdgeShares::Part::LacksRoomForFloor() const {
  return fair < kMissedFloor * floor;
}

void EdgeShares::Begin() {
  for (auto& [sharer, part] : parts_) {
    part.mean = 0;
    part.last = 0;
    part.sending = 0;
    part.busy = 0;
    part.flows = 0;
  }
}

void EdgeShares::Add(const Sharer& sharer, const SentFlow& flow, double part) {
  Part& sum = parts_[sharer];
  sum.mean += part * flow.mean;
  sum.last += part * flow.last;
  sum.sending = std::max(sum.sending, flow.sending);
  sum.busy = std::max(sum.busy, flow.busy);
  sum.terms = flow.terms;
  ++sum.flows;
  Group& group = groups_[GroupOf(sharer)];
  group.weight = flow.weight;
  group.plain_weight = WithoutPriority(flow.weight, flow.terms.priority);
}

// ---------------------------------------------------------------------------------------------
// Shares, if all wanted all they can have

void EdgeShares::FindFair(double capacity) {
  capacity_ = capacity;
  std::erase_if(parts_, [](const auto& one) { return one.second.flows == 0; });
  Weigh();
  DivideTerms();
  ShareByTerms(&Group::weight, &Part::fair);
  const bool any_priority = std::any_of(groups_.begin(), groups_.end(), [](const auto& one) {
    return one.second.plain_weight < one.second.weight;
  });
  for (auto& [sharer, part] : parts_) part.plain_fair = part.fair;
  if (any_priority) ShareByTerms(&Group::plain_weight, &Part::plain_fair);
}

// Finds out how many sharers of one priority each tenant has, and divides its weight over them.
void EdgeShares::Weigh() {
  for (auto& [id, group] : groups_) group.sharers = 0;
  for (const auto& [sharer, part] : parts_) ++groups_[GroupOf(sharer)].sharers;
  std::erase_if(groups_, [](const auto& one) { return one.second.sharers == 0; });
  for (auto& [sharer, part] : parts_) {
    const Group& group = groups_[GroupOf(sharer)];
    part.plain_weight = group.plain_weight / static_cast<double>(group.sharers);
  }
}

// Divides the floor and the cap of each owner over its sharers, by what they have had lately, and
// the cap of each tenant likewise.
void EdgeShares::DivideTerms() {
  std::map<std::pair<uint32_t, uint64_t>, double> owners;
  std::map<uint32_t, double> tenants;
  for (auto& [sharer, part] : parts_) {
    part.floor = 0;
    part.cap = std::numeric_limits<double>::infinity();
    if (!part.terms.any()) continue;
    owners[{sharer.tenant, sharer.owner}] += part.mean + kLeastCounted;
    tenants[sharer.tenant] += part.mean + kLeastCounted;
  }
  if (owners.empty()) return;
  for (auto& [sharer, part] : parts_) {
    if (!part.terms.any()) continue;
    const double had = part.mean + kLeastCounted;
    const double portion = had / owners[{sharer.tenant, sharer.owner}];
    part.floor = portion * part.terms.floor;
    if (part.terms.cap > 0) part.cap = portion * part.terms.cap;
    if (part.terms.tenant_cap > 0) {
      part.cap = std::min(part.cap, had / tenants[sharer.tenant] * part.terms.tenant_cap);
    }
  }
}

void EdgeShares::ShareByTerms(double Group::*weight, double Part::*share) {
  claims_.clear();
  for (const auto& [sharer, part] : parts_) {
    claims_.push_back({std::min(part.cap, capacity_), 1, part.floor});
  }
  const std::vector<double> shares = Divide(weight);
  auto next = shares.begin();
  for (auto& [sharer, part] : parts_) part.*share = *next++;
}

// Divides the edge over the claims of all parts: among the tenants by this weight, and then among
// the sharers of each.
std::vector<double> EdgeShares::Divide(double Group::*weight) {
  std::vector<ClaimGroup> groups;
  groups.reserve(groups_.size());
  for (const auto& [id, group] : groups_) groups.push_back({group.sharers, group.*weight});
  return ShareOutInGroups(claims_, groups, capacity_);
}

// ---------------------------------------------------------------------------------------------
// Grants

bool EdgeShares::HasRoom(const Sharer& sharer, const Part& part, const RoomTrials& trials) {
  return part.IsDeprived() && trials.GivesRoom(sharer);
}

// Returns the rate for which a sharer is given room; 0: for none. In a trial that is its share. But
// the share of a preferred one may be nearly the whole edge. So it gets its plain share in a trial,
// or a part of what it does not use, if that is more. A preferred sharer whose rate rises does not
// wait for a trial.
double EdgeShares::RoomFor(const Sharer& sharer, const Part& part, const RoomTrials& trials) const {
  const bool in_trial = HasRoom(sharer, part, trials);
  const double share = part.fair * part.sending;
  if (!part.IsPreferred()) return in_trial ? share : 0;
  if (!in_trial && part.last <= kRises * part.mean) return 0;
  const double rate = std::max(part.mean, part.last);
  const double least = in_trial ? part.plain_fair * part.sending : 0;
  return std::min(share, std::max(least, rate + kRoomOfRest * (share - rate)));
}

// Returns the rate that a sharer is taken to want of the edge. If a preferred one sends more than
// in the mean, the claim follows at once.
double EdgeShares::ClaimOf(const Sharer& sharer, const Part& part, const RoomTrials& trials) const {
  const double risen = part.IsPreferred() ? part.last * (1 + part.headroom) : 0;
  const auto sharers = static_cast<double>(groups_.at(GroupOf(sharer)).sharers);
  const double least = kLeastWanted * capacity_ / sharers;
  const double wanted = std::max({part.Wanted(), risen, least, RoomFor(sharer, part, trials)});
  return std::min(wanted, part.cap);
}

// Returns what a sharer needs others to leave to it. One that computes and sends by turns, and has
// its share while it sends, would not gain if others were held back all the time. One that has next
// to nothing needs the room that it is given.
double EdgeShares::NeededBy(const Sharer& sharer, const Part& part,
                            const RoomTrials& trials) const {
  const bool is_deprived = part.IsDeprived();
  if (part.sending < 1 && !is_deprived) return 0;
  return std::max(part.last, is_deprived ? RoomFor(sharer, part, trials) : 0);
}

// Returns the multiple of its share from which on a sharer has much. Where many have a little more
// than their shares, each has only a small part of what the deprived ones lack.
double EdgeShares::MuchAbove() const {
  double lacking = 0;
  double content = 0;
  bool of_floor = false;
  for (const auto& [sharer, part] : parts_) {
    of_floor |= part.IsDeprivedOfFloor();
    if (part.IsDeprived()) {
      lacking += std::max(part.fair * part.sending - part.mean, 0.0);
    } else {
      content += part.fair;
    }
  }
  const double excess = content > 0 ? lacking / content : 0;
  return std::clamp(1 + kPartOfExcess * excess, kLeastAbove, of_floor ? kAboveForFloor : kAbove);
}

// Returns how much of what the claims leave a sharer that is held back gets for its plain weight.
// Those that are not held back have no use for it. Priorities do not count here, because the claims
// of preferred sharers come first.
double EdgeShares::LeftByWeight(double left) const {
  double weights = 0;
  for (const auto& [sharer, part] : parts_) {
    weights += part.held_back || part.capped ? part.plain_weight : 0;
  }
  return weights > 0 ? std::max(left, 0.0) / weights : 0;
}

void EdgeShares::SumUpGroups(const RoomTrials& trials) {
  for (auto& [id, group] : groups_) {
    group = {.sharers = group.sharers,
             .weight = group.weight,
             .plain_weight = group.plain_weight,
             .had = group.granted,
             .stretch = group.stretch,
             .held_back = group.held_back};
  }
  auto claim = claims_.begin();
  for (auto& [sharer, part] : parts_) {
    part.needed = NeededBy(sharer, part, trials);
    Group& group = groups_[GroupOf(sharer)];
    group.fair += part.fair;
    group.mean += part.mean;
    group.last += part.last;
    group.wanted += (claim++)->wanted;
    group.needed += part.needed;
  }
}

void EdgeShares::Grant(const RoomTrials& trials) {
  claims_.clear();
  for (auto& [sharer, part] : parts_) {
    if (part.IsPreferred() && part.mean >= kTaken * part.granted) part.headroom = kMostHeadroom;
    claims_.push_back({ClaimOf(sharer, part, trials), 1, part.floor});
  }
  SumUpGroups(trials);
  const std::vector<double> shares = Divide(&Group::weight);
  const double left = capacity_ - std::accumulate(shares.begin(), shares.end(), 0.0);
  const double left_by_weight = LeftByWeight(left);
  auto share = shares.begin();
  for (auto& [sharer, part] : parts_) {
    const bool shares_left = part.held_back || part.capped;
    part.had = part.granted;
    part.granted = *share++ + (shares_left ? left_by_weight * part.plain_weight : 0);
    part.granted = std::min(part.granted, part.cap);
    groups_[GroupOf(sharer)].granted += part.granted;
  }
  HoldBack();
  Adapt();
}

// Decides who is held back for others: a sharer, or all sharers of a tenant together. While the
// others pause, or have enough, all may have what they can.
void EdgeShares::HoldBack() {
  const bool any_deprived = std::any_of(parts_.begin(), parts_.end(),
                                        [](const auto& one) { return one.second.IsDeprived(); });
  const double above = MuchAbove();
  const double least_needed = kLeastWanted * capacity_;
  double needed = 0;
  for (const auto& [id, group] : groups_) needed += group.needed;
  const auto is_greedy = [&](const auto& one, double wanted) {
    const bool has_much = any_deprived && one.mean > above * one.fair && one.granted < wanted;
    return has_much || (one.held_back && one.mean > kBelow * one.fair);
  };
  for (auto& [id, group] : groups_) {
    group.held_back = needed - group.needed > least_needed && is_greedy(group, group.wanted);
    group.any_held_back = group.held_back;
  }
  auto claim = claims_.begin();
  for (auto& [sharer, part] : parts_) {
    Group& group = groups_[GroupOf(sharer)];
    const bool has_others = needed - part.needed > least_needed;
    part.held_back = group.held_back || (has_others && is_greedy(part, claim->wanted));
    part.capped = ExceedsCap(part);
    group.any_held_back |= part.held_back;
    ++claim;
  }
  ReleaseOne();
}

// Releases the tenant with the largest share where all are held back: it can take no more than what
// the others leave, which would be lost otherwise. Promised floors would miss that part of the edge
// if it carries less than was promised, so none is released beside them.
void EdgeShares::ReleaseOne() {
  const bool any_floor = std::any_of(parts_.begin(), parts_.end(),
                                     [](const auto& one) { return one.second.floor > 0; });
  if (groups_.size() < 2 || any_floor) return;
  auto largest = groups_.begin();
  for (auto group = groups_.begin(); group != groups_.end(); ++group) {
    if (!group->second.any_held_back) return;
    if (group->second.fair > largest->second.fair) largest = group;
  }
  largest->second.held_back = false;
  largest->second.any_held_back = false;
  for (auto& [sharer, part] : parts_) {
    if (GroupOf(sharer) == largest->first) part.held_back = false;
  }
}

// Returns whether a sharer has more than its part of the cap, or has had, and is still near it. Its
// hosts keep each to the cap, so this is about edges where the flows of several hosts meet.
bool EdgeShares::ExceedsCap(const Part& part) {
  return part.mean > (part.capped ? kBelow : kAboveCap) * part.cap;
}

// Adapts headroom and stretch to what has been taken lately of the grants of the interval before.
void EdgeShares::Adapt() {
  for (auto& [sharer, part] : parts_) {
    part.headroom = part.mean >= kTaken * part.granted
                        ? kMostHeadroom
                        : std::max(kHeadroomStep * part.headroom, kLeastHeadroom);
    part.stretch = part.capped ? NextStretch(part) : 1;
  }
  for (auto& [id, group] : groups_) group.stretch = group.any_held_back ? NextStretch(group) : 1;
}

// ---------------------------------------------------------------------------------------------
// Limits, and what is left

double EdgeShares::ShareLimitOf(const Sharer& sharer, double flow_mean) const {
  const auto found = parts_.find(sharer);
  if (found == parts_.end() || !found->second.held_back) {
    return std::numeric_limits<double>::infinity();
  }
  return groups_.at(GroupOf(sharer)).stretch * PartOfGrant(found->second, flow_mean);
}

double EdgeShares::CapLimitOf(const Sharer& sharer, double flow_mean) const {
  const auto found = parts_.find(sharer);
  if (found == parts_.end() || !found->second.capped) {
    return std::numeric_limits<double>::infinity();
  }
  return found->second.stretch * PartOfGrant(found->second, flow_mean);
}

double EdgeShares::PartOfGrant(const Part& part, double flow_mean) {
  const double equal = kBegins / static_cast<double>(part.flows);
  return part.granted * std::max(flow_mean / part.mean, equal);
}

// The other communicators of its sharer count as one that wants what they have.
double EdgeShares::LeftFor(const Sharer& sharer, double weight, double own_mean) const {
  const auto claim_of = [](const Part& part, double mean, double floor) {
    return Claim{std::min(mean * (1 + part.headroom), part.cap), 1, floor};
  };
  std::vector<Claim> claims = {{.wanted = capacity_}};
  std::vector<ClaimGroup> groups = {{1, weight}};
  for (const auto& [id, part] : parts_) {
    if (GroupOf(id) != GroupOf(sharer)) continue;
    const bool is_own = id == sharer;
    if (is_own) claims.front().floor = part.floor;
    const double mean = is_own ? part.mean - own_mean : part.mean;
    if (mean <= kLeastCounted) continue;
    claims.push_back(claim_of(part, mean, is_own ? 0 : part.floor));
    ++groups.front().claims;
  }
  for (const auto& [id, group] : groups_) {
    if (id != GroupOf(sharer)) groups.push_back({group.sharers, group.weight});
  }
  for (const auto& [id, part] : parts_) {
    if (GroupOf(id) != GroupOf(sharer)) claims.push_back(claim_of(part, part.mean, part.floor));
  }
  return ShareOutInGroups(claims, groups, capacity_).front();
}

}  // namespace harmonaize
