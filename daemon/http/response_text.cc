#include "daemon/http/response_text.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <array>

#include "src/ipc/http_reason.h"

namespace harmonaize::daemon {
namespace {

/// Headers that the server writes itself, or that no answer may have.
constexpr std::array<std::string_view, 10> kReserved = {
    "connection", "content-length", "content-type",  "transfer-encoding",
    "set-cookie", "server",         "cache-control", "x-content-type-options",
    "date",       "keep-alive"};

bool IsReserved(std::string_view name) {
  std::string lower(name);
  for (char& one : lower) {
    if (one >= 'A' && one <= 'Z') one = static_cast<char>(one - 'A' + 'a');
  }
  return lower.rfind("access-control-", 0) == 0 ||
         std::find(kReserved.begin(), kReserved.end(), lower) != kReserved.end();
}

bool IsHeaderName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char one) {
    return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || (one >= '0' && one <= '9') ||
           one == '-';
  });
}

bool IsHeaderValue(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char one) { return one >= ' ' && one <= '~'; });
}

// The names do not follow the locale.
std::string DateText() {
  static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const time_t seconds = time(nullptr);
  tm now{};
  gmtime_r(&seconds, &now);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     kDays.at(static_cast<size_t>(now.tm_wday)), now.tm_mday,
                     kMonths.at(static_cast<size_t>(now.tm_mon)), now.tm_year + 1900, now.tm_hour,
                     now.tm_min, now.tm_sec);
}

std::string CommonHead(int status) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nDate: {}\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\n",
      status, HttpReason(status), DateText());
}

}  // namespace

std::string FormatResponse(const HttpResponse& response, const ResponseForm& form) {
  std::string text = CommonHead(response.status);
  const bool has_body = response.status != 204 && response.status != 304;
  if (has_body) {
    if (IsHeaderValue(response.content_type)) {
      text += fmt::format("Content-Type: {}\r\n", response.content_type);
    }
    text += fmt::format("Content-Length: {}\r\n", response.body.size());
  }
  for (const auto& [name, value] : response.headers) {
    if (!IsHeaderName(name) || !IsHeaderValue(value) || IsReserved(name)) continue;
    text += fmt::format("{}: {}\r\n", name, value);
  }
  text += form.keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  if (has_body && !form.head_only) text += response.body;
  return text;
}

std::string FormatStreamHead(const ResponseForm& form) {
  std::string text = CommonHead(200) + "Content-Type: text/event-stream\r\n";
  if (form.version == 11) text += "Transfer-Encoding: chunked\r\n";
  return text + "Connection: close\r\n\r\n";
}

std::string FormatStreamPiece(std::string_view text, const ResponseForm& form) {
  if (form.version != 11) return std::string(text);
  return fmt::format("{:x}\r\n{}\r\n", text.size(), text);
}

std::string_view StreamEnd(const ResponseForm& form) {
  return form.version == 11 ? "0\r\n\r\n" : "";
}

}  // namespace harmonaize::daemon
