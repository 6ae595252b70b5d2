#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

#include "daemon/cluster/messages/agent.h"
#include "daemon/cluster/messages/checkpoint.h"
#include "daemon/cluster/messages/diagnosis.h"
#include "daemon/cluster/messages/door.h"
#include "daemon/cluster/messages/event.h"
#include "daemon/cluster/messages/formation.h"
#include "daemon/cluster/messages/link.h"
#include "daemon/cluster/messages/outcome.h"
#include "daemon/cluster/messages/pair.h"
#include "daemon/cluster/messages/planning.h"
#include "daemon/cluster/messages/probe.h"
#include "daemon/cluster/messages/sizing.h"
#include "daemon/cluster/messages/ticket.h"
#include "daemon/cluster/messages/tuning.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

// Each of these reads the message of a kind from a document of its fields. They return
// kInvalidArgument if the kind is not among the variant's, and kRemoteError with the field that is
// missing or wrong.

Status Read(uint64_t kind, const nlohmann::json& document, FormationMessage* message);
Status Read(uint64_t kind, const nlohmann::json& document, OutcomeMessage* message);
Status Read(uint64_t kind, const nlohmann::json& document, PlanningMessage* message);
Status Read(uint64_t kind, const nlohmann::json& document, PairMessage* message);
Status Read(uint64_t kind, const nlohmann::json& document, LinkMessage* message);
Status Read(uint64_t kind, const nlohmann::json& document, ProbeMessage* message);
Status Read(uint64_t kind, const nlohmann::json& document, JobMessage* message);
Status Read(uint64_t kind, const nlohmann::json& document, DiagnosisMessage* message);
Status Read(uint64_t kind, const nlohmann::json& document, TicketMessage* message);
Status Read(uint64_t kind, const nlohmann::json& document, AgentsMessage* message);
Status Read(uint64_t kind, const nlohmann::json& document, SizingMessage* message);
Status Read(uint64_t kind, const nlohmann::json& document, CheckpointMessage* message);
Status Read(uint64_t kind, const nlohmann::json& document, DoorMessage* message);
Status Read(uint64_t kind, const nlohmann::json& document, TuningMessage* message);

// Each of these writes the fields of a message.

nlohmann::json Write(const FormationMessage& message);
nlohmann::json Write(const OutcomeMessage& message);
nlohmann::json Write(const PlanningMessage& message);
nlohmann::json Write(const PairMessage& message);
nlohmann::json Write(const LinkMessage& message);
nlohmann::json Write(const ProbeMessage& message);
nlohmann::json Write(const JobMessage& message);
nlohmann::json Write(const DiagnosisMessage& message);
nlohmann::json Write(const TicketMessage& message);
nlohmann::json Write(const AgentsMessage& message);
nlohmann::json Write(const SizingMessage& message);
nlohmann::json Write(const CheckpointMessage& message);
nlohmann::json Write(const DoorMessage& message);
nlohmann::json Write(const TuningMessage& message);

}  // namespace harmonaize::daemon
