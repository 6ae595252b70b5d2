#include "tests/unit/requirements/sample_values.h"

#include <fmt/format.h>

#include "src/base/measure.h"

namespace harmonaize {
namespace {

std::string FirstChoice(const RequirementKey& key) {
  return fmt::format("\"{}\"", key.choices.substr(0, key.choices.find(' ')));
}

std::string Quoted(Measure measure, double value) {
  return fmt::format("\"{}\"", FormatMeasure(measure, value));
}

std::string Pair(const std::string& first, const std::string& second) {
  return fmt::format("[{}, {}]", first, second);
}

std::string Whole(double value) {
  return fmt::format("{:.0f}", value);
}

void AddBeyond(const RequirementKey& key, Measure measure, std::vector<std::string>* wrong) {
  wrong->push_back(Quoted(measure, key.most * 2));
  if (key.least > 0) wrong->push_back(Quoted(measure, key.least / 2));
  wrong->insert(wrong->end(), {"\"5\"", "\"5 parsecs\"", "\"-5 s\"", "\"s\"", "\"nan s\"", "\"\"",
                               "\"5  s\"", "\"5 s s\"", "\"inf B\""});
}

}  // namespace

std::string RightValue(const RequirementKey& key) {
  switch (key.kind) {
    case RequirementKind::kText: return "\"a name\"";
    case RequirementKind::kChoice: return FirstChoice(key);
    case RequirementKind::kChoices: return fmt::format("[{}]", FirstChoice(key));
    case RequirementKind::kYesNo: return "true";
    case RequirementKind::kCount: return Whole(key.most);
    case RequirementKind::kNumber: return fmt::format("{}", key.most);
    case RequirementKind::kCountRange: return Pair(Whole(key.least), Whole(key.most));
    case RequirementKind::kNumberRange:
      return Pair(fmt::format("{}", key.least), fmt::format("{}", key.most));
    case RequirementKind::kDuration: return Quoted(Measure::kDuration, key.most);
    case RequirementKind::kRate: return Quoted(Measure::kRate, key.most);
    case RequirementKind::kSize: return Quoted(Measure::kSize, 1 << 20);
    case RequirementKind::kSizeRange:
      return Pair(Quoted(Measure::kSize, 1024), Quoted(Measure::kSize, 1 << 20));
    case RequirementKind::kTime: return "2027-01-31T18:00:00Z";
  }
  return "";
}

std::vector<std::string> WrongValues(const RequirementKey& key) {
  std::vector<std::string> wrong = {"{}", "[]", "[[1]]", "1979-05-27", "[true, false]"};
  switch (key.kind) {
    case RequirementKind::kText:
      // Control characters, and invisible ones: by their numbers, and one as it is.
      wrong.insert(wrong.end(),
                   {"\"\"", "\"two\\nlines\"", "3", "true", "\"a\\u0001b\"", "\"a\\u007fb\"",
                    "\"a\\u0085b\"", "\"a\\u009bb\"", "\"a\\u202eb\"", "\"a\\u2066b\"",
                    "\"a\\u061cb\"", "\"a\\u2028b\"", "\"a\\u200bb\"", "\"\\ufeffb\"",
                    "\"a\xe2\x80\xaeg\"", fmt::format("\"{}\"", std::string(1024, 'x'))});
      break;
    case RequirementKind::kChoice:
    case RequirementKind::kChoices:
      wrong.insert(wrong.end(), {"\"none of them\"", "\"\"", "3", "true"});
      break;
    case RequirementKind::kYesNo: wrong.insert(wrong.end(), {"\"true\"", "1", "0.5"}); break;
    case RequirementKind::kCount:
      wrong.insert(wrong.end(), {Whole(key.most + 1), "-1", "1.5", "\"1\"", "true"});
      break;
    case RequirementKind::kNumber:
      wrong.insert(wrong.end(),
                   {fmt::format("{}", key.most * 2 + 1), "-1", "nan", "inf", "\"1\"", "true"});
      break;
    case RequirementKind::kCountRange:
    case RequirementKind::kNumberRange:
      wrong.insert(wrong.end(),
                   {"3", "[1]", "[1, 2, 3]", "[2, 1]", "[\"1\", \"2\"]", "[-1, 2]", "\"1-2\""});
      break;
    case RequirementKind::kDuration: AddBeyond(key, Measure::kDuration, &wrong); break;
    case RequirementKind::kRate: AddBeyond(key, Measure::kRate, &wrong); break;
    case RequirementKind::kSize: AddBeyond(key, Measure::kSize, &wrong); break;
    case RequirementKind::kSizeRange:
      wrong.insert(wrong.end(), {"\"1 KiB\"", "[\"1 MiB\", \"1 KiB\"]", "[1, 2]"});
      break;
    case RequirementKind::kTime:
      wrong.insert(wrong.end(),
                   {"\"2027-01-31T18:00:00Z\"", "2027-01-31T18:00:00", "3", "1969-12-31T23:59:59Z",
                    "1970-01-01T00:59:59+01:00", "2262-04-11T00:00:01Z",
                    "2262-04-11T00:00:00-00:01", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"});
      break;
  }
  return wrong;
}

}  // namespace harmonaize
