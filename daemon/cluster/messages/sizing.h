#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "daemon/cluster/messages/message_list.h"
#include "src/requirements/terms.h"

namespace harmonaize::daemon {

// Messages about the sizes of elastic jobs. Each daemon tells the cluster's controller again and
// again what it knows of them. The controller decides who is offered ranks, and asks the daemons of
// the hosts concerned to make the offers.

/// What the steps of a job took with one number of ranks.
struct SpeedView {
  int ranks = 1;
  double samples = 1;  ///< That a step processes, of all ranks together.
  double step_seconds = 0;
  double exchange_seconds = 0;  ///< The part of a step in which operations were under way.
};

/// An elastic job, as one host knows it.
struct JobSizeView {
  std::vector<uint8_t> job{};  ///< The JobIdentity.
  uint32_t user = 0;           ///< The tenant: TenantIdentity::across_hosts.
  /// Stands for the job's largest communicator at all of its hosts; 0: the host has no ranks of it.
  uint64_t group = 0;
  std::string label{};   ///< Job::label, for people.
  std::string tenant{};  ///< TenantIdentity::name, for people.
  int ranks_here = 0;
  int ranks = 0;  ///< Of all hosts; 0: the host has no ranks of it.
  int room = 0;   ///< How many ranks its agent here would start now.
  // What was granted to it of [elastic] and [job].
  int least = 1;
  int most = 1;
  int step = 1;
  double notice_seconds = 0;
  int priority = 0;
  JobGoal goal = JobGoal::kFastest;
  double deadline_seconds = 0;  ///< Since 1970; 0: there is none.
  // What its ranks here have told of it.
  std::vector<SpeedView> seen{};    ///< One for each number of ranks, the newest last.
  double samples_left = 0;          ///< Until it is done; 0: not known.
  double gradient_noise_scale = 0;  ///< In samples; 0: not known.
  double change_seconds = 0;        ///< How long its last change of ranks held it up; 0: not known.
  // What the offers that this host has made say of it.
  bool is_asked = false;     ///< One is under way.
  double quiet_seconds = 0;  ///< For how long it does not want to be asked.
};

/// Most ranks that are told: of one communicator.
inline constexpr int kMostSizedRanks = 1 << 20;
/// Most jobs in one message: more than any host has places for. With all that is said of each, 1.6
/// KiB at most, they fit a message between daemons.
inline constexpr size_t kMostJobsInSizes = 512;
/// Most numbers of ranks of which a job's speed is told: the last ones, which say most of the next.
inline constexpr size_t kMostSpeedsTold = 8;

/// The places of a host, and the elastic jobs that have ranks or agents there.
struct HostSizesMessage {
  static constexpr MessageKind kKind = MessageKind::kHostSizes;
  std::string host{};  ///< Its name or address, for people.
  int places = 0;      ///< For ranks in all.
  int free = 0;        ///< That no rank has, and that are promised to none.
  int coming = 0;      ///< That ranks will leave by offers under way.
  /// The part of the time in which the host's links are busy with traffic of jobs that are not
  /// elastic, from 0 to 1.
  double link_load = 0;
  std::vector<JobSizeView> jobs{};
};

/// Asks a host's daemon to make an offer to a job there.
struct SizeOfferMessage {
  static constexpr MessageKind kKind = MessageKind::kSizeOffer;
  std::vector<uint8_t> job{};  ///< The JobIdentity.
  uint32_t user = 0;           ///< TenantIdentity::across_hosts.
  uint64_t group = 0;          ///< JobSizeView::group.
  bool grows = false;          ///< Ranks may come; else they are to leave.
  int ranks = 0;
  int least = 1;                     ///< Fewest ranks for which the offer holds, too.
  double answer_seconds = 0;         ///< Within which it is to be answered.
  double due_seconds = 0;            ///< From now until ranks have come or left.
  double latest_due_seconds = 0;     ///< The same, if the job asks for more time.
  std::string why{};                 ///< For the tenant.
  double expected_step_seconds = 0;  ///< Of the job, with all that is offered to it; 0: not known.
  double confidence = 0;             ///< In that, from 0 to 1.
  bool is_urgent = false;
};

// Each of these returns whether another daemon takes the value. One that is sent a message with
// another value ends the link, which all tenants share: what a tenant says has to be looked at
// before it is told.

bool IsSound(const SpeedView& speed);
bool IsSound(const JobSizeView& view);
bool IsSound(const SizeOfferMessage& offer);

using SizingMessages = MessageList<HostSizesMessage, SizeOfferMessage>;

}  // namespace harmonaize::daemon
