#include "plugins/nccl-env/provider_settings.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "src/base/clock.h"
#include "src/ipc/daemon_search.h"
#include "src/ipc/messages.h"
#include "src/ipc/session_versions.h"

namespace harmonaize::nccl_env {
namespace {

/// Waits for the answer. A signal does not prolong the wait: profilers send a hundred a second.
Result<ControlMessage> ReceiveBy(ControlSocket& socket, uint64_t deadline_ns) {
  while (true) {
    const uint64_t now_ns = MonotonicNanoseconds();
    const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    pollfd waiting{socket.fd(), POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>((left_ns + 999'999) / 1'000'000));
    if (ready > 0) return socket.Receive(0);
    if (ready < 0 && errno != EINTR) return ErrnoError(errno, "cannot wait for the daemon");
    if (left_ns == 0) return RemoteError("the daemon did not answer within {} ms", kAnswerWithinMs);
  }
}

std::string_view WithoutSpaces(std::string_view word) {
  const size_t first = word.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return word.substr(first, word.find_last_not_of(" \t") - first + 1);
}

}  // namespace

Permission::Permission(const char* text) {
  std::string_view rest = text == nullptr ? "" : text;
  rest = WithoutSpaces(rest);
  all_ = rest.empty() || rest == "all";
  if (all_ || rest == "none") return;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view word = WithoutSpaces(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (word.empty()) continue;
    (IsNcclSettingName(word) ? names_ : unknown_).emplace_back(word);
  }
}

bool Permission::Allows(std::string_view name) const {
  return all_ || std::find(names_.begin(), names_.end(), name) != names_.end();
}

Result<std::vector<NcclSetting>> AskForSettings() {
  HZ_ASSIGN_OR_RETURN(const VersionRange spoken, ClientVersions());
  HZ_ASSIGN_OR_RETURN(DaemonConnection daemon, FindDaemon(ClientSocketPlaces(), kAnswerWithinMs));
  const uint64_t deadline_ns = MonotonicNanoseconds() + uint64_t{kAnswerWithinMs} * 1'000'000;
  HZ_RETURN_IF_ERROR(daemon.socket.Send(EncodeFirst(NcclSettingsRequest{}, spoken)));
  HZ_ASSIGN_OR_RETURN(const ControlMessage answer, ReceiveBy(daemon.socket, deadline_ns));
  HZ_ASSIGN_OR_RETURN(const MessageHeader header, DecodeHeader(answer.bytes));
  HZ_RETURN_IF_ERROR(CheckAnswer(header, answer.bytes, spoken));
  HZ_RETURN_IF_ERROR(DecodeBody<NcclSettingsReply>(header, answer.bytes).status());
  const auto* const end = reinterpret_cast<const char*>(answer.bytes.data()) + answer.bytes.size();
  HZ_ASSIGN_OR_RETURN(std::vector<NcclSetting> settings,
                      DecodeNcclSettings({end - header.tail_bytes, header.tail_bytes}));
  std::sort(settings.begin(), settings.end());
  return settings;
}

}  // namespace harmonaize::nccl_env
