#include "daemon/cluster/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "daemon/operation_text.h"

namespace harmonaize::daemon {
namespace {

constexpr size_t kMostCases = 1024;

OperationDescriptor DescriptorOf(const RankRequest& request, uint64_t sequence) {
  OperationDescriptor descriptor;
  descriptor.sequence = sequence;
  descriptor.collective = static_cast<Collective>(request.collective);
  descriptor.count = request.count;
  descriptor.type = static_cast<DataType>(request.type);
  descriptor.op = static_cast<ReduceOperator>(request.op);
  descriptor.root = request.root;
  return descriptor;
}

}  // namespace

Agreement::Outcome Agreement::Take(int host, const ProgressMessage& progress, uint64_t now_ns) {
  Outcome outcome;
  Case& one = cases_[progress.sequence];
  if (one.begun_ns == 0) one.begun_ns = now_ns;
  one.by_host[host] = progress;
  if (!one.decided) {
    outcome.verdict = Disagreement(progress.sequence, one);
    if (outcome.verdict.ok()) {
      const Status failure = Failure(one);
      // Of what a transport tells the cause may lie in ranks that disagree: so all are heard first.
      const bool transport = failure.code() == Code::kRemoteError;
      if (!failure.ok() && !transport) outcome.verdict = failure;
      if (transport && AllPosted(one)) outcome.breaks = failure;
    }
    one.decided = !outcome.verdict.ok() || !outcome.breaks.ok();
  }
  if (!std::exchange(one.asked, true) && !one.decided) {
    for (int other = 0; other < hosts_; ++other) {
      if (other != host && !gone_(other)) outcome.ask.push_back(other);
    }
  }
  if (AllDone(one)) cases_.erase(progress.sequence);
  // What was decided is kept for a while, so that who reports it late does not begin anew.
  if (cases_.size() > kMostCases) cases_.erase(cases_.begin());
  return outcome;
}

Status Agreement::Disagreement(uint64_t sequence, const Case& one) const {
  std::vector<std::pair<int, OperationDescriptor>> requests;
  for (const auto& [host, progress] : one.by_host) {
    for (const RankRequest& request : progress.requests) {
      requests.emplace_back(request.rank, DescriptorOf(request, sequence));
    }
  }
  const bool agree = std::all_of(requests.begin(), requests.end(), [&](const auto& request) {
    return Agree(requests.front().second, request.second);
  });
  if (agree) return Status::Ok();
  std::sort(requests.begin(), requests.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> texts;
  for (const auto& [rank, descriptor] : requests) {
    texts.push_back(fmt::format("rank {} asked for {}", rank, RequestOf(descriptor)));
  }
  return InvalidUsage("the ranks disagree about operation #{}: {}", sequence,
                      fmt::join(texts, "; "));
}

Status Agreement::Failure(const Case& one) const {
  for (const auto& [host, progress] : one.by_host) {
    if (progress.state == ProgressMessage::kFailed) return StatusOf(progress.code, progress.why);
  }
  return Status::Ok();
}

bool Agreement::AllPosted(const Case& one) const {
  for (int host = 0; host < hosts_; ++host) {
    if (gone_(host)) continue;
    const auto found = one.by_host.find(host);
    if (found == one.by_host.end() || found->second.state == ProgressMessage::kWaiting) {
      return false;
    }
  }
  return true;
}

bool Agreement::AllDone(const Case& one) const {
  for (int host = 0; host < hosts_; ++host) {
    if (gone_(host)) continue;
    const auto found = one.by_host.find(host);
    if (found == one.by_host.end() || found->second.state != ProgressMessage::kDone) return false;
  }
  return true;
}

std::vector<Agreement::LateOperation> Agreement::Late(uint64_t now_ns, uint64_t late_after_ns) {
  std::vector<LateOperation> late;
  for (auto& [sequence, one] : cases_) {
    const uint64_t age = now_ns - std::min(now_ns, one.begun_ns);
    if (one.decided || age < late_after_ns || now_ns < one.next_report_ns) continue;
    std::vector<int> missing;
    std::string name = fmt::format("operation #{}", sequence);
    LateOperation operation{.sequence = sequence, .notice = "", .ask = {}};
    for (const auto& [host, progress] : one.by_host) {
      missing.insert(missing.end(), progress.missing.begin(), progress.missing.end());
      if (progress.state == ProgressMessage::kWaiting) operation.ask.push_back(host);
      if (progress.requests.empty()) continue;
      const RankRequest& request = progress.requests.front();
      name = NameOf(DescriptorOf(request, sequence), request.rank);
    }
    if (missing.empty()) continue;
    one.next_report_ns = now_ns + age;  // twice as long a wait until the next report
    std::sort(missing.begin(), missing.end());
    operation.notice =
        fmt::format("{} has waited {:.1f} s for rank{} {}", name, static_cast<double>(age) * 1e-9,
                    missing.size() == 1 ? "" : "s", fmt::join(missing, ", "));
    late.push_back(std::move(operation));
  }
  return late;
}

}  // namespace harmonaize::daemon
