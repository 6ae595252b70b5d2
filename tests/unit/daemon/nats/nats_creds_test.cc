// A server whose accounts and users are tokens, and a daemon with a .creds file, which proves that
// it has the user's key without sending it.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <time.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/nats/nats_connection.h"
#include "src/base/json_text.h"
#include "tests/unit/daemon/nats/captured_log.h"
#include "tests/unit/daemon/nats/nats_server_process.h"

namespace harmonaize::daemon {
namespace {

using harmonaize::testing::NatsServerProcess;
using nlohmann::json;

/// Returns bytes as text with an alphabet of 2^bits characters, without padding (RFC 4648).
std::string Encoded(std::string_view bytes, int bits, std::string_view alphabet) {
  std::string text;
  uint32_t rest = 0;
  int have = 0;
  for (const char byte : bytes) {
    rest = rest << 8 | static_cast<unsigned char>(byte);
    for (have += 8; have >= bits; have -= bits) {
      text += alphabet[rest >> (have - bits) & ((1U << bits) - 1)];
    }
  }
  if (have > 0) text += alphabet[rest << (bits - have) & ((1U << bits) - 1)];
  return text;
}

std::string Base64Url(std::string_view bytes) {
  return Encoded(bytes, 6, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");
}

/// Returns bytes as the text form of NATS's keys: base 32, with a checksum (CRC-16 of XMODEM).
std::string KeyText(std::string bytes) {
  uint16_t checksum = 0;
  for (const char byte : bytes) {
    checksum = static_cast<uint16_t>(checksum ^ static_cast<unsigned char>(byte) << 8);
    for (int i = 0; i < 8; ++i) {
      checksum =
          static_cast<uint16_t>((checksum & 0x8000) != 0 ? checksum << 1 ^ 0x1021 : checksum << 1);
    }
  }
  bytes += static_cast<char>(checksum & 0xff);
  bytes += static_cast<char>(checksum >> 8);
  return Encoded(bytes, 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567");
}

/// A pair of keys of an operator, an account or a user.
struct KeyPair {
  std::string name;  ///< The public key.
  std::string seed;
  std::shared_ptr<EVP_PKEY> key = nullptr;
};

/// Makes one. Its kind is the first letter of its public key: 'O', 'A' or 'U'.
KeyPair MakeKeys(char kind) {
  const std::shared_ptr<EVP_PKEY> key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"),
                                      EVP_PKEY_free);
  std::array<unsigned char, 32> bytes{};
  size_t size = bytes.size();
  const auto text_of = [&] { return std::string(reinterpret_cast<char*>(bytes.data()), size); };
  const int prefix = (kind - 'A') << 3;
  KeyPair pair{.name = "", .seed = "", .key = key};
  EXPECT_EQ(EVP_PKEY_get_raw_public_key(key.get(), bytes.data(), &size), 1);
  pair.name = KeyText(std::string(1, static_cast<char>(prefix)) + text_of());
  EXPECT_EQ(EVP_PKEY_get_raw_private_key(key.get(), bytes.data(), &size), 1);
  const int seed_prefix = ('S' - 'A') << 3;
  pair.seed = KeyText(std::string{static_cast<char>(seed_prefix | prefix >> 5),
                                  static_cast<char>((prefix & 31) << 3)} +
                      text_of());
  return pair;
}

/// Returns a token about `about`, signed by `by`.
std::string Token(const KeyPair& about, const KeyPair& by, const std::string& name, json claims) {
  claims["version"] = 2;
  const json payload = {{"jti", name},  {"iat", time(nullptr)}, {"iss", by.name},
                        {"name", name}, {"sub", about.name},    {"nats", std::move(claims)}};
  const std::string text =
      Base64Url(R"({"typ":"JWT","alg":"ed25519-nkey"})") + "." + Base64Url(JsonText(payload));
  std::array<unsigned char, 64> signature{};
  size_t size = signature.size();
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  EXPECT_EQ(EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, by.key.get()), 1);
  EXPECT_EQ(EVP_DigestSign(context.get(), signature.data(), &size,
                           reinterpret_cast<const unsigned char*>(text.data()), text.size()),
            1);
  return text + "." + Base64Url({reinterpret_cast<char*>(signature.data()), size});
}

std::string CredsFile(const std::string& token, const KeyPair& user) {
  return fmt::format(
      "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n"
      "-----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
      token, user.seed);
}

class NatsCredsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string why_not = NatsServerProcess::WhyNot();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    json limits = {{"wildcards", true}};
    for (const char* const name : {"subs", "data", "payload", "imports", "exports", "conn", "leaf",
                                   "mem_storage", "disk_storage", "streams", "consumer"}) {
      limits[name] = -1;
    }
    const std::string operator_token =
        Token(operator_, operator_, "provider", {{"type", "operator"}});
    json without_streams = limits;
    for (const char* const name : {"mem_storage", "disk_storage", "streams", "consumer"}) {
      without_streams.erase(name);
    }
    const auto account_token = [&](const KeyPair& account, const json& limited) {
      return Token(account, operator_, "account", {{"type", "account"}, {"limits", limited}});
    };
    const KeyPair of_the_system = MakeKeys('A');
    server_ = std::make_unique<NatsServerProcess>(
        fmt::format("jetstream: {{store_dir: \"FOLDER\"}}\noperator: \"{}\"\nresolver: MEMORY\n"
                    "system_account: \"{}\"\nresolver_preload: {{{}: \"{}\", {}: \"{}\"}}\n",
                    operator_token, of_the_system.name, of_the_system.name,
                    account_token(of_the_system, without_streams), account_.name,
                    account_token(account_, limits)));
  }
  std::string UserToken(const KeyPair& user, const KeyPair& by) const {
    return Token(user, by, "daemon",
                 {{"type", "user"}, {"subs", -1}, {"data", -1}, {"payload", -1}});
  }
  /// Sends one event with these credentials.
  Status SendWith(const std::string& creds) const {
    const std::string path = server_->folder() + "/daemon.creds";
    std::ofstream(path) << creds;
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    Result<NatsSettings> settings = CheckNatsConfig(
        {.servers = {server_->url()}, .credentials_file = path, .keep_bytes = 1 << 20});
    if (!settings.ok()) return settings.status();
    HZ_ASSIGN_OR_RETURN(const std::unique_ptr<NatsLink> link, MakeNatsLink(std::move(*settings)));
    HZ_RETURN_IF_ERROR(link->Connect());
    return link->Send({.subject = "harmonaize.events.a.b.rank.late", .id = "b.1", .content = "{}"});
  }

