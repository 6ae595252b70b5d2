#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cluster/messages/formation.h"
#include "daemon/identity/job_identity.h"
#include "src/base/status.h"
#include "src/ipc/unique_id.h"

namespace harmonaize::daemon {

class CommunicatorRegistry;

/// A rank's application for its place in a communicator that forms.
struct FormationRequest {
  FormationKind kind = FormationKind::kJoin;
  UniqueId id{};                ///< kJoin, kJoinGrowth.
  uint64_t parent = 0;          ///< kSplit, kShrink, kGrow: Communicator::id(); 0: it is gone.
  uint64_t round = 0;           ///< kSplit: which split of the rank's.
  int ranks = 0;                ///< kJoin, kGrow, kJoinGrowth: of the new communicator.
  int rank = 0;                 ///< In the new one; kSplit, kShrink, kGrow: in the parent.
  std::optional<int> color{};   ///< kSplit; none: the rank gets no communicator.
  int key = 0;                  ///< kSplit.
  std::vector<int> excluded{};  ///< kShrink. Sorted.
  std::string name{};           ///< Of the new communicator; "": the parent's.
  JobIdentity claims{};         ///< The job that the rank's process claims; none: it claims none.
  uint32_t user = 0;            ///< The rank's: TenantIdentity::across_hosts.
  bool on_gpu = false;          ///< kJoin: it uses a GPU, and stock NCCL could carry its calls.

  /// Whether the rank gets a communicator.
  bool gets_communicator() const { return kind != FormationKind::kSplit || color.has_value(); }
};

/// The call by which ranks apply: "ncclCommSplit".
const char* CallOf(FormationKind kind);

/// Returns the request as a message to another daemon, without ticket, address and host. Requires:
/// the parent, if any, spans hosts.
ApplyMessage EncodeRequest(const FormationRequest& request,
                           const CommunicatorRegistry& communicators);
/// Returns the request of a rank of another host. Errors: kInvalidArgument for bytes that no daemon
/// has given out as an id.
Result<FormationRequest> DecodeRequest(const ApplyMessage& message,
                                       const CommunicatorRegistry& communicators);

// Ids as messages of the cluster hold them.

std::vector<uint8_t> EncodeId(const UniqueId& id);
/// Errors: kInvalidArgument for bytes that no daemon has given out as an id.
Result<UniqueId> DecodeId(const std::vector<uint8_t>& bytes);

}  // namespace harmonaize::daemon
