#include "daemon/formation.h"

#include <fmt/ranges.h>

#include <utility>

#include "src/base/log.h"

namespace harmonaize::daemon {

Formation::Formation(std::string what, std::string name, Tenant* tenant, size_t places,
                     uint64_t now_ns)
    : what_(std::move(what)),
      name_(std::move(name)),
      tenant_(tenant),
      created_ns_(now_ns),
      places_(places),
      missing_(places) {}

void Formation::Excuse(size_t place) {
  places_[place].taken = true;
  --missing_;
}

Status Formation::Take(size_t place, Applicant applicant) {
  if (places_[place].taken) {
    return InvalidUsage("{}: rank {} has already joined: every rank needs a number of its own",
                        what_, place);
  }
  --missing_;
  if (applicant.member != nullptr) applicant.member->formation = this;
  places_[place] = {true, std::move(applicant)};
  return Status::Ok();
}

std::string Formation::Missing() const {
  std::vector<size_t> missing;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (!places_[i].taken) missing.push_back(i);
  }
  return fmt::format("rank{} {}", missing.size() == 1 ? "" : "s", fmt::join(missing, ", "));
}

std::string Formation::LateNotice(uint64_t now_ns, uint64_t late_after_ns) {
  const uint64_t age = age_ns(now_ns);
  if (age < late_after_ns || now_ns < next_report_ns_) return "";
  next_report_ns_ = now_ns + age;
  const std::string notice = fmt::format("{} has waited {:.1f} s for {}", what_,
                                         static_cast<double>(age) * 1e-9, Missing());
  Log(LogLevel::kWarning, kLogInit, "'{}': {}", name_, notice);
  return notice;
}

}  // namespace harmonaize::daemon
