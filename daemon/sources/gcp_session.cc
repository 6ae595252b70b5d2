#include "daemon/sources/gcp_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/sources/gcp_events.h"

namespace harmonaize::daemon {
namespace {

/// Longest ETag that is sent back, in bytes; GCP's have 16.
constexpr size_t kMostEtagBytes = 64;

// It becomes a part of a query.
bool IsEtag(const std::string& text) {
  return text.size() <= kMostEtagBytes && std::all_of(text.begin(), text.end(), [](char one) {
           return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') ||
                  (one >= '0' && one <= '9') || one == '-' || one == '_';
         });
}

}  // namespace

std::string_view GcpSession::name() const {
  return value_ == GcpValue::kPreempted ? "gcp's preempted" : "gcp's maintenance-event";
}

Result<SourceRequest> GcpSession::Begin() {
  asked_ = SourceRequest{};
  asked_.target = std::string("/computeMetadata/v1/instance/") +
                  (value_ == GcpValue::kPreempted ? "preempted" : "maintenance-event");
  asked_.headers = {{"Metadata-Flavor", "Google"}};
  if (const std::string etag = std::exchange(etag_, ""); !etag.empty()) {
    asked_.target +=
        fmt::format("?wait_for_change=true&last_etag={}&timeout_sec={}", etag, kGcpWaitSeconds);
    asked_.wait_seconds = kGcpWaitSeconds;
  }
  return asked_;
}

Result<SourceStep> GcpSession::Take(const SourceAnswer& answer) {
  if (answer.status != 200) return UnexpectedStatus(asked_, answer);
  if (answer.metadata_flavor != "Google") {
    return RemoteError("the answer to {} is not of GCP's metadata server", asked_.target);
  }
  SourceStep step;
  if (value_ == GcpValue::kPreempted) {
    HZ_ASSIGN_OR_RETURN(step.published, ReadGcpPreempted(answer.body));
  } else {
    HZ_ASSIGN_OR_RETURN(step.published, ReadGcpMaintenance(answer.body));
  }
  if (IsEtag(answer.etag)) etag_ = answer.etag;
  return step;
}

}  // namespace harmonaize::daemon
