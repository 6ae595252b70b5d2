#include "src/probing/nic_counters.h"

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/object.h>
#include <netlink/route/link.h>
#include <netlink/route/tc.h>
#include <netlink/socket.h>
#include <sys/socket.h>

#include <functional>
#include <string_view>
#include <utility>

namespace harmonaize {
namespace {

// Bytes of the receive buffer: the kernel packs an answer of many messages into pieces of up to 32
// KiB.
constexpr size_t kReceiveBufferBytes = 64 << 10;

struct MessageCloser {
  void operator()(nl_msg* message) const { nlmsg_free(message); }
};
using Message = std::unique_ptr<nl_msg, MessageCloser>;
using Take = std::function<void(nl_msg*)>;

int HandOver(nl_msg* message, void* take) {
  (*static_cast<const Take*>(take))(message);
  return NL_OK;
}

// Drops the rest of an answer that was not read to its end, so that it is not taken for the next
// one's.
void DropWhatIsLeft(nl_sock* socket) {
  char byte = 0;
  while (::recv(nl_socket_get_fd(socket), &byte, sizeof byte, MSG_DONTWAIT) > 0) {
  }
}

// Asks the kernel, and passes each message of the answer to `take`. Returns libnl's error if below
// 0.
int Ask(nl_sock* socket, nl_msg* question, Take take) {
  nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, HandOver, &take);
  int result = nl_send_auto(socket, question);
  // The kernel answers within the call that asks, so the answer is there by now.
  if (result >= 0) result = nl_recvmsgs_default(socket);
  if (result < 0) DropWhatIsLeft(socket);
  return result;
}

struct Found {
  int index = 0;  // the kernel's number of the device
  NicCounters counters;
};

void FillLink(nl_object* object, void* found) {
  auto* link = reinterpret_cast<rtnl_link*>(object);
  const auto counted = [link](rtnl_link_stat_id_t id) { return rtnl_link_get_stat(link, id); };
  static_cast<Found*>(found)->index = rtnl_link_get_ifindex(link);
  NicCounters& counters = static_cast<Found*>(found)->counters;
  counters.sent_bytes = counted(RTNL_LINK_TX_BYTES);
  counters.received_bytes = counted(RTNL_LINK_RX_BYTES);
  counters.sent_packets = counted(RTNL_LINK_TX_PACKETS);
  counters.received_packets = counted(RTNL_LINK_RX_PACKETS);
  counters.send_drops = counted(RTNL_LINK_TX_DROPPED);
  counters.receive_drops = counted(RTNL_LINK_RX_DROPPED) + counted(RTNL_LINK_RX_MISSED_ERR);
  counters.send_errors = counted(RTNL_LINK_TX_ERRORS);
  counters.receive_errors = counted(RTNL_LINK_RX_ERRORS);
}

void FillQueue(nl_object* object, void* found) {
  rtnl_tc* queue = TC_CAST(object);
  const char* kind = rtnl_tc_get_kind(queue);
  // Where there is no queue the kernel shows one of this kind, which is always empty.
  if (kind == nullptr || std::string_view(kind) == "noqueue") return;
  static_cast<Found*>(found)->counters.queue =
      SendQueueCounters{.kind = kind,
                        .queued_bytes = rtnl_tc_get_stat(queue, RTNL_TC_BACKLOG),
                        .drops = rtnl_tc_get_stat(queue, RTNL_TC_DROPS),
                        .overlimits = rtnl_tc_get_stat(queue, RTNL_TC_OVERLIMITS)};
}

// Reads the counters of one device. Returns -NLE_NODEV if there is no such device.
//
// rtnl_link_get_kernel() would ask for a card's virtual functions as well, whose counters a driver
// may have to fetch from the firmware one by one.
int ReadLink(nl_sock* socket, const std::string& device, Found* found) {
  const Message question(nlmsg_alloc_simple(RTM_GETLINK, 0));
  ifinfomsg any_link{};
  if (!question || nlmsg_append(question.get(), &any_link, sizeof any_link, NLMSG_ALIGNTO) < 0 ||
      nla_put_string(question.get(), IFLA_IFNAME, device.c_str()) < 0) {
    return -NLE_NOMEM;
  }
  found->counters.device = device;
  return Ask(socket, question.get(), [found](nl_msg* link) {
    // A message that it cannot parse leaves index 0, which no device has.
    (void)nl_msg_parse(link, FillLink, found);
  });
}

// Asks for all queues of the host at once. The kernel also sends the answer for a single device to
// all who watch for changes, but the answer for all queues to nobody else. A card can have hundreds
// of queues; those of other devices are skipped before they are parsed.
int ReadQueues(nl_sock* socket, std::span<Found> found) {
  const Message question(nlmsg_alloc_simple(RTM_GETQDISC, NLM_F_DUMP));
  tcmsg all_queues{};
  if (!question ||
      nlmsg_append(question.get(), &all_queues, sizeof all_queues, NLMSG_ALIGNTO) < 0) {
    return -NLE_NOMEM;
  }
  return Ask(socket, question.get(), [found](nl_msg* queue) {
    if (!nlmsg_valid_hdr(nlmsg_hdr(queue), sizeof(tcmsg))) return;
    const auto* about = static_cast<const tcmsg*>(nlmsg_data(nlmsg_hdr(queue)));
    if (about->tcm_parent != TC_H_ROOT) return;
    for (Found& one : found) {
      if (one.index == about->tcm_ifindex) (void)nl_msg_parse(queue, FillQueue, &one);
    }
  });
}

Status Failure(const char* what, int error) {
  return SystemError("cannot {}: {}", what, nl_geterror(error));
}

}  // namespace

void NicCounterReader::SocketCloser::operator()(nl_sock* socket) const {
  nl_socket_free(socket);
}

Result<std::unique_ptr<NicCounterReader>> NicCounterReader::Open() {
  Socket socket(nl_socket_alloc());
  int error = socket ? nl_connect(socket.get(), NETLINK_ROUTE) : -NLE_NOMEM;
  if (error >= 0) error = nl_socket_set_msg_buf_size(socket.get(), kReceiveBufferBytes);
  if (error >= 0) error = nl_socket_set_nonblocking(socket.get());
  if (error < 0) return Failure("open rtnetlink", error);
  // An answer, or its error, suffices without an acknowledgement.
  nl_socket_disable_auto_ack(socket.get());
  return std::unique_ptr<NicCounterReader>(new NicCounterReader(std::move(socket)));
}

Result<std::vector<NicCounters>> NicCounterReader::Read(std::span<const std::string> devices) {
  std::vector<Found> found;
  for (const std::string& device : devices) {
    // The kernel rejects such a name.
    if (device.empty() || device.size() >= IFNAMSIZ) continue;
    Found one;
    const int error = ReadLink(socket_.get(), device, &one);
    if (error < 0 && error != -NLE_NODEV) return Failure("read a device's counters", error);
    if (one.index != 0) found.push_back(std::move(one));
  }
  if (!found.empty()) {
    const int error = ReadQueues(socket_.get(), found);
    if (error < 0) return Failure("read the devices' queues", error);
  }
  std::vector<NicCounters> counters;
  counters.reserve(found.size());
  for (Found& one : found) counters.push_back(std::move(one.counters));
  return counters;
}

}  // namespace harmonaize
