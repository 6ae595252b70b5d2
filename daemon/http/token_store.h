#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/http/http_token.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// The file in the state directory that holds the tokens' digests.
inline constexpr char kTokenFile[] = "tokens.json";

/// A token with its secret, which is shown this once.
struct NewToken {
  HttpToken token;
  std::string secret;  ///< "hz_" and 43 characters.
};

/// What an operator asks for.
struct TokenOrder {
  HttpScope scope = HttpScope::kMetrics;
  /// For scope kTenant. A tenant that is a container of identity "cgroup" has another number once
  /// the daemon has started again, so callers must not order tokens for such a one.
  TenantIdentity tenant = {};
  int64_t seconds = 0;  ///< How long it holds: 1 to kMostTokenSeconds.
  std::string note = {};
};

/// The longest that a token may hold, in seconds: a year, after which somebody has to want it
/// again.
inline constexpr int64_t kMostTokenSeconds = 366 * int64_t{86400};
/// How long a one-time token waits to be exchanged, in seconds: a browser opens at once.
inline constexpr int64_t kOneTimeSeconds = 60;
/// How long the session holds that a one-time token was exchanged for, in seconds: a working day.
inline constexpr int64_t kSessionSeconds = 8 * 3600;

/// The tokens that callers over TCP show. Secrets are 256 random bits of the kernel's; the file
/// keeps their digests, and every comparison takes the same time. One-time tokens and their
/// sessions are kept in memory only, and end with the daemon. Thread: any.
class TokenStore {
 public:
  using Clock = std::function<int64_t()>;

  /// Reads the file in the folder; "": tokens are kept in memory only. With a damaged file there
  /// are no tokens, which the log says; the file is set aside as tokens.json.damaged when the next
  /// token is created. `now_seconds` returns the time since 1970, which tests inject.
  static std::shared_ptr<TokenStore> Open(std::string folder, Clock now_seconds);

  /// Makes a token and writes the file, which takes as long as the disk does. Errors:
  /// kInvalidArgument for a time or a note that no token may have; kInvalidUsage if there are
  /// kMostTokens; kSystemError if the file cannot be written, and there is no token then.
  Result<NewToken> Create(const TokenOrder& order);
  /// Makes a secret that Exchange takes once. Returns kInvalidUsage if too many wait.
  Result<std::string> CreateOneTime(HttpScope scope, const TenantIdentity& tenant,
                                    std::string note);
  /// Returns a new session for a one-time secret, which ends with that; nullopt for any other text.
  std::optional<NewToken> Exchange(std::string_view secret);
  /// Returns the tokens and sessions that hold, in the order of their creation.
  std::vector<HttpToken> List() const;
  /// Ends a token or a session, writes the file, and calls the listener. Errors: kInvalidArgument
  /// if there is none of that id; kSystemError if the file could not be written: the token has
  /// ended until the daemon starts again.
  Status Revoke(const std::string& id);
  /// Returns the token with this secret, if it holds.
  std::optional<HttpToken> Lookup(std::string_view secret) const;

  /// Sets who hears the id of each token that is revoked; nullptr: nobody. Once this returns the
  /// former listener is not called any more. Whoever serves a token sees to its expiry itself.
  void SetListener(std::function<void(const std::string&)> listener);
  int64_t Now() const { return now_seconds_(); }

 private:
  TokenStore(std::string folder, Clock now_seconds)
      : folder_(std::move(folder)), now_seconds_(std::move(now_seconds)) {}

  void Load();
  Result<NewToken> Make(const TokenOrder& order, std::string_view prefix,
                        TokenDigest* digest) const;
  Status Write(const std::vector<StoredToken>& tokens);
  std::vector<StoredToken> Unexpired(const std::vector<StoredToken>& tokens) const;
  Status Forget(const std::string& id);

  const std::string folder_;
  const Clock now_seconds_;
  std::mutex changing_;   // held while the file is written
  bool damaged_ = false;  // guarded by changing_
  mutable std::mutex mutex_;
  std::vector<StoredToken> tokens_;     // guarded by mutex_; changed with changing_ held, too
  std::vector<StoredToken> sessions_;   // guarded by mutex_
  std::vector<StoredToken> one_times_;  // guarded by mutex_
  std::mutex listening_;
  std::function<void(const std::string&)> listener_;  // guarded by listening_
};

}  // namespace harmonaize::daemon
