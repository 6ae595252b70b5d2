#include "src/schedule/check/check.h"

#include "src/schedule/check/races.h"
#include "src/schedule/check/symbolic.h"
#include "src/schedule/check/validate.h"
#include "src/schedule/ir/step_graph.h"
#include "src/schedule/ir/storage.h"

namespace harmonaize {
namespace {

/// Runs the passes of the proof; each relies on what those before it have proved.
Result<SymbolicOutcome> Prove(const Schedule& schedule) {
  HZ_RETURN_IF_ERROR(Validate(schedule));
  HZ_ASSIGN_OR_RETURN(StepGraph graph, StepGraph::Build(schedule));
  const Storage storage(schedule);
  HZ_RETURN_IF_ERROR(CheckRaces(storage, graph));
  return ExecuteSymbolically(schedule, storage, graph);
}

}  // namespace

Status Check(const Schedule& schedule) {
  const Status status = Prove(schedule).status();
  if (status.ok()) return status;
  return Status(status.code(),
                fmt::format("schedule {} ({}, {} ranks): {}", schedule.name,
                            CollectiveName(schedule.collective), schedule.ranks, status.message()));
}

bool ReducesInRankOrder(const Schedule& schedule) {
  const Result<SymbolicOutcome> outcome = Prove(schedule);
  return outcome.ok() && outcome->in_rank_order;
}

Traffic CountTraffic(const Schedule& schedule) {
  Traffic traffic;
  for (const HostProgram& program : schedule.programs) {
    HostTraffic host;
    host.host = program.host;
    for (const Step& step : program.steps) {
      host.read += step.sources.size();
      host.written += step.destinations.size();
      if (step.kind == StepKind::kSend) {
        ++host.sent;
      } else if (step.peer_host >= 0) {
        ++host.received;
      }
    }
    traffic.hosts.push_back(host);
  }
  return traffic;
}

}  // namespace harmonaize
