#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "daemon/member.h"
#include "daemon/tenant.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Ranks that gather to become a communicator, or several: by a unique id, by a split, a shrink or
/// a growth. Each place is for one rank; when all are taken the formation is complete. Engine
/// thread only.
class Formation {
 public:
  /// `what` names the call for people: "ncclCommInitRank", "ncclCommSplit of communicator 3".
  Formation(std::string what, std::string name, Tenant* tenant, size_t places, uint64_t now_ns);

  const std::string& name() const { return name_; }
  const std::string& what() const { return what_; }
  Tenant& tenant() { return *tenant_; }
  size_t places() const { return places_.size(); }

  /// A rank that will not come, so nobody waits for it.
  void Excuse(size_t place);
  /// Takes a place. `member` is nullptr for a rank that takes part but gets no communicator.
  /// kInvalidUsage when the place is taken.
  Status Take(size_t place, Member* member);

  bool taken(size_t place) const { return places_[place].taken; }
  Member* member(size_t place) const { return places_[place].member; }
  bool complete() const { return missing_ == 0; }

  /// Every rank that has come reads `why`.
  void Fail(const Status& why);
  /// A rank that had come is gone and must not be touched any more.
  void Forget(const Member* member);

  /// Tells those who wait whom they wait for, when that has lasted long enough.
  void ReportLate(uint64_t now_ns, uint64_t late_after_ns);
  /// "ranks 2, 3".
  std::string Missing() const;
  uint64_t age_ns(uint64_t now_ns) const { return now_ns - created_ns_; }

 private:
  struct Place {
    bool taken = false;
    Member* member = nullptr;
  };

  const std::string what_;
  const std::string name_;
  Tenant* const tenant_;
  const uint64_t created_ns_;
  uint64_t next_report_ns_ = 0;
  std::vector<Place> places_;
  size_t missing_;
};

}  // namespace harmonaize::daemon
