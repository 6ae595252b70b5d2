#include "daemon/formation/formation.h"

#include <utility>

#include "daemon/runtime/log_tenant.h"
#include "daemon/tenant/rank_list.h"
#include "src/base/log.h"

namespace harmonaize::daemon {

Formation::Formation(const FormationKey& key, std::string what, std::string name, Tenant* tenant,
                     size_t places, uint64_t now_ns)
    : key_(key),
      what_(std::move(what)),
      name_(std::move(name)),
      tenant_(tenant),
      created_ns_(now_ns),
      places_(places) {}

Formation::~Formation() {
  for (const auto& [place, applicant] : taken_) {
    Member* const member = applicant.member;
    if (member == nullptr || member->formation != this) continue;
    member->formation = nullptr;
    member->Fail(Code::kSystemError, "the daemon failed while the communicator formed");
  }
}

JobIdentity Formation::JobOfRanks() const {
  if (!job_.none()) return job_;
  for (const auto& [place, applicant] : taken_) {
    if (!applicant.claims.none()) return applicant.claims;
  }
  return JobOfUniqueId(key_.id, tenant_->identity.across_hosts);
}

void Formation::Excuse(size_t place) {
  taken_[place] = {};
}

Status Formation::Take(size_t place, Applicant applicant) {
  if (taken(place)) {
    return InvalidUsage("{}: rank {} has already joined: every rank needs a number of its own",
                        what_, place);
  }
  Applicant& taken = taken_[place];
  if (applicant.member != nullptr) {
    applicant.member->formation = this;
    applicant.member->place_in_formation = place;
  }
  taken = std::move(applicant);
  return Status::Ok();
}

std::vector<int> Formation::MissingRanks(size_t most) const {
  std::vector<int> missing;
  size_t place = 0;
  const auto add_up_to = [&](size_t end) {
    for (; place < end && missing.size() < most; ++place) {
      missing.push_back(static_cast<int>(place));
    }
  };
  for (const auto& [next, applicant] : taken_) {
    add_up_to(next);
    if (missing.size() == most) return missing;
    place = next + 1;
  }
  add_up_to(places_);
  return missing;
}

std::string Formation::Missing() const {
  return RankList(MissingRanks(kMostNamedRanks), missing());
}

std::string Formation::WaitText(uint64_t now_ns) const {
  return fmt::format("{} has waited {:.1f} s for {}", what_,
                     static_cast<double>(age_ns(now_ns)) * 1e-9, Missing());
}

std::string Formation::LateNotice(uint64_t now_ns, uint64_t late_after_ns) {
  const uint64_t age = age_ns(now_ns);
  if (age < late_after_ns || now_ns < next_report_ns_) return "";
  next_report_ns_ = now_ns + age;
  const std::string notice = WaitText(now_ns);
  const LogFor log_for(tenant_->identity);
  Log(LogLevel::kWarning, kLogInit, "'{}': {}", name_, notice);
  return notice;
}

}  // namespace harmonaize::daemon
