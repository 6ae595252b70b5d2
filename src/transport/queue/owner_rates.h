#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "src/transport/message.h"
#include "src/transport/queue/pace.h"
#include "src/transport/queue/token_bucket.h"

namespace harmonaize::transport {

/// What the jobs of one owner send over one device, against their cap and their floor
/// (TenantShare).
class OwnerRate {
 public:
  explicit OwnerRate(uint64_t now_ns) : cap_(0, now_ns), floor_(0, now_ns) {}

  void Set(double floor, double cap, uint64_t now_ns);
  /// Returns the nanoseconds until the cap lets something go; 0: it may go now.
  double WaitNs(uint64_t now_ns);
  /// Returns the bytes by which the owner is behind its floor, by the floor's rate: the seconds
  /// that it lacks. 0 or less: it has had its floor, or there is none.
  double SecondsBehind(uint64_t now_ns);
  void Charge(size_t bytes);
  bool has_floor() const { return has_floor_; }

 private:
  TokenBucket cap_;
  TokenBucket floor_;
  bool has_cap_ = false;
  bool has_floor_ = false;
};

/// The floors and caps of the owners whose messages go over one device of this host, and the bounds
/// of their tenants, whatever connections the messages take. Thread: one, the poller's.
///
/// The floors of a tenant's owners are promised first come, first served, as the controller
/// promises them (FloorBook): what is left of TenantShare::tenant_floor is all that the next owner
/// gets, be it less than its floor. So floors that the controller has not refused yet take no more
/// of a device than the tenant's bound, and nothing from the floors that came before.
class OwnerRates {
 public:
  /// `poller` must outlive this object. If no timer can be made, nobody is called later.
  explicit OwnerRates(Poller* poller);

  /// Notes the terms with which a message comes, at this time.
  void Note(const TenantShare& share, uint64_t now_ns);
  /// Returns nullptr for an owner without floor and cap. As long as the rate is held, the owner is
  /// not forgotten.
  std::shared_ptr<OwnerRate> Of(uint32_t tenant, uint64_t owner) const;
  /// Returns what holds for all owners of a tenant together; nullptr if that is nothing.
  std::shared_ptr<OwnerRate> OfTenant(uint32_t tenant) const { return Of(tenant, kWholeTenant); }
  /// Returns whether caps are kept: not if no timer could be made.
  bool keeps_caps() const { return waits_ != nullptr; }
  /// Has OnLater of `writer` called about `wait_ns` after `now_ns`, or earlier, unless the writer
  /// is forgotten before.
  void CallLater(Poller::Handler* writer, double wait_ns, uint64_t now_ns);
  void Forget(Poller::Handler* writer);
  bool empty() const { return rates_.empty(); }

  /// Time, in nanoseconds, after which an owner that has sent nothing is forgotten: what it owes to
  /// the least cap is less.
  static constexpr uint64_t kForgottenNs = 10'000'000'000;

 private:
  struct Entry {
    std::shared_ptr<OwnerRate> rate;
    uint64_t noted_ns = 0;
    double floor = 0;  // what is promised of its floor
  };
  using Owner = std::pair<uint32_t, uint64_t>;  // with the tenant
  /// Stands for all owners of a tenant. No owner has this number (TenantShare::owner).
  static constexpr uint64_t kWholeTenant = 0;
  void NoteOne(const Owner& owner, double floor, double cap, double tenant_floor, uint64_t now_ns);
  void Promise(uint32_t tenant, double floor, double tenant_floor, Entry* entry);
  void ForgetOld(uint64_t now_ns);

  const std::unique_ptr<WriterWaits> waits_;  // nullptr: no timer could be made
  std::map<Owner, Entry> rates_;
  std::map<uint32_t, double> promised_;  // by tenant: the floors of its entries together
  uint64_t looked_ns_ = 0;               // when old ones were last forgotten
};

}  // namespace harmonaize::transport
