#include "shim/line_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "shim/name_mask.h"

namespace harmonaize::shim {
namespace {

constexpr const char* kUsualFormat = "[%F %T] ";

/// Most bytes of a line's time; a format that makes more is replaced by the usual one, as in NCCL.
constexpr size_t kMostBytes = 512;

constexpr std::array<NamedBits, 6> kLevels = {{{"VERSION", kVersionLine},
                                               {"WARN", kWarnLine},
                                               {"INFO", kInfoLine},
                                               {"ABORT", kAbortLine},
                                               {"TRACE", kTraceLine},
                                               {"ALL", kAllLines}}};

/// Returns the place of the first "%1f" to "%9f" of a format, which strftime does not know; npos
/// for none.
size_t FindFraction(std::string_view format) {
  for (size_t i = 0; i + 1 < format.size(); ++i) {
    if (format[i] != '%') continue;
    const char digit = format[i + 1];
    if (digit >= '1' && digit <= '9' && i + 2 < format.size() && format[i + 2] == 'f') return i;
    if (digit == '%') ++i;
  }
  return std::string_view::npos;
}

/// Returns the first `digits` digits of a fraction of a second.
std::string Fraction(long nanoseconds, int digits) {
  return fmt::format("{:09}", nanoseconds).substr(0, static_cast<size_t>(digits));
}

/// Returns the formatted time; "" also if it does not fit.
std::string FormatTime(const std::string& format, const tm& time) {
  char text[kMostBytes];
  return std::string(text, std::strftime(text, sizeof text, format.c_str(), &time));
}

}  // namespace

LineTime LineTime::Parse(const char* levels, const char* format) {
  LineTime time;
  if (levels != nullptr) time.levels_ = ParseNameMask(levels, kLevels);
  std::string text = format != nullptr ? format : kUsualFormat;
  // Underscores stand for spaces, which are hard to pass on command lines.
  std::replace(text.begin(), text.end(), '_', ' ');
  const size_t fraction = FindFraction(text);
  time.before_ = text.substr(0, fraction);
  if (fraction == std::string::npos) return time;
  time.digits_ = text[fraction + 1] - '0';
  time.after_ = text.substr(fraction + 3);
  return time;
}

std::string LineTime::Prefix(LineLevel level, const timespec& now) const {
  if ((levels_ & level) == 0) return "";
  std::string format = before_;
  if (digits_ > 0) format += Fraction(now.tv_nsec, digits_) + after_;
  if (format.empty()) return "";
  tm parts = {};
  localtime_r(&now.tv_sec, &parts);
  const std::string text = FormatTime(format, parts);
  return text.empty() ? FormatTime(kUsualFormat, parts) : text;
}

}  // namespace harmonaize::shim
