#include "daemon/plans/plan_switch.h"

#include <algorithm>

namespace harmonaize::daemon {

void SwitchFollower::Propose(uint64_t round) {
  phase_ = Phase::kPreparing;
  round_ = round;
}

std::optional<uint64_t> SwitchFollower::Promise(uint64_t round, uint64_t next, uint64_t ahead) {
  if (phase_ != Phase::kPreparing || round != round_) return {};
  phase_ = Phase::kPromised;
  promised_ = next + ahead;
  return promised_;
}

bool SwitchFollower::Refuse(uint64_t round) {
  if (phase_ != Phase::kPreparing || round != round_) return false;
  phase_ = Phase::kRefused;
  return true;
}

bool SwitchFollower::Settle(uint64_t round) {
  if (phase_ == Phase::kIdle || round != round_) return false;
  phase_ = Phase::kIdle;
  return true;
}

uint64_t SwitchLeader::Begin() {
  under_way_ = true;
  std::fill(promises_.begin(), promises_.end(), std::nullopt);
  return ++round_;
}

std::optional<SwitchLeader::Settlement> SwitchLeader::OnPromise(int host, uint64_t round,
                                                                uint64_t from) {
  if (!under_way_ || round != round_) return {};
  promises_[static_cast<size_t>(host)] = from;
  uint64_t largest = 0;
  for (const std::optional<uint64_t>& promise : promises_) {
    if (!promise.has_value()) return {};
    largest = std::max(largest, *promise);
  }
  under_way_ = false;
  return Settlement{round_, largest};
}

std::optional<SwitchLeader::Settlement> SwitchLeader::OnRefusal(uint64_t round) {
  if (!under_way_ || round != round_) return {};
  under_way_ = false;
  return Settlement{round_, {}};
}

std::optional<SwitchLeader::Settlement> SwitchLeader::CallOff() {
  return OnRefusal(round_);
}

size_t VersionFor(const std::vector<uint64_t>& begin_at, uint64_t sequence) {
  size_t version = begin_at.size() - 1;
  while (version > 0 && begin_at[version] > sequence) --version;
  return version;
}

}  // namespace harmonaize::daemon
