#include "daemon/http/token_store.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "daemon/config/private_file.h"
#include "src/base/base64_url.h"
#include "src/base/clean_text.h"
#include "src/base/hex.h"
#include "src/base/log.h"
#include "src/base/random.h"

namespace harmonaize::daemon {
namespace {

constexpr std::string_view kSecretPrefix = "hz_";
constexpr std::string_view kOneTimePrefix = "hzo_";

/// Random bits of a secret, in bytes: beyond guessing.
constexpr size_t kSecretBytes = 32;
/// Random bits of an id, in bytes: no two of kMostTokens are the same by accident.
constexpr size_t kIdBytes = 8;

/// The longest text that is looked up, in bytes; every secret is shorter.
constexpr size_t kMostSecretBytes = 64;

/// Most one-time tokens that wait to be exchanged: an operator opens few pages within a minute.
constexpr size_t kMostOneTimes = 64;
/// Most sessions of status pages at a time.
constexpr size_t kMostSessions = 256;

/// The longest token file that is read, in bytes: kMostTokens of the longest take less.
constexpr size_t kMostTokenFileBytes = size_t{4} << 20;

std::optional<TokenDigest> DigestOf(std::string_view secret) {
  TokenDigest digest{};
  if (EVP_Digest(secret.data(), secret.size(), digest.data(), nullptr, EVP_sha256(), nullptr) !=
      1) {
    return std::nullopt;
  }
  return digest;
}

/// Returns the index of the token with this digest, or the number of tokens. Looks at all of them,
/// so that its time tells nothing.
size_t IndexOf(const std::vector<StoredToken>& tokens, const TokenDigest& digest) {
  size_t index = tokens.size();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool same = CRYPTO_memcmp(tokens[i].digest.data(), digest.data(), digest.size()) == 0;
    index = same ? i : index;
  }
  return index;
}

bool EraseId(std::vector<StoredToken>* tokens, const std::string& id) {
  return std::erase_if(*tokens, [&](const StoredToken& one) { return one.token.id == id; }) > 0;
}

}  // namespace

std::shared_ptr<TokenStore> TokenStore::Open(std::string folder, Clock now_seconds) {
  std::shared_ptr<TokenStore> store(new TokenStore(std::move(folder), std::move(now_seconds)));
  store->Load();
  return store;
}

void TokenStore::Load() {
  if (folder_.empty()) return;
  const std::string path = folder_ + "/" + kTokenFile;
  const auto text = ReadPrivateFile(path, kMostTokenFileBytes);
  Status status = text.status();
  if (text.ok() && !text->has_value()) return;
  if (status.ok()) {
    Result<std::vector<StoredToken>> tokens = ParseTokenFile(**text);
    status = tokens.status();
    if (tokens.ok()) tokens_ = std::move(*tokens);
  }
  if (status.ok()) return;
  damaged_ = true;
  Log(LogLevel::kError, kLogInit,
      "{} cannot be used ({}): no token of it is accepted; the file is set aside when the next "
      "token is created",
      path, status.message());
}

Result<NewToken> TokenStore::Make(const TokenOrder& order, std::string_view prefix,
                                  TokenDigest* digest) const {
  if (order.scope == HttpScope::kStranger) return InvalidArgument("a token needs a scope");
  if (order.seconds < 1 || order.seconds > kMostTokenSeconds) {
    return InvalidArgument("a token holds for 1 to {} seconds, not for {}", kMostTokenSeconds,
                           order.seconds);
  }
  if (CleanText(order.note, kMostNoteBytes) != order.note) {
    return InvalidArgument("the note is longer than {} bytes, or has control characters",
                           kMostNoteBytes);
  }
  std::array<uint8_t, kSecretBytes> secret{};
  std::array<uint8_t, kIdBytes> id{};
  HZ_RETURN_IF_ERROR(FillRandom(std::as_writable_bytes(std::span(secret))));
  HZ_RETURN_IF_ERROR(FillRandom(std::as_writable_bytes(std::span(id))));
  NewToken made;
  made.secret = std::string(prefix) + Base64UrlOf(secret);
  OPENSSL_cleanse(secret.data(), secret.size());
  const std::optional<TokenDigest> digested = DigestOf(made.secret);
  if (!digested) return SystemError("OpenSSL could not make the token's digest");
  *digest = *digested;
  const int64_t now = now_seconds_();
  made.token = {HexOf(id), order.scope, order.tenant, order.note, now, now + order.seconds};
  return made;
}

Result<NewToken> TokenStore::Create(const TokenOrder& order) {
  StoredToken stored;
  HZ_ASSIGN_OR_RETURN(NewToken made, Make(order, kSecretPrefix, &stored.digest));
  stored.token = made.token;
  const std::lock_guard changing(changing_);
  std::vector<StoredToken> tokens;
  {
    const std::lock_guard lock(mutex_);
    tokens = Unexpired(tokens_);
  }
  if (tokens.size() >= kMostTokens) {
    return InvalidUsage("there are {} tokens, which is as many as there may be; revoke some",
                        kMostTokens);
  }
  tokens.push_back(std::move(stored));
  HZ_RETURN_IF_ERROR(Write(tokens));
  const std::lock_guard lock(mutex_);
  tokens_ = std::move(tokens);
  return made;
}

