#include "daemon/http/loopback_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

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

}  // namespace

Result<LoopbackPeers> LoopbackPeers::Open() {
  FileDescriptor fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  if (!fd.valid()) return ErrnoError(errno, "cannot ask the kernel who is connected");
  return LoopbackPeers(std::move(fd));
}

std::optional<uid_t> LoopbackPeers::UserOf(const NetworkAddress& peer, const NetworkAddress& own) {
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

std::optional<uid_t> LoopbackPeers::ReadAnswer() {
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
    return answer.idiag_uid;
  }
  return std::nullopt;
}

}  // namespace harmonaize::daemon
