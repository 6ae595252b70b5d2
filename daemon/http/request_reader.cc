#include "daemon/http/request_reader.h"

#include <fmt/format.h>

#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "src/base/clean_text.h"

namespace harmonaize::daemon {
namespace {

namespace http = boost::beast::http;
using BeastError = boost::beast::error_code;

/// Most headers of a request; browsers send about twenty.
constexpr size_t kMostHeaders = 100;

/// Bytes that the framing of a body in chunks may add to it: chunks of one byte with no extensions
/// take five bytes more each, and nobody sends such ones for long.
constexpr size_t kMostFramingBytes = size_t{64} << 10;

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& one : lower) {
    if (one >= 'A' && one <= 'Z') one = static_cast<char>(one - 'A' + 'a');
  }
  return lower;
}

/// Returns whether a request with two of this header could mean one thing to one reader and another
/// thing to the next one.
bool IsSingle(std::string_view name) {
  return name == "host" || name == "authorization" || name == "content-type" || name == "origin" ||
         name == "last-event-id" || name == "content-length" || name == "transfer-encoding";
}

}  // namespace

struct RequestReader::Parser {
  http::request_parser<http::string_body> beast;
};

RequestReader::RequestReader(Bounds bounds) : bounds_(bounds), parser_(std::make_unique<Parser>()) {
  parser_->beast.header_limit(static_cast<uint32_t>(bounds.head_bytes));
  parser_->beast.body_limit(bounds.body_bytes);
  parser_->beast.eager(false);
}

RequestReader::~RequestReader() = default;

RequestReader::Progress RequestReader::Refuse(int status, std::string detail) {
  status_ = status;
  detail_ = std::move(detail);
  return Progress::kRefused;
}

RequestReader::Progress RequestReader::Read(std::string* bytes) {
  http::request_parser<http::string_body>& beast = parser_->beast;
  while (true) {
    if (beast.is_header_done() && !has_head_) return TakeHead();
    if (beast.is_done()) return Progress::kWhole;
    if (bytes->empty()) return Progress::kMore;
    BeastError error;
    const size_t taken = beast.put(boost::asio::buffer(*bytes), error);
    bytes->erase(0, taken);
    if (has_head_) body_taken_ += taken;
    if (error == http::error::header_limit) {
      return Refuse(431, fmt::format("the head has more than {} bytes", bounds_.head_bytes));
    }
    if (error == http::error::body_limit || body_taken_ > bounds_.body_bytes + kMostFramingBytes) {
      return Refuse(413, fmt::format("the body has more than {} bytes", bounds_.body_bytes));
    }
    if (error == http::error::bad_version) {
      return Refuse(505, "this server speaks HTTP/1.1 and HTTP/1.0");
    }
    if (error && error != http::error::need_more) {
      return Refuse(400, fmt::format("this is not HTTP/1.1: {}", error.message()));
    }
    if (taken > 0) continue;
    // A head, or a line of a chunk, has no end yet.
    if (bytes->size() <= bounds_.head_bytes) return Progress::kMore;
    return has_head_
               ? Refuse(400, "a chunk of the body begins with an endless line")
               : Refuse(431, fmt::format("the head has more than {} bytes", bounds_.head_bytes));
  }
}

RequestReader::Progress RequestReader::TakeHead() {
  has_head_ = true;
  const auto& message = parser_->beast.get();
  head_.method = std::string(message.method_string());
  head_.target = std::string(message.target());
  head_.version = static_cast<int>(message.version());
  head_.keep_alive = parser_->beast.keep_alive();
  size_t count = 0;
  for (const auto& field : message) {
    if (++count > kMostHeaders) {
      return Refuse(431, fmt::format("the request has more than {} headers", kMostHeaders));
    }
    const std::string name = LowerCase({field.name_string().data(), field.name_string().size()});
    const std::string value =
        CleanText({field.value().data(), field.value().size()}, bounds_.head_bytes);
    const auto [place, is_new] = head_.headers.emplace(name, value);
    if (is_new) continue;
    if (IsSingle(name)) return Refuse(400, fmt::format("the header {} comes twice", name));
    place->second += ", " + value;
  }
  // Beast takes a body in chunks for what it is whatever else the header lists.
  const auto encoding = head_.headers.find("transfer-encoding");
  if (encoding != head_.headers.end() && LowerCase(encoding->second) != "chunked") {
    return Refuse(501, "of the transfer encodings this server knows 'chunked' alone");
  }
  return Progress::kHead;
}

std::string RequestReader::TakeBody() {
  return std::move(parser_->beast.get().body());
}

}  // namespace harmonaize::daemon
