#include "daemon/sources/cloud_dates.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

namespace harmonaize::daemon {
namespace {

constexpr std::array<std::string_view, 7> kWeekdays = {"Sun", "Mon", "Tue", "Wed",
                                                       "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/// Takes the parts of a date from the front of a text. After the first part that is not as expected
/// nothing more is taken, and ok() is false.
class DateReader {
 public:
  explicit DateReader(std::string_view text) : rest_(text) {}

  /// Takes exactly so many decimal digits.
  int Digits(size_t count) {
    int value = 0;
    if (!Has(count)) return 0;
    for (const char digit : rest_.substr(0, count)) {
      ok_ = ok_ && digit >= '0' && digit <= '9';
      value = value * 10 + (digit - '0');
    }
    rest_.remove_prefix(count);
    return ok_ ? value : 0;
  }
  void Exactly(std::string_view word) {
    ok_ = ok_ && rest_.starts_with(word);
    if (ok_) rest_.remove_prefix(word.size());
  }
  /// Takes one of these names, of three letters each, and returns its place.
  template <size_t kCount>
  unsigned OneOf(const std::array<std::string_view, kCount>& names) {
    if (!Has(3)) return 0;
    const auto name = std::find(names.begin(), names.end(), rest_.substr(0, 3));
    ok_ = name != names.end();
    rest_.remove_prefix(3);
    return ok_ ? static_cast<unsigned>(name - names.begin()) : 0;
  }
  /// Returns whether the text was as expected, to its end.
  bool AtEnd() const { return ok_ && rest_.empty(); }

 private:
  bool Has(size_t count) { return ok_ = ok_ && rest_.size() >= count; }

  std::string_view rest_;
  bool ok_ = true;
};

struct DateParts {
  int year = 0;
  unsigned month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
};

void ReadTime(DateReader& reader, DateParts* parts) {
  parts->hour = reader.Digits(2);
  reader.Exactly(":");
  parts->minute = reader.Digits(2);
  reader.Exactly(":");
  parts->second = reader.Digits(2);
}

/// Reads "19 Sep 2016 18:29:47 GMT".
void ReadDayToTime(DateReader& reader, DateParts* parts) {
  parts->day = reader.Digits(2);
  reader.Exactly(" ");
  parts->month = reader.OneOf(kMonths) + 1;
  reader.Exactly(" ");
  parts->year = reader.Digits(4);
  reader.Exactly(" ");
  ReadTime(reader, parts);
  reader.Exactly(" GMT");
}

std::chrono::year_month_day DayOf(const DateParts& parts) {
  return {std::chrono::year(parts.year), std::chrono::month(parts.month),
          std::chrono::day(static_cast<unsigned>(parts.day))};
}

std::optional<int64_t> SecondsOf(const DateParts& parts) {
  const std::chrono::year_month_day day = DayOf(parts);
  const bool exists =
      day.ok() && parts.year >= 1970 && parts.hour < 24 && parts.minute < 60 && parts.second < 60;
  if (!exists) return std::nullopt;
  const int64_t days = std::chrono::sys_days(day).time_since_epoch().count();
  return ((days * 24 + parts.hour) * 60 + parts.minute) * 60 + parts.second;
}

}  // namespace

std::optional<int64_t> ParseRfc1123Date(std::string_view text) {
  DateReader reader(text);
  DateParts parts;
  const unsigned weekday = reader.OneOf(kWeekdays);
  reader.Exactly(", ");
  ReadDayToTime(reader, &parts);
  if (!reader.AtEnd()) return std::nullopt;
  const std::optional<int64_t> seconds = SecondsOf(parts);
  if (!seconds.has_value()) return std::nullopt;
  const std::chrono::weekday day = std::chrono::sys_days(DayOf(parts));
  return day.c_encoding() == weekday ? seconds : std::nullopt;
}

std::optional<int64_t> ParseAwsMaintenanceDate(std::string_view text) {
  DateReader reader(text);
  DateParts parts;
  ReadDayToTime(reader, &parts);
  return reader.AtEnd() ? SecondsOf(parts) : std::nullopt;
}

std::optional<int64_t> ParseIso8601Date(std::string_view text) {
  DateReader reader(text);
  DateParts parts;
  parts.year = reader.Digits(4);
  reader.Exactly("-");
  parts.month = static_cast<unsigned>(reader.Digits(2));
  reader.Exactly("-");
  parts.day = reader.Digits(2);
  reader.Exactly("T");
  ReadTime(reader, &parts);
  reader.Exactly("Z");
  return reader.AtEnd() ? SecondsOf(parts) : std::nullopt;
}

}  // namespace harmonaize::daemon
