#pragma once

#include <optional>
#include <string>

#include "daemon/sources/published_notices.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// The documents that AWS shows an instance, below /latest/meta-data; none for one that there is
/// not (status 404).
struct AwsDocuments {
  std::optional<std::string> spot_action = {};  ///< spot/instance-action
  std::optional<std::string> rebalance = {};    ///< events/recommendations/rebalance
  std::optional<std::string> scheduled = {};    ///< events/maintenance/scheduled
  std::optional<std::string> history = {};      ///< events/maintenance/history
};

/// Translates AWS' documents. A document that is not understood leaves a doubt, and the others
/// count all the same.
///
/// A spot action reclaims the host, and a rebalance recommendation is the risk of it. Of the
/// scheduled events, reboots and maintenance are maintenance, and a stop or retirement reclaims the
/// host. The history says which of them are completed, and which withdrawn.
PublishedNotices ReadAwsEvents(const AwsDocuments& documents);

}  // namespace harmonaize::daemon
