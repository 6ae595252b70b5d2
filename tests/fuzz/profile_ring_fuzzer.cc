// Rings of profiler events, which a process of a tenant can fill with anything at any time, and the
// statistics that are made of them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/profiles/job_profile.h"
#include "src/base/clean_text.h"
#include "src/ipc/profile_ring.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

using daemon::Account;
using daemon::CommunicatorProfile;
using daemon::HostHoldings;
using daemon::JobProfile;
using daemon::ProfileCounts;
using daemon::ProfileReport;
using daemon::Resource;
using daemon::ResourceLimits;

/// Bytes of the daemon's memory that the tenant may take: less than a job may, so that some of the
/// inputs meet the end of it.
constexpr int64_t kMemory = 100'000;

/// What a process does next.
enum class Step : uint8_t {
  kWrite,
  kScribble,
  kSetTail,
  kSetHead,
  kSetLost,
  kRead,
  kLater,
  kSteps
};

class Tenant {
 public:
  Tenant() : ring_(std::make_unique<ProfileRing>()), reader_(ring_.get()) {
    ResourceLimits limits;
    limits.fill({1, 1});
    limits[static_cast<size_t>(Resource::kMemory)] = {kMemory, 4 * kMemory};
    account_ = std::make_shared<Account>(std::make_shared<HostHoldings>(limits), "tenant");
    profile_ = std::make_unique<JobProfile>(account_);
    profile_->BeginProcess();
  }

  void Do(Step step, Input& input) {
    switch (step) {
      case Step::kWrite: WriteProfileWords(ring_.get(), input.Take<ProfileWords>()); break;
      case Step::kScribble: {
        ProfileSlot& slot = ring_->slots[input.Take<uint16_t>() % kProfileSlots];
        slot.turn.store(input.Take<uint64_t>());
        for (auto& word : slot.words) word.store(input.Take<uint64_t>());
        break;
      }
      case Step::kSetTail: ring_->tail.store(input.Take<uint64_t>()); break;
      case Step::kSetHead: ring_->head.store(input.Take<uint64_t>()); break;
      case Step::kSetLost: ring_->lost.store(input.Take<uint64_t>()); break;
      case Step::kRead: Read(); break;
      case Step::kLater: now_ns_ += kProfileHoleNanoseconds / 2; break;
      case Step::kSteps: break;
    }
  }

  void Read() {
    std::array<ProfileWords, 8> taken{};
    const size_t count = reader_.Take(taken, now_ns_);
    Require(count <= taken.size(), "no more are taken than fit");
    profile_->Add(&process_, std::span(taken).first(count), reader_.TakeLost(), &counts_);
  }

  void RequireBounds() {
    const ProfileReport report = profile_->Report();
    Require(report.communicators.size() <= JobProfile::kMostCommunicators,
            "communicators are bounded");
    Require(account_->held(Resource::kMemory) <= kMemory, "the tenant pays for what is held");
    uint64_t events = RequireRows(report.others);
    for (const CommunicatorProfile& one : report.communicators) {
      RequireClean(one.name, "names can be printed");
      events += RequireRows(one);
    }
    Require(events >= report.events, "each event is in a row");
  }

  void End() {
    profile_->EndProcess(&process_);
    for (const CommunicatorProfile& one : profile_->Report().communicators) {
      Require(one.processes == 0, "a process that has ended has no communicators");
    }
  }

 private:
  static uint64_t RequireRows(const CommunicatorProfile& communicator) {
    Require(communicator.rows.size() <= JobProfile::kMostRows, "rows are bounded");
    uint64_t events = 0;
    for (const auto& [key, row] : communicator.rows) events += row.events;
    return events;
  }

  std::unique_ptr<ProfileRing> ring_;
  ProfileRingReader reader_;
  std::shared_ptr<Account> account_;
  std::unique_ptr<JobProfile> profile_;
  JobProfile::Process process_;
  ProfileCounts counts_;
  uint64_t now_ns_ = 1;
};

void Run(Input input) {
  Tenant tenant;
  while (!input.empty()) {
    const size_t step = input.TakeUpTo(static_cast<size_t>(Step::kSteps) - 1);
    tenant.Do(static_cast<Step>(step), input);
  }
  for (int i = 0; i < 64; ++i) tenant.Read();
  tenant.RequireBounds();
  tenant.End();
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::Input(data, size));
  return 0;
}
