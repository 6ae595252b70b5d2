#include "daemon/sources/aws_session.h"

#include <algorithm>
#include <array>

namespace harmonaize::daemon {
namespace {

/// Longest token that is believed, in bytes; AWS' have 56.
constexpr size_t kMostAwsTokenBytes = 1024;
/// How long a token is to be good, in seconds: six hours, the longest time that AWS grants.
constexpr const char* kAwsTokenSeconds = "21600";
constexpr const char* kAwsToken = "/latest/api/token";

struct AwsDocument {
  const char* path;
  std::optional<std::string> AwsDocuments::*text;
};

// The history comes last, so that it knows what has left the schedule.
constexpr std::array<AwsDocument, 4> kAwsDocuments = {
    {{"spot/instance-action", &AwsDocuments::spot_action},
     {"events/recommendations/rebalance", &AwsDocuments::rebalance},
     {"events/maintenance/scheduled", &AwsDocuments::scheduled},
     {"events/maintenance/history", &AwsDocuments::history}}};

// It becomes a header.
bool IsAwsToken(const std::string& text) {
  return !text.empty() && text.size() <= kMostAwsTokenBytes &&
         std::all_of(text.begin(), text.end(), [](char one) { return one > ' ' && one < '\x7f'; });
}

}  // namespace

SourceRequest AwsSession::AskForToken() {
  asked_ = SourceRequest{};
  asked_.method = "PUT";
  asked_.target = kAwsToken;
  asked_.headers = {{"X-aws-ec2-metadata-token-ttl-seconds", kAwsTokenSeconds}};
  return asked_;
}

SourceRequest AwsSession::AskForDocument() {
  asked_ = SourceRequest{};
  asked_.target = std::string("/latest/meta-data/") + kAwsDocuments[document_].path;
  asked_.headers = {{"X-aws-ec2-metadata-token", token_}};
  return asked_;
}

Result<SourceRequest> AwsSession::Begin() {
  documents_ = {};
  document_ = 0;
  has_new_token_ = false;
  return token_.empty() ? AskForToken() : AskForDocument();
}

Result<SourceStep> AwsSession::TakeToken(const SourceAnswer& answer) {
  if (answer.status != 200) return UnexpectedStatus(asked_, answer);
  if (!IsAwsToken(answer.body)) return RemoteError("AWS gave a token that is none");
  token_ = answer.body;
  has_new_token_ = true;
  return SourceStep{.next = AskForDocument()};
}

Result<SourceStep> AwsSession::Take(const SourceAnswer& answer) {
  if (asked_.target == kAwsToken) return TakeToken(answer);
  if (answer.status == 401) {
    token_.clear();
    if (has_new_token_) return RemoteError("AWS does not take the token that it gave");
    return SourceStep{.next = AskForToken()};
  }
  if (answer.status != 200 && answer.status != 404) return UnexpectedStatus(asked_, answer);
  if (answer.status == 200) documents_.*kAwsDocuments[document_].text = answer.body;
  if (++document_ < kAwsDocuments.size()) return SourceStep{.next = AskForDocument()};
  return SourceStep{.published = ReadAwsEvents(documents_)};
}

}  // namespace harmonaize::daemon
