#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace harmonaize::daemon {

/// The first lines of a request, as they came.
struct RequestHead {
  std::string method;
  std::string target;
  int version = 11;  ///< 10 or 11 for HTTP/1.0 or HTTP/1.1.
  /// By names in lower case. Headers that come several times are joined with ", ".
  std::map<std::string, std::string> headers;
  bool keep_alive = false;
};

/// Makes requests out of bytes, in whatever pieces they come. Thread: one.
class RequestReader {
 public:
  enum class Progress : uint8_t {
    kMore,     ///< All bytes are taken, or a head is incomplete: more are needed.
    kHead,     ///< The head is known now. Reading goes on with the body.
    kWhole,    ///< The request is whole; what follows it was not taken.
    kRefused,  ///< The bytes are no request that is read: see `status` and `detail`.
  };
  struct Bounds {
    size_t head_bytes = 0;
    size_t body_bytes = 0;
  };

  explicit RequestReader(Bounds bounds);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  /// Takes bytes from the front of `bytes`. Requires: kWhole and kRefused were not returned before.
  Progress Read(std::string* bytes);
  /// Requires: Read has returned kHead.
  const RequestHead& head() const { return head_; }
  /// Requires: Read has returned kWhole. To be called once.
  std::string TakeBody();
  int status() const { return status_; }
  const std::string& detail() const { return detail_; }

 private:
  struct Parser;

  Progress Refuse(int status, std::string detail);
  Progress TakeHead();

  const Bounds bounds_;
  std::unique_ptr<Parser> parser_;
  bool has_head_ = false;
  size_t body_taken_ = 0;  ///< Bytes of the body with its framing.
  RequestHead head_;
  int status_ = 0;
  std::string detail_;
};

}  // namespace harmonaize::daemon
