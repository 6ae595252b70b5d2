#include "src/transport/queue/owner_rates.h"

#include <algorithm>

namespace harmonaize::transport {
namespace {

/// Most bytes that an owner may have had beyond its floor, so that it gets the floor as soon as
/// others take the rest: a frame.
constexpr double kMostAhead = 64 << 10;

std::unique_ptr<WriterWaits> MakeWaits(Poller* poller) {
  Result<std::unique_ptr<WriterWaits>> waits = WriterWaits::Create(poller);
  return waits.ok() ? std::move(*waits) : nullptr;
}

}  // namespace

void OwnerRate::Set(double floor, double cap, uint64_t now_ns) {
  has_floor_ = floor > 0;
  has_cap_ = cap > 0;
  if (has_floor_) floor_.SetRate(floor, now_ns);
  if (has_cap_) cap_.SetRate(std::max(cap, Pace::kLeastRate), now_ns);
}

double OwnerRate::WaitNs(uint64_t now_ns) {
  if (!has_cap_ || cap_.At(now_ns) > 0) return 0;
  return cap_.WaitNs();
}

double OwnerRate::SecondsBehind(uint64_t now_ns) {
  return has_floor_ ? floor_.At(now_ns) / floor_.bytes_per_second() : 0;
}

void OwnerRate::Charge(size_t bytes) {
  if (has_cap_) cap_.Charge(bytes);
  if (!has_floor_) return;
  floor_.Charge(bytes);
  floor_.Forgive(kMostAhead);
}

OwnerRates::OwnerRates(Poller* poller) : waits_(MakeWaits(poller)) {}

void OwnerRates::Note(const TenantShare& share, uint64_t now_ns) {
  if (share.owner == 0) return;
  ForgetOld(now_ns);
  NoteOne({share.tenant, share.owner}, share.floor, share.cap, share.tenant_floor, now_ns);
  NoteOne({share.tenant, kWholeTenant}, 0, share.tenant_cap, 0, now_ns);
}

void OwnerRates::NoteOne(const Owner& owner, double floor, double cap, double tenant_floor,
                         uint64_t now_ns) {
  auto found = rates_.find(owner);
  if (found == rates_.end()) {
    if (floor <= 0 && cap <= 0) return;
    found = rates_.emplace(owner, Entry{std::make_shared<OwnerRate>(now_ns)}).first;
  }
  Entry& entry = found->second;
  Promise(owner.first, floor, tenant_floor, &entry);
  entry.rate->Set(entry.floor, cap, now_ns);
  entry.noted_ns = now_ns;
}

/// Sets what is promised of an owner's floor: what the tenant's other floors leave of its bound; 0:
/// there is no bound.
void OwnerRates::Promise(uint32_t tenant, double floor, double tenant_floor, Entry* entry) {
  if (floor <= 0 && entry->floor <= 0) return;
  double& promised = promised_[tenant];
  promised -= entry->floor;
  const double room = tenant_floor - std::max(promised, 0.0);
  entry->floor = tenant_floor > 0 ? std::clamp(room, 0.0, floor) : floor;
  promised += entry->floor;
}

std::shared_ptr<OwnerRate> OwnerRates::Of(uint32_t tenant, uint64_t owner) const {
  const auto found = rates_.find({tenant, owner});
  return found == rates_.end() ? nullptr : found->second.rate;
}

void OwnerRates::CallLater(Poller::Handler* writer, double wait_ns, uint64_t now_ns) {
  if (waits_ != nullptr) waits_->Add(writer, wait_ns, now_ns);
}

void OwnerRates::Forget(Poller::Handler* writer) {
  if (waits_ != nullptr) waits_->Forget(writer);
}

// Looks once in a while, so that many owners that come cost little each.
void OwnerRates::ForgetOld(uint64_t now_ns) {
  if (now_ns - looked_ns_ < kForgottenNs) return;
  looked_ns_ = now_ns;
  std::erase_if(rates_, [now_ns](const auto& one) {
    const Entry& entry = one.second;
    return entry.rate.use_count() == 1 && now_ns - entry.noted_ns > kForgottenNs;
  });
  promised_.clear();
  for (const auto& [owner, entry] : rates_) {
    if (entry.floor > 0) promised_[owner.first] += entry.floor;
  }
}

}  // namespace harmonaize::transport
