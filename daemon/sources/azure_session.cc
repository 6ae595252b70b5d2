#include "daemon/sources/azure_session.h"

#include <algorithm>

#include "daemon/sources/azure_events.h"

namespace harmonaize::daemon {
namespace {

/// Longest name of a machine that is believed, in bytes; Azure's have up to 64, and those in scale
/// sets a number besides.
constexpr size_t kMostMachineNameBytes = 128;
constexpr const char* kAzureEvents = "/metadata/scheduledevents?api-version=2020-07-01";
constexpr const char* kAzureName =
    "/metadata/instance/compute/name?api-version=2021-02-01&format=text";

SourceRequest AzureRequest(std::string method, std::string target) {
  SourceRequest request;
  request.method = std::move(method);
  request.target = std::move(target);
  request.headers = {{"Metadata", "true"}};
  return request;
}

bool IsMachineName(const std::string& name) {
  return !name.empty() && name.size() <= kMostMachineNameBytes &&
         std::all_of(name.begin(), name.end(), [](char one) { return one > ' ' && one < '\x7f'; });
}

}  // namespace

Result<SourceRequest> AzureSession::Begin() {
  asked_ = AzureRequest("GET", host_.empty() ? kAzureName : kAzureEvents);
  return asked_;
}

Result<SourceStep> AzureSession::Take(const SourceAnswer& answer) {
  if (answer.status != 200) return UnexpectedStatus(asked_, answer);
  SourceStep step;
  if (asked_.target == kAzureName) {
    if (!IsMachineName(answer.body)) {
      return RemoteError("Azure does not tell this machine's name; configure it as 'node'");
    }
    host_ = answer.body;
    asked_ = AzureRequest("GET", kAzureEvents);
    step.next = asked_;
    return step;
  }
  HZ_ASSIGN_OR_RETURN(step.published, ReadAzureEvents(answer.body, host_));
  return step;
}

SourceRequest AzureApprovalRequest(const std::string& event_id) {
  SourceRequest request = AzureRequest("POST", kAzureEvents);
  request.headers.emplace_back("Content-Type", "application/json");
  request.body = AzureApproval(event_id);
  return request;
}

}  // namespace harmonaize::daemon
