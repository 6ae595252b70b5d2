#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/identity/tenant_identity.h"
#include "daemon/promises/promise.h"
#include "daemon/quota/rate_table.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

class JobEvents;
class JobTable;
class PromiseBook;

/// Takes tenants' answers to events that have a deadline, and brings them to the daemon that told
/// of it: an answer is itself an event of the job, which goes to all hosts of the job. Thread:
/// engine.
class NoticeAnswers {
 public:
  /// All of these outlive this object.
  struct Services {
    PromiseBook* book = nullptr;
    JobTable* jobs = nullptr;
    JobEvents* events = nullptr;
  };

  explicit NoticeAnswers(const Services& services);

  /// How much more time a tenant asks for: one of the two.
  struct MoreTime {
    std::optional<double> seconds = {};        ///< Beyond the deadline.
    std::optional<double> until_seconds = {};  ///< Since 1970.
  };

  // Both return what is known of the event with this answer in it. `which` is the event's id, the
  // beginning of it, or the id under which this host's maintenance was announced; of several events
  // it is the one that can still be answered. An answer that has been given already is given again
  // without an effect. Errors: kUnavailable if the tenant has no such event; kInvalidUsage if there
  // is nothing to be answered any more, or several events may be meant; kInProgress if the tenant
  // answers too often.

  /// Notes that the tenant is ready for what the event tells of.
  Result<ToldNotice> Acknowledge(const TenantIdentity& tenant, const std::string& which);
  /// Notes that the tenant asks for more time. Errors besides: kInvalidArgument for a time that is
  /// not after the deadline, or later than kMostAskedSeconds after it.
  Result<ToldNotice> AskForMore(const TenantIdentity& tenant, const std::string& which,
                                const MoreTime& more);

  /// Returns why an event cannot be answered any more; OK where it can be.
  Status CheckOpen(const ToldNotice& told) const;

  /// Most time beyond a deadline that may be asked for, in seconds: thirty days, which is beyond
  /// what any host waits.
  static constexpr double kMostAskedSeconds = 30 * 86400.0;

 private:
  Result<ToldNotice> Find(const TenantIdentity& tenant, const std::string& which) const;
  std::vector<const ToldNotice*> Meant(const TenantIdentity& tenant,
                                       const std::string& which) const;
  Result<ToldNotice> Give(const TenantIdentity& tenant, const ToldNotice& told,
                          double asked_until_seconds);

  const Services services_;
  RateTable answers_;  ///< By tenant.
};

}  // namespace harmonaize::daemon
