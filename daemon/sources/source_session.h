#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/sources/published_notices.h"
#include "daemon/sources/sources_config.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Longest body of an answer, in bytes, of the services inside a cloud's machine. Their documents
/// have a few hundred bytes an event.
inline constexpr size_t kMostMetadataBytes = size_t{64} << 10;
/// Longest object of a Kubernetes node, in bytes. It lists up to 50 images with their names, which
/// alone may take 64 KiB.
inline constexpr size_t kMostNodeBytes = size_t{256} << 10;

/// A request to a source.
struct SourceRequest {
  std::string method = "GET";  ///< "GET", "PUT" or "POST".
  std::string target;          ///< Path and query.
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  /// How long the server may hold its answer back because the request asks for that.
  int64_t wait_seconds = 0;
  size_t most_body_bytes = kMostMetadataBytes;
};

/// An answer, with those of its headers that matter.
struct SourceAnswer {
  unsigned status = 0;
  std::string body = {};
  std::string etag = {};             ///< Header ETag.
  std::string metadata_flavor = {};  ///< Header Metadata-Flavor.
};

/// What follows an answer: the poll's next request, or what the source publishes.
struct SourceStep {
  std::optional<SourceRequest> next = {};
  PublishedNotices published = {};
};

/// The conversation with one source: it knows what to ask for and what the answers mean, and sends
/// nothing itself. After an error the poll is over, and the next one begins anew. Thread: one at a
/// time.
class SourceSession {
 public:
  virtual ~SourceSession() = default;
  /// What is asked for, for the log: "aws".
  virtual std::string_view name() const = 0;
  /// Begins a poll and returns its first request. Errors: a file that cannot be read.
  virtual Result<SourceRequest> Begin() = 0;
  /// Takes the answer to the last request.
  virtual Result<SourceStep> Take(const SourceAnswer& answer) = 0;
};

/// Returns the sessions of a source, which are to be held at the same time. Requires: `source` is
/// valid (ValidateSources).
std::vector<std::unique_ptr<SourceSession>> MakeSessions(const SourceConfig& source);

/// Returns the request that lets Azure begin with an event at once.
SourceRequest AzureApprovalRequest(const std::string& event_id);

/// Returns the error for an answer with an unexpected status. Redirects are among them: whoever
/// answers instead of the source does not choose where else to ask.
Status UnexpectedStatus(const SourceRequest& request, const SourceAnswer& answer);

}  // namespace harmonaize::daemon
