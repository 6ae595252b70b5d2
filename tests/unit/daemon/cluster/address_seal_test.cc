#include "daemon/cluster/address_seal.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace harmonaize::daemon {
namespace {

transport::ClusterKey KeyOf(char filling) {
  const std::string secret(32, filling);
  Result<transport::ClusterKey> key =
      transport::ClusterKey::FromBytes(std::as_bytes(std::span(secret)));
  EXPECT_TRUE(key.ok());
  return *key;
}

UniqueId SealedFor(const AddressSeal& seal, const std::string& address) {
  Result<UniqueId> id = MakeSecretId();
  EXPECT_TRUE(id.ok());
  EXPECT_TRUE(seal.Seal(*transport::NetworkAddress::Parse(address), &*id).ok());
  return *id;
}

TEST(AddressSeal, OpensWhatItSealed) {
  const AddressSeal seal(KeyOf('k'));
  for (const std::string address :
       {"10.0.0.1:7400", "127.0.0.1:1", "[fe80:1234:5678:9abc:def0:1234:5678:9abc]:65535"}) {
    const auto opened = seal.Open(SealedFor(seal, address));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    ASSERT_TRUE(opened->has_value());
    EXPECT_EQ((*opened)->ToString(), address);
  }
}

TEST(AddressSeal, AnIdWithoutAnAddressLeadsNowhere) {
  const Result<UniqueId> id = MakeSecretId();
  const auto opened = AddressSeal(KeyOf('k')).Open(*id);
  ASSERT_TRUE(opened.ok());
  EXPECT_FALSE(opened->has_value());
}

TEST(AddressSeal, AnotherKeyDoesNotOpenIt) {
  const UniqueId id = SealedFor(AddressSeal(KeyOf('k')), "10.0.0.1:7400");
  const auto opened = AddressSeal(KeyOf('j')).Open(id);
  EXPECT_EQ(opened.status().code(), Code::kInvalidArgument);
  EXPECT_NE(opened.status().message().find("another cluster"), std::string::npos);
}

// If any bit of token, address or tag changes, the id leads nowhere.
TEST(AddressSeal, NoBitCanBeChanged) {
  const AddressSeal seal(KeyOf('k'));
  const UniqueId id = SealedFor(seal, "10.0.0.1:7400");
  const auto check = [&](size_t byte) {
    for (int bit = 0; bit < 8; ++bit) {
      UniqueId bent = id;
      reinterpret_cast<uint8_t*>(&bent)[byte] ^= static_cast<uint8_t>(1 << bit);
      EXPECT_FALSE(seal.Open(bent).ok()) << "byte " << byte << " bit " << bit;
    }
  };
  const auto offset_of = [&](const void* field) {
    return static_cast<size_t>(static_cast<const char*>(field) -
                               reinterpret_cast<const char*>(&id));
  };
  for (size_t i = 0; i < id.token.size(); ++i) check(offset_of(&id.token) + i);
  // The unused reserved bytes may have any value.
  for (size_t i = 0; i < 64 + 16; ++i) check(offset_of(&id.reserved) + i);
}

TEST(AddressSeal, ATenantSeesNoAddress) {
  const UniqueId id = SealedFor(AddressSeal(KeyOf('k')), "10.123.45.67:7400");
  const std::string bytes(reinterpret_cast<const char*>(&id), sizeof id);
  EXPECT_EQ(bytes.find("10.123"), std::string::npos);
  EXPECT_EQ(bytes.find("7400"), std::string::npos);
  // The same address looks different in each id.
  const UniqueId other = SealedFor(AddressSeal(KeyOf('k')), "10.123.45.67:7400");
  EXPECT_NE(std::memcmp(&id.reserved, &other.reserved, 64), 0);
}

}  // namespace
}  // namespace harmonaize::daemon
