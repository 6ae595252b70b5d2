#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "daemon/cluster/messages/message.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// A SubjectCodec writes and reads the messages about one subject. Each subject's source defines
/// one (fields::CodecOf).
struct SubjectCodec {
  /// Reads a message from a document of its fields. Returns nullopt for a kind that is none of this
  /// subject's. Errors: kRemoteError with the field that is missing or wrong.
  std::optional<Result<ClusterMessage>> (*read)(uint64_t kind,
                                                const nlohmann::json& document) = nullptr;
  /// Writes the fields of a message. Returns false for a message of another subject.
  bool (*write)(const ClusterMessage& message, nlohmann::json* document) = nullptr;
  /// Returns the field `communicator` of a message; nullopt if it has none, or is of another
  /// subject.
  std::optional<uint64_t> (*communicator)(const ClusterMessage& message) = nullptr;
};

extern const SubjectCodec kFormationCodec;
extern const SubjectCodec kOutcomeCodec;
extern const SubjectCodec kPlanningCodec;
extern const SubjectCodec kPairCodec;
extern const SubjectCodec kLinkCodec;
extern const SubjectCodec kProbeCodec;
extern const SubjectCodec kJobCodec;
extern const SubjectCodec kDiagnosisCodec;
extern const SubjectCodec kTicketCodec;
extern const SubjectCodec kAgentsCodec;
extern const SubjectCodec kSizingCodec;
extern const SubjectCodec kCheckpointCodec;
extern const SubjectCodec kDoorCodec;
extern const SubjectCodec kTuningCodec;

}  // namespace harmonaize::daemon
