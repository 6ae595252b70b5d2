#include "tests/hostile/daemon_meter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "src/base/json_text.h"
#include "src/ipc/operator_socket.h"

namespace harmonaize::testing {

namespace {

/// Calls `combine` with each value of the sample, and the other's.
template <typename Combine>
void ForEachValue(DaemonSample* sample, const DaemonSample& other, const Combine& combine) {
  combine(&sample->resident_kilobytes, other.resident_kilobytes);
  combine(&sample->proportional_kilobytes, other.proportional_kilobytes);
  combine(&sample->anonymous_kilobytes, other.anonymous_kilobytes);
  combine(&sample->descriptors, other.descriptors);
  combine(&sample->threads, other.threads);
  combine(&sample->mappings, other.mappings);
  combine(&sample->processor_seconds, other.processor_seconds);
}

}  // namespace

DaemonSample& DaemonSample::operator+=(const DaemonSample& other) {
  ForEachValue(this, other, [](auto* value, auto more) { *value += more; });
  return *this;
}

void DaemonSample::RaiseTo(const DaemonSample& other) {
  ForEachValue(this, other, [](auto* value, auto raised) { *value = std::max(*value, raised); });
}

DaemonSample Sample(const DaemonProcess& daemon) {
  DaemonSample sample;
  sample.resident_kilobytes = daemon.NumberIn("smaps_rollup", "Rss");
  sample.proportional_kilobytes = daemon.NumberIn("smaps_rollup", "Pss");
  sample.anonymous_kilobytes = daemon.NumberIn("smaps_rollup", "Anonymous");
  sample.descriptors = daemon.OpenDescriptors();
  sample.threads = static_cast<int>(daemon.NumberIn("status", "Threads"));
  sample.mappings = daemon.Mappings();
  sample.processor_seconds =
      static_cast<double>(daemon.ProcessorTicks()) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return sample;
}

std::string DescribeDescriptors(const DaemonProcess& daemon) {
  std::map<std::string, int> kinds;
  std::error_code ended;
  const std::string folder = fmt::format("/proc/{}/fd", daemon.pid());
  for (const auto& entry : std::filesystem::directory_iterator(folder, ended)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), ended).string();
    // Of "socket:[4711]" the number tells nothing; of "anon_inode:[eventfd]" the kind is wanted.
    const bool numbered = target.starts_with("socket:[") || target.starts_with("pipe:[");
    if (!ended) ++kinds[numbered ? target.substr(0, target.find(':')) : target];
  }
  std::string text;
  for (const auto& [kind, count] : kinds) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  }
  return text;
}

Result<Holdings> FetchHoldings(const DaemonProcess& daemon) {
  HZ_ASSIGN_OR_RETURN(const std::string status,
                      FetchDaemonStatus(OperatorSocketPath(daemon.socket_path())));
  const nlohmann::json report = ReadJson(status);
  if (report.is_discarded()) return InternalError("the status is no JSON: {}", status);
  Holdings holdings;
  for (const nlohmann::json& tenant : report.at("tenants")) {
    for (const nlohmann::json& one : tenant.at("holds")) {
      const auto held = one.at("held").get<int64_t>();
      if (held == 0) continue;
      holdings[tenant.at("uid").get<uid_t>()][one.at("resource").get<std::string>()] = held;
    }
  }
  return holdings;
}

std::string Describe(const Holdings& holdings) {
  std::string text;
  for (const auto& [user, held] : holdings) {
    text += fmt::format("{}uid {}:", text.empty() ? "" : "; ", user);
    for (const auto& [resource, amount] : held) text += fmt::format(" {} {},", amount, resource);
    text.pop_back();
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace harmonaize::testing
