#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cluster/this_daemon.h"
#include "daemon/identity/job_identity.h"
#include "daemon/tenant/member.h"
#include "daemon/tenant/tenant.h"
#include "src/base/status.h"
#include "src/ipc/unique_id.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// A rank that takes part in a formation: a rank of this host, or one for which another daemon
/// speaks. A rank that is neither takes part but gets no communicator.
struct Applicant {
  Member* member = nullptr;
  transport::PeerId peer = kThisDaemon;
  uint64_t ticket = 0;       ///< With a peer: ApplyMessage::ticket.
  std::string address = {};  ///< With a peer: where its daemon is reached.
  std::string host = {};     ///< With a peer: its name in the fabric, where it was told.
  JobIdentity claims = {};   ///< The job that its process claims; none: it claims none.
  bool on_gpu = false;       ///< FormationRequest::on_gpu.

  bool gets_communicator() const { return member != nullptr || ticket != 0; }
};

/// Key by which the calls of several ranks meet in one formation.
struct FormationKey {
  enum class Kind { kNamedId, kSecretId, kSplit, kShrink, kGrow } kind;
  UniqueId id{};        ///< Of the first two.
  uint32_t tenant = 0;  ///< Of a named id.
  uint64_t parent = 0;  ///< Of the last three: Communicator::id().
  uint64_t round = 0;   ///< Of a split; of a shrink: the first rank that remains.
  auto operator<=>(const FormationKey&) const = default;
};

/// Returns the reason why a formation fails from which a rank withdraws. `what` names the call,
/// "ncclCommSplit", and `missing` the ranks that have not come, "ranks 2, 3".
using WhyWithdrawn = std::function<Status(const std::string& what, const std::string& missing)>;

/// What can be done about ranks that do not come, for people.
inline constexpr std::string_view kWayOutOfMissing =
    "look whether the processes of these ranks run, and come to this call";

/// Ranks that gather to become a communicator, or several: by a unique id, by a split, a shrink or
/// a growth. Each place is for one rank; when all are taken the formation is complete. Thread:
/// engine.
class Formation {
 public:
  /// `what` names the call for people: "ncclCommInitRank", "ncclCommSplit".
  Formation(const FormationKey& key, std::string what, std::string name, Tenant* tenant,
            size_t places, uint64_t now_ns);

  /// Fails the members that still wait here. There are some only after an exception.
  ~Formation();
  Formation(const Formation&) = delete;
  Formation& operator=(const Formation&) = delete;

  const FormationKey& key() const { return key_; }
  const std::string& name() const { return name_; }
  const std::string& what() const { return what_; }
  Tenant& tenant() { return *tenant_; }
  size_t places() const { return places_; }

  /// Sets the job of what forms to that of the parent.
  void SetJob(const JobIdentity& job) { job_ = job; }
  /// Returns the job of what forms: the parent's, or that which the lowest rank with a claim
  /// claims, or one that comes from the unique id.
  JobIdentity JobOfRanks() const;

  /// Notes that the place's rank will not come: the formation does not wait for it.
  void Excuse(size_t place);
  /// kInvalidUsage when the place is taken.
  Status Take(size_t place, Applicant applicant);

  bool taken(size_t place) const { return taken_.contains(place); }
  /// Returns the applicant of a place that is taken. For a place that was excused or forgotten it
  /// is an applicant that gets no communicator.
  const Applicant& applicant(size_t place) const { return taken_.at(place); }
  /// Returns the applicants by place. A tenant may ask for many more places than are ever taken.
  const std::map<size_t, Applicant>& taken() const { return taken_; }
  bool complete() const { return taken_.size() == places_; }

  /// Notes that a rank that had come is gone, and must not be told anything any more.
  void Forget(size_t place) { taken_.at(place) = {}; }
  /// Returns the places for whose applicants the predicate holds.
  template <typename Predicate>
  std::vector<size_t> PlacesWhere(Predicate predicate) const {
    std::vector<size_t> found;
    for (const auto& [place, applicant] : taken_) {
      if (predicate(applicant)) found.push_back(place);
    }
    return found;
  }

  /// Returns the notice for the ranks that wait, which says whom they wait for; "" if they have not
  /// waited long enough since the last notice.
  std::string LateNotice(uint64_t now_ns, uint64_t late_after_ns);
  /// Returns the ranks that have not come, the lowest first, and no more than `most` of them.
  std::vector<int> MissingRanks(size_t most) const;
  /// Returns how many ranks have not come.
  size_t missing() const { return places_ - taken_.size(); }
  /// Returns the ranks that have not come: "ranks 2, 3".
  std::string Missing() const;
  /// Returns whom the ranks wait for: "ncclCommInitRank has waited 5.0 s for ranks 2, 3".
  std::string WaitText(uint64_t now_ns) const;
  /// Returns the name of what forms for people; a communicator without a name has no id yet.
  std::string label() const { return name_.empty() ? "forming" : name_; }
  uint64_t age_ns(uint64_t now_ns) const { return now_ns - created_ns_; }

 private:
  const FormationKey key_;
  const std::string what_;
  const std::string name_;
  Tenant* const tenant_;
  const uint64_t created_ns_;
  uint64_t next_report_ns_ = 0;
  const size_t places_;
  JobIdentity job_;  ///< The parent's; none: there is no parent.
  std::map<size_t, Applicant> taken_;
};

}  // namespace harmonaize::daemon