Result<std::string> TokenStore::CreateOneTime(HttpScope scope, const TenantIdentity& tenant,
                                              std::string note) {
  StoredToken stored;
  HZ_ASSIGN_OR_RETURN(NewToken made, Make({scope, tenant, kOneTimeSeconds, std::move(note)},
                                          kOneTimePrefix, &stored.digest));
  stored.token = std::move(made.token);
  const std::lock_guard lock(mutex_);
  one_times_ = Unexpired(one_times_);
  if (one_times_.size() >= kMostOneTimes) {
    return InvalidUsage("{} one-time tokens wait to be exchanged; try again in a minute",
                        kMostOneTimes);
  }
  one_times_.push_back(std::move(stored));
  return std::move(made.secret);
}

std::optional<NewToken> TokenStore::Exchange(std::string_view secret) {
  const std::optional<TokenDigest> digest = DigestOf(secret.substr(0, kMostSecretBytes));
  if (!digest) return std::nullopt;
  const std::lock_guard lock(mutex_);
  one_times_ = Unexpired(one_times_);
  sessions_ = Unexpired(sessions_);
  const size_t index = IndexOf(one_times_, *digest);
  if (index == one_times_.size() || sessions_.size() >= kMostSessions) return std::nullopt;
  const HttpToken& one_time = one_times_[index].token;
  StoredToken session;
  Result<NewToken> made = Make({one_time.scope, one_time.tenant, kSessionSeconds, one_time.note},
                               kSecretPrefix, &session.digest);
  if (!made.ok()) return std::nullopt;
  session.token = made->token;
  sessions_.push_back(std::move(session));
  one_times_.erase(one_times_.begin() + static_cast<ptrdiff_t>(index));
  return std::move(*made);
}

std::vector<HttpToken> TokenStore::List() const {
  std::vector<HttpToken> listed;
  const std::lock_guard lock(mutex_);
  for (const StoredToken& one : Unexpired(tokens_)) listed.push_back(one.token);
  for (const StoredToken& one : Unexpired(sessions_)) listed.push_back(one.token);
  std::stable_sort(listed.begin(), listed.end(), [](const HttpToken& one, const HttpToken& other) {
    return one.created < other.created;
  });
  return listed;
}

Status TokenStore::Revoke(const std::string& id) {
  const Status forgotten = Forget(id);
  if (forgotten.code() == Code::kInvalidArgument) return forgotten;
  const std::lock_guard listening(listening_);
  if (listener_) listener_(id);
  return forgotten;
}

// The token ends in memory before the file is written: a full disk must not keep it alive.
Status TokenStore::Forget(const std::string& id) {
  const std::lock_guard changing(changing_);
  std::vector<StoredToken> tokens;
  {
    const std::lock_guard lock(mutex_);
    if (EraseId(&sessions_, id)) return Status::Ok();
    if (!EraseId(&tokens_, id)) {
      return InvalidArgument("there is no token '{}'", CleanText(id, kMostSecretBytes));
    }
    tokens = Unexpired(tokens_);
  }
  return Write(tokens);
}

std::optional<HttpToken> TokenStore::Lookup(std::string_view secret) const {
  const std::optional<TokenDigest> digest = DigestOf(secret.substr(0, kMostSecretBytes));
  if (!digest) return std::nullopt;
  const int64_t now = now_seconds_();
  const std::lock_guard lock(mutex_);
  const size_t token = IndexOf(tokens_, *digest);
  const size_t session = IndexOf(sessions_, *digest);
  const StoredToken* found = nullptr;
  if (token != tokens_.size()) found = &tokens_[token];
  if (session != sessions_.size()) found = &sessions_[session];
  if (found == nullptr || found->token.expires <= now) return std::nullopt;
  return found->token;
}

void TokenStore::SetListener(std::function<void(const std::string&)> listener) {
  const std::lock_guard lock(listening_);
  listener_ = std::move(listener);
}

std::vector<StoredToken> TokenStore::Unexpired(const std::vector<StoredToken>& tokens) const {
  const int64_t now = now_seconds_();
  std::vector<StoredToken> kept;
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(kept),
               [now](const StoredToken& one) { return one.token.expires > now; });
  return kept;
}

Status TokenStore::Write(const std::vector<StoredToken>& tokens) {
  if (folder_.empty()) return Status::Ok();
  const std::string path = folder_ + "/" + kTokenFile;
  if (damaged_ && std::rename(path.c_str(), (path + ".damaged").c_str()) != 0 && errno != ENOENT) {
    return ErrnoError(errno, "cannot set the damaged file " + path + " aside");
  }
  HZ_RETURN_IF_ERROR(ReplacePrivateFile(folder_, kTokenFile, FormatTokenFile(tokens)));
  damaged_ = false;
  return Status::Ok();
}

}  // namespace harmonaize::daemon
