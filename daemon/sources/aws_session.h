#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "daemon/sources/aws_events.h"
#include "daemon/sources/source_session.h"

namespace harmonaize::daemon {

/// Asks AWS' metadata service for each of AwsDocuments, with a session token (IMDSv2), which is
/// fetched once and again when the service takes it no more.
class AwsSession final : public SourceSession {
 public:
  std::string_view name() const override { return "aws"; }
  Result<SourceRequest> Begin() override;
  Result<SourceStep> Take(const SourceAnswer& answer) override;

 private:
  SourceRequest AskForToken();
  SourceRequest AskForDocument();
  Result<SourceStep> TakeToken(const SourceAnswer& answer);

  std::string token_;           // "": none
  bool has_new_token_ = false;  // the token is of this poll
  AwsDocuments documents_;
  size_t document_ = 0;  // place of the document that is asked for
  SourceRequest asked_;
};

}  // namespace harmonaize::daemon
