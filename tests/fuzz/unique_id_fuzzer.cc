// Unique ids, which tenants hand around and may change: what they are made from, and the address
// that a daemon of the cluster has sealed into them.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cluster/address_seal.h"
#include "src/ipc/unique_id.h"
#include "src/transport/address.h"
#include "src/transport/cluster_key.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

using daemon::AddressSeal;
using transport::ClusterKey;
using transport::NetworkAddress;

/// The bits of an id that were flipped.
struct Change {
  uint8_t place = 0;  ///< Of the byte.
  uint8_t bits = 0;
};

const AddressSeal& Seal() {
  static const std::array<std::byte, ClusterKey::kMinBytes> kBytes = {std::byte{7}};
  static const AddressSeal kSeal(*ClusterKey::FromBytes(kBytes));
  return kSeal;
}

void RequireSameWhenRead(const NetworkAddress& address) {
  const Result<NetworkAddress> again = NetworkAddress::Parse(address.ToString());
  RequireOk(again.status(), "an address can be read as it is written");
  Require(again->ToString() == address.ToString(), "an address is the same when it is read again");
  Require(again->SameHost(address) && again->port() == address.port(), "all of it");
}

/// Any bytes as an id.
void OpenForeign(const UniqueId& id) {
  if (!CheckUniqueId(id).ok()) return;
  Require(NameOfId(id).size() <= UniqueId::kReservedBytes, "a name lies in the id");
  const auto address = Seal().Open(id);
  if (address.ok() && address->has_value()) RequireSameWhenRead(**address);
}

/// An id of this cluster leads to its address, and one that was changed nowhere.
void OpenSealed(const NetworkAddress& address, UniqueId id, const Change& change) {
  id.kind = UniqueId::Kind::kSecret;
  if (!Seal().Seal(address, &id).ok()) return;
  const auto opened = Seal().Open(id);
  RequireOk(opened.status(), "what was sealed opens");
  Require(opened->has_value() && (*opened)->ToString() == address.ToString(), "the same address");
  // Behind the sealed address an id has bytes that say nothing.
  const size_t sealed = sizeof id.token + 64 + 16;
  auto* bytes = reinterpret_cast<uint8_t*>(&id.token) + change.place % sealed;
  *bytes = static_cast<uint8_t>(*bytes ^ change.bits);
  Require(Seal().Open(id).ok() == (change.bits == 0), "one that was changed does not open");
}

void Run(Input input) {
  auto id = input.Take<UniqueId>();
  OpenForeign(id);
  const auto change = input.Take<Change>();
  const Result<NetworkAddress> address = NetworkAddress::Parse(TextOf(input.TakeRest()), 7400);
  if (!address.ok()) return;
  RequireSameWhenRead(*address);
  OpenSealed(*address, id, change);
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::Input(data, size));
  return 0;
}
