#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/checkpoint_advice/hazard.h"
#include "daemon/checkpoint_advice/save_moment.h"
#include "daemon/checkpoint_advice/save_times.h"
#include "daemon/promises/record_store.h"

namespace harmonaize::daemon {

/// A checkpoint that is safe, as its job or the daemon's keeper tells. What is left out is not
/// known.
struct SavedReport {
  uint64_t step = 0;
  SavePlace place = SavePlace::kStorage;
  std::optional<double> stall_seconds = {};  ///< For how long the job stood still for it.
  std::optional<double> safe_seconds = {};   ///< From its begin until it was safe.
  std::optional<uint64_t> bytes = {};
  bool is_epoch_end = false;
  std::string failure = {};  ///< Why it is not safe there, and will not be; "": it is.

  bool operator==(const SavedReport&) const = default;
};

struct KeptSaves;

/// What a job was told of one moment.
struct ToldMoment {
  SaveMoment moment = {};
  double at_seconds = 0;  ///< Since 1970.
};

/// What is known of one job's checkpoints, of the failures that it has caused itself, and of what
/// may end it. Times are in seconds since 1970. A plain value.
class JobSaves {
 public:
  /// Takes in a checkpoint that is safe now. Returns whether it is news: several ranks may tell of
  /// one step, and it may come by several ways. Later it is another one, of a job that went back.
  bool Take(const SavedReport& report, double now_seconds);
  /// Forgets that the checkpoint of a step is safe there.
  void TakeLost(uint64_t step, SavePlace place);
  /// Notes that ranks are lost. Those that are lost together are one failure of the job. Returns
  /// whether it is another one.
  bool TakeFailure(double now_seconds);
  /// Notes that the job ran with so many ranks for so long.
  void Watch(double ranks, double seconds);

  /// Notes something that may end the job, or news of it. Beyond kMostNotices the oldest goes.
  void TakeNotice(SaveNotice notice);
  void EndNotice(const std::string& id);
  /// Forgets notices whose time has passed.
  void ForgetPast(double now_seconds);
  /// Returns the notices, by their ids.
  std::vector<SaveNotice> Notices() const;

  /// Returns whether the job has not been told this yet, or something much like it.
  bool IsNews(const SaveMoment& moment, double now_seconds) const;
  void NoteTold(const SaveMoment& moment, double now_seconds);
  /// Notes what another daemon has told the job, which does not say for which notice: it is the one
  /// with this reason that happens soonest after the window.
  void NoteToldElsewhere(SaveMoment moment, double now_seconds);

  const SaveTimes& times() const { return times_; }
  const SeenFailures& ranks() const { return ranks_; }
  /// The newest checkpoint; nullopt: it has told of none.
  const std::optional<SavedReport>& last() const { return last_; }
  /// When the state of the newest safe checkpoint was taken: of all, and of those that outlive the
  /// hosts.
  std::optional<double> saved_seconds() const { return saved_seconds_; }
  std::optional<double> lasting_seconds() const { return lasting_seconds_; }
  /// When a checkpoint of the interval was advised last.
  std::optional<double> advised_seconds() const { return advised_seconds_; }
  const std::map<std::string, ToldMoment>& told() const { return told_; }
  bool has_reported() const { return last_.has_value(); }

  /// Most notices of a job that are remembered: a host has a handful.
  static constexpr size_t kMostNotices = 32;
  /// Time, in seconds, in which ranks tell of one checkpoint.
  static constexpr double kOneReportSeconds = 300;
  /// Ranks that are lost within this time, in seconds, are one failure: a job dies together.
  static constexpr double kOneFailureSeconds = 60;

 private:
  friend Record RecordOf(const std::string& tenant, const std::string& job, const JobSaves& saves);
  friend std::optional<KeptSaves> KeptSavesIn(const Record& record);

  SaveTimes times_;
  SeenFailures ranks_;
  std::optional<SavedReport> last_;
  double heard_seconds_ = 0;  // when the job told of it
  std::optional<double> saved_seconds_;
  std::optional<double> lasting_seconds_;
  uint64_t lasting_step_ = 0;
  std::optional<double> failed_seconds_;
  std::optional<double> advised_seconds_;
  std::map<std::string, SaveNotice> notices_;
  std::map<std::string, ToldMoment> told_;  // by SaveNotice::id
};

/// What outlives the daemon of a job: all but its notices, which are told again.
struct KeptSaves {
  std::string tenant = {};  ///< TenantIdentity::name.
  std::string job = {};     ///< JobIdentity::text.
  JobSaves saves = {};
};
/// Returns it as a record; and back, nullopt for a record that RecordOf has not made.
Record RecordOf(const std::string& tenant, const std::string& job, const JobSaves& saves);
std::optional<KeptSaves> KeptSavesIn(const Record& record);
/// Kind and key of its record.
inline constexpr char kJobSavesRecord[] = "checkpoints";
std::string JobSavesKey(const std::string& tenant, const std::string& job);

}  // namespace harmonaize::daemon