  const KeyPair operator_ = MakeKeys('O');
  const KeyPair account_ = MakeKeys('A');
  const KeyPair user_ = MakeKeys('U');
  CapturedLog log_;
  std::unique_ptr<NatsServerProcess> server_;
};

TEST_F(NatsCredsTest, TheAccountsUserMayPublish) {
  const Status status = SendWith(CredsFile(UserToken(user_, account_), user_));
  EXPECT_TRUE(status.ok()) << status.message() << log_.text();
}

TEST_F(NatsCredsTest, WhoLacksTheKeyOrTheAccountsWordMayNot) {
  const KeyPair stranger = MakeKeys('U');
  const Status without_key = SendWith(CredsFile(UserToken(user_, account_), stranger));
  EXPECT_NE(without_key.message().find("Authorization Violation"), std::string::npos)
      << without_key.message();
  const Status of_another = SendWith(CredsFile(UserToken(user_, MakeKeys('A')), user_));
  EXPECT_NE(of_another.message().find("Authorization Violation"), std::string::npos)
      << of_another.message();
}

TEST_F(NatsCredsTest, AFileWithoutAKeyIsAnError) {
  const std::string token = UserToken(user_, account_);
  for (const std::string& wrong :
       {"-----BEGIN NATS USER JWT-----\n" + token + "\n------END NATS USER JWT------\n",
        std::string("-----BEGIN NATS USER JWT-----\n"),
        CredsFile(token, {.name = "", .seed = "SUNOSEED", .key = nullptr})}) {
    EXPECT_FALSE(SendWith(wrong).ok());
  }
}

}  // namespace
}  // namespace harmonaize::daemon
