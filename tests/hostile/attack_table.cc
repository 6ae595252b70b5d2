#include <array>

#include "tests/hostile/attacks.h"

namespace harmonaize::testing {
namespace {

using std::chrono::milliseconds;

/// Forming and planning for 512 ranks takes a second by itself, and more beside others.
constexpr milliseconds kForManyRanks{2500};

/// Forming over hosts takes several turns of both daemons, which are busy.
constexpr milliseconds kBetweenHosts{500};
/// Posting tens of thousands of descriptors takes turns as well.
constexpr milliseconds kForManyTransfers{1000};

constexpr Attack kAttacks[] = {
    {"names", "names that are no text, in every message that has one", SendNamesThatAreNoText},
    {"any bytes", "messages of any type and length, with any contents", SendAnyBytes},
    {"too much", "messages that are too long, with more descriptors than may be", SendTooMuch},
    {"half-closed", "connections of which one side is shut, before and after a question",
     ShutOneSide},
    {"unread answers", "questions whose answers nobody reads", ReadNoAnswers},
    {"handed over", "a session's socket is given to another user's process", HandOverTheSocket},

    {"flood: connections", "connections that say nothing", FloodConnections},
    {"flood: hellos", "sessions, and more of them", FloodHellos},
    {"flood: status", "status and explain over many connections at once", FloodStatus},
    {"flood: documents", "pieces of a status, again and again", FloodDocuments},
    {"flood: unique ids", "unique ids that nobody uses", FloodUniqueIds},
    {"flood: grow ids", "ids for ranks that never come", FloodGrowIds},
    {"flood: regions", "as many regions as the daemon takes", FloodRegistrations},
    {"flood: probes", "probes of any addresses, for any time", FloodProbes},
    {"flood: formations", "communicators that never form", FloodFormations},
    {"flood: streams", "streams opened and closed", FloodStreams},
    {"flood: operations", "operations for which a rank never comes, until the quota ends them",
     FloodOperations},

    {"guessed tickets", "tickets that nobody has made", GuessTickets},
    {"tickets", "tickets and newcomers in any order, and admissions without a growth",
     UseTicketsWithoutSense},

    {"any descriptors", "descriptors with any value in any field", PostAnyDescriptors},
    {"nearly valid", "descriptors of which one field is wrong, among right ones",
     PostNearlyValidDescriptors},
    {"tails", "a ring whose tail makes no sense", SetNonsenseTails},
    {"scribbled session", "another process writes all over the session while operations run",
     ScribbleOverTheSession},
    {"scribbled inline", "the same with the segment of the inline path",
     ScribbleOverTheInlineSegment},
    {"slices", "counts of slices that nobody asked for", FillSlicesThatNobodyAskedFor},

    {"odd files", "pipes, sockets, folders, devices and unsealed files as memory",
     RegisterOddFiles},
    {"odd hellos", "the same as the memory of a session, none, and one for two sessions",
     GreetWithOddFiles},
    {"odd sizes", "memory announced with sizes that it does not have", RegisterOddSizes},
    {"holes", "pages taken away before the daemon reduces them, and meanwhile", PunchHoles},
    {"resized", "memory that grows, is sealed or should shrink while it is used", ResizeAndSeal},
    {"untouched", "operations on memory that its owner has never touched", LeaveMemoryUntouched},
    {"userfault", "memory whose owner answers its page faults, or does not", GuardMemoryByFaults},
    {"removed regions", "regions unregistered while operations use them", RemoveRegionsInUse},
    {"lingering", "descriptors whose closing waits", SendLingeringDescriptors},

    {"exec", "another program takes the process over in mid-operation", ExecInMidOperation},
    {"fork", "several processes use one session", ForkInMidOperation},
    {"killed rank", "a rank is killed in mid-operation", KillARank},
    {"stopped rank", "a rank is stopped in mid-operation, and killed or let go on", StopARank},

    {"numbers of others", "requests for members, regions and streams of any number",
     NameNumbersOfOthers},
    {"ids of others", "unique ids and names of the honest job", UseIdsOfOthers},
    {"foreign regions", "regions of processes that share no communicator", MapForeignRegions},
    {"disagreement", "ranks that disagree about their number, or come twice", DisagreeAboutRanks},
    {"split, shrink, grow", "communicators made of others in any order, with wrong ranks",
     SplitShrinkAndGrow},
    {"abort", "aborts, revocations and departures in mid-operation", AbortInMidOperation},
    {"512 ranks", "a communicator of as many ranks as a host may have, and its operations",
     FormAsManyRanksAsMayBe, kForManyRanks},
    {"513 ranks", "one rank more, at once and by growth", FormOneRankTooMany, kForManyRanks},

    {"foreign doors", "knocks at doors of other users, changed ones, and ones that nobody has",
     KnockAtForeignDoors},
    {"flood: knocks", "thousands of knocks at one door, given up, taken and left", FloodKnocks,
     kBetweenHosts},
    {"flood: doors", "as many doors as sessions, and knocks at all of them", FloodDoors},
    {"any messages", "messages in pipes with any values, among operations", PostAnyMessages,
     kBetweenHosts},
    {"unreceived", "tens of thousands of messages in pipes that nobody receives",
     SendMessagesToNobody, kForManyTransfers},
    {"closed pipes", "pipes closed in the middle of messages", ClosePipesInTheMiddle,
     kBetweenHosts},
    {"profiler rings", "rings of profiler events full of rubbish, and of too much",
     FillProfileRings},
    {"ras", "RAS clients that say nothing, read nothing, or send lines without end", MisuseRas},

    {"hosts: sends", "tens of thousands of sends to another host that nobody receives",
     SendToNobody, kForManyTransfers, 2},
    {"hosts: receives", "tens of thousands of receives from another host that nobody sends",
     ReceiveFromNobody, kForManyTransfers, 2},
    {"hosts: transfers", "transfers between hosts of which a side ends", EndAmongTransfers,
     kForManyTransfers, 2},
    {"hosts: wrong sends", "transfers between hosts that do not fit, or have no memory",
     SendWrongly, kBetweenHosts, 2},
    {"hosts: disagreement", "collectives that are others on each host", DisagreeBetweenHosts,
     kBetweenHosts, 2},
    {"hosts: half begun", "collectives that only the ranks of one host begin", BeginOnOneHost,
     kBetweenHosts, 2},
    {"hosts: killed rank", "a rank is killed in a transfer between hosts", KillARankBetweenHosts,
     kBetweenHosts, 2},
    {"hosts: stopped rank", "a rank is stopped in a transfer between hosts", StopARankBetweenHosts,
     kBetweenHosts, 2},
    {"hosts: formed", "communicators formed over hosts and ended without end", FormAndEnd,
     kBetweenHosts, 2},
    {"hosts: half formed", "communicators to which the ranks of one host do not come", FormHalf,
     kBetweenHosts, 2},
    {"hosts: addresses", "ids that name no daemon, another one, or one that they do not fit",
     NameAddresses, kBetweenHosts, 2},
    {"hosts: derived", "communicators over hosts made of others in any order, with wrong ranks",
     SplitShrinkAndGrowOverHosts, kBetweenHosts, 2},
    {"hosts: memory", "memory spoilt or unregistered while another host is sent it",
     SpoilMemoryBetweenHosts, kBetweenHosts, 2},
    {"hosts: plans", "as many communicators over hosts and kinds of operations as there may be",
     PlanAllThereIs, kForManyRanks, 2},
};
static_assert(std::size(kAttacks) <= kMostAttacks);

}  // namespace

std::span<const Attack> AllAttacks() {
  return kAttacks;
}

}  // namespace harmonaize::testing
