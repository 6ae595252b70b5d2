#include "daemon/http/loopback_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace harmonaize::daemon {
namespace {

using transport::NetworkAddress;

/// Most datagrams that are read for one answer, in case answers to earlier questions are still
/// there.
constexpr int kMostDatagrams = 4;

/// Room for one answer, in bytes: an inet_diag_msg of 72 bytes and the attributes that the kernel
/// adds unasked, which take some hundred.
constexpr size_t kAnswerBytes = 4096;

void CopyAddress(const NetworkAddress& address, __be32* words, __be16* port) {
  *port = htons(address.port());
  if (address.family() == AF_INET) {
    const auto* const four = reinterpret_cast<const sockaddr_in*>(address.get());
    std::memcpy(words, &four->sin_addr, sizeof four->sin_addr);
  } else {
    const auto* const six = reinterpret_cast<const sockaddr_in6*>(address.get());
    std::memcpy(words, &six->sin6_addr, sizeof six->sin6_addr);
  }
}

/// Returns the number of the control group among the attributes of an answer, since Linux 5.8.
std::optional<uint64_t> ControlGroupIn(std::span<const char> attributes) {
  while (attributes.size() >= sizeof(rtattr)) {
    rtattr header;
    std::memcpy(&header, attributes.data(), sizeof header);
    if (header.rta_len < sizeof header || header.rta_len > attributes.size()) break;
    uint64_t number = 0;
    if (header.rta_type == INET_DIAG_CGROUP_ID && header.rta_len == RTA_LENGTH(sizeof number)) {
      std::memcpy(&number, attributes.data() + RTA_LENGTH(0), sizeof number);
      return number;
    }
    attributes = attributes.subspan(
        std::min(attributes.size(), static_cast<size_t>(RTA_ALIGN(header.rta_len))));
  }
  return std::nullopt;
}

}  // namespace

Result<LoopbackPeers> LoopbackPeers::Open() {
  FileDescriptor fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  if (!fd.valid()) return ErrnoError(errno, "cannot ask the kernel who is connected");
  return LoopbackPeers(std::move(fd));
}

std::optional<uid_t> LoopbackPeers::UserOf(const NetworkAddress& peer, const NetworkAddress& own) {
  const std::optional<LoopbackPeer> found = Find(peer, own);
  return found.has_value() ? std::optional(found->user) : std::nullopt;
}

std::optional<LoopbackPeer> LoopbackPeers::Find(const NetworkAddress& peer,
                                                const NetworkAddress& own) {
  if (peer.family() != own.family() || peer.empty()) return std::nullopt;
  if (!Ask(peer, own)) return std::nullopt;
  return ReadAnswer();
}

bool LoopbackPeers::Ask(const NetworkAddress& peer, const NetworkAddress& own) {
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.header.nlmsg_seq = ++question_;
  question.request.sdiag_family = static_cast<uint8_t>(peer.family());
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = ~0U;
  // The socket that is meant is the peer's, so its source is the peer.
  CopyAddress(peer, question.request.id.idiag_src, &question.request.id.idiag_sport);
  CopyAddress(own, question.request.id.idiag_dst, &question.request.id.idiag_dport);
  question.request.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  question.request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  return sendto(socket_.get(), &question, sizeof question, 0,
                reinterpret_cast<const sockaddr*>(&kernel),
                sizeof kernel) == static_cast<ssize_t>(sizeof question);
}

std::optional<LoopbackPeer> LoopbackPeers::ReadAnswer() {
  for (int i = 0; i < kMostDatagrams; ++i) {
    alignas(nlmsghdr) std::array<char, kAnswerBytes> bytes;
    const ssize_t length = recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (length < static_cast<ssize_t>(sizeof(nlmsghdr))) return std::nullopt;
    nlmsghdr header;
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.nlmsg_seq != question_) continue;
    constexpr size_t kWholeBytes = NLMSG_HDRLEN + sizeof(inet_diag_msg);
    const bool is_whole = static_cast<size_t>(length) >= kWholeBytes;
    if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || !is_whole) return std::nullopt;
    inet_diag_msg answer;
    std::memcpy(&answer, bytes.data() + NLMSG_HDRLEN, sizeof answer);
    // A socket that no process holds has no inode, and its user would be read as root.
    if (answer.idiag_inode == 0) return std::nullopt;
    const size_t begin = std::min<size_t>(NLMSG_ALIGN(kWholeBytes), static_cast<size_t>(length));
    return LoopbackPeer{answer.idiag_uid, ControlGroupIn(std::span<const char>(bytes).subspan(
                                              begin, static_cast<size_t>(length) - begin))};
  }
  return std::nullopt;
}

}  // namespace harmonaize::daemon
