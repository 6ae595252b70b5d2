#pragma once

#include <chrono>
#include <span>

#include "tests/hostile/attacker.h"

namespace harmonaize::testing {

/// One way to turn the daemon against others.
struct Attack {
  const char* name;
  /// Description of a run, for people.
  const char* what;
  void (*run)(Attacker&);
  /// Duration of a run: long enough for a flood to fill its target, short enough that each attack
  /// has several turns within the 20 s of CI.
  std::chrono::milliseconds run_for{300};
  /// Number of hosts that it needs.
  int hosts = 1;
};

/// Returns all attacks, by families.
std::span<const Attack> AllAttacks();

// The front door (door_attacks.cc).
void SendNamesThatAreNoText(Attacker& attacker);
void SendAnyBytes(Attacker& attacker);
void SendTooMuch(Attacker& attacker);
void ShutOneSide(Attacker& attacker);
void ReadNoAnswers(Attacker& attacker);
void HandOverTheSocket(Attacker& attacker);

// Floods (flood_attacks.cc).
void FloodConnections(Attacker& attacker);
void FloodHellos(Attacker& attacker);
void FloodStatus(Attacker& attacker);
void FloodDocuments(Attacker& attacker);
void FloodUniqueIds(Attacker& attacker);
void FloodGrowIds(Attacker& attacker);
void FloodRegistrations(Attacker& attacker);
void FloodProbes(Attacker& attacker);
void FloodFormations(Attacker& attacker);
void FloodStreams(Attacker& attacker);
void FloodOperations(Attacker& attacker);

// The memory that tenant and daemon share for control (ring_attacks.cc).
void PostAnyDescriptors(Attacker& attacker);
void PostNearlyValidDescriptors(Attacker& attacker);
void SetNonsenseTails(Attacker& attacker);
void ScribbleOverTheSession(Attacker& attacker);
void ScribbleOverTheInlineSegment(Attacker& attacker);
void FillSlicesThatNobodyAskedFor(Attacker& attacker);

// Registered memory (memory_attacks.cc).
void RegisterOddFiles(Attacker& attacker);
void GreetWithOddFiles(Attacker& attacker);
void RegisterOddSizes(Attacker& attacker);
void PunchHoles(Attacker& attacker);
void ResizeAndSeal(Attacker& attacker);
void LeaveMemoryUntouched(Attacker& attacker);
void GuardMemoryByFaults(Attacker& attacker);
void RemoveRegionsInUse(Attacker& attacker);
void SendLingeringDescriptors(Attacker& attacker);

// Actions of processes in the midst of operations (process_attacks.cc).
void ExecInMidOperation(Attacker& attacker);
void ForkInMidOperation(Attacker& attacker);
void KillARank(Attacker& attacker);
void StopARank(Attacker& attacker);

// Tickets (ticket_attacks.cc).
void GuessTickets(Attacker& attacker);
void UseTicketsWithoutSense(Attacker& attacker);

// Communicators (membership_attacks.cc).
void NameNumbersOfOthers(Attacker& attacker);
void UseIdsOfOthers(Attacker& attacker);
void MapForeignRegions(Attacker& attacker);
void DisagreeAboutRanks(Attacker& attacker);
void SplitShrinkAndGrow(Attacker& attacker);
void AbortInMidOperation(Attacker& attacker);
void FormAsManyRanksAsMayBe(Attacker& attacker);
void FormOneRankTooMany(Attacker& attacker);
void SplitShrinkAndGrowOverHosts(Attacker& attacker);

// Doors, pipes, profiler rings and RAS (pipe_attacks.cc). Those of pipes work over two hosts where
// there are two.
void KnockAtForeignDoors(Attacker& attacker);
void FloodKnocks(Attacker& attacker);
void FloodDoors(Attacker& attacker);
void PostAnyMessages(Attacker& attacker);
void SendMessagesToNobody(Attacker& attacker);
void ClosePipesInTheMiddle(Attacker& attacker);
void FillProfileRings(Attacker& attacker);
void MisuseRas(Attacker& attacker);

// Communicators over two hosts, whose daemons the attackers use together (cluster_attacks.cc).
void SendToNobody(Attacker& attacker);
void ReceiveFromNobody(Attacker& attacker);
void EndAmongTransfers(Attacker& attacker);
void SendWrongly(Attacker& attacker);
void DisagreeBetweenHosts(Attacker& attacker);
void BeginOnOneHost(Attacker& attacker);
void KillARankBetweenHosts(Attacker& attacker);
void StopARankBetweenHosts(Attacker& attacker);
void FormAndEnd(Attacker& attacker);
void FormHalf(Attacker& attacker);
void NameAddresses(Attacker& attacker);
void SpoilMemoryBetweenHosts(Attacker& attacker);
void PlanAllThereIs(Attacker& attacker);

}  // namespace harmonaize::testing
