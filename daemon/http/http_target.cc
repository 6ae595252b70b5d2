#include "daemon/http/http_target.h"

#include <algorithm>
#include <optional>

#include "src/base/clean_text.h"

namespace harmonaize::daemon {
namespace {

/// Most segments of a path, and most parameters of a query; the API's longest path has six.
constexpr size_t kMostSegments = 32;
constexpr size_t kMostParameters = 32;

int HexDigit(char one) {
  if (one >= '0' && one <= '9') return one - '0';
  if (one >= 'a' && one <= 'f') return one - 'a' + 10;
  if (one >= 'A' && one <= 'F') return one - 'A' + 10;
  return -1;
}

bool IsUnreserved(char one) {
  return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || (one >= '0' && one <= '9') ||
         one == '-' || one == '.' || one == '_' || one == '~';
}

/// Returns the decoded text; nullopt for an incomplete escape.
std::optional<std::string> PercentDecode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      decoded += ' ';
    } else if (text[i] != '%') {
      decoded += text[i];
    } else {
      if (text.size() - i < 3) return std::nullopt;
      const int high = HexDigit(text[i + 1]);
      const int low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      decoded += static_cast<char>(high << 4 | low);
      i += 2;
    }
  }
  return decoded;
}

Result<std::string> Decode(std::string_view text, bool plus_is_space, std::string_view what) {
  const std::optional<std::string> decoded = PercentDecode(text, plus_is_space);
  if (!decoded)
    return InvalidArgument("a percent sign in the {} lacks two hexadecimal digits", what);
  if (CleanText(*decoded, decoded->size()) == *decoded) return *decoded;
  return InvalidArgument("the {} is not UTF-8 without control characters once it is decoded", what);
}

Result<std::vector<std::string>> ParsePath(std::string_view path) {
  std::vector<std::string> segments;
  if (path == "/") return segments;
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    HZ_ASSIGN_OR_RETURN(std::string segment, Decode(path.substr(0, end), false, "path"));
    if (segment.empty()) return InvalidArgument("the path has an empty segment");
    if (segment == "." || segment == "..") {
      return InvalidArgument("the path has the segment '{}'; write the path in full", segment);
    }
    if (segments.size() == kMostSegments) {
      return InvalidArgument("the path has more than {} segments", kMostSegments);
    }
    segments.push_back(std::move(segment));
    path.remove_prefix(end);
  }
  return segments;
}

Result<std::map<std::string, std::string>> ParseQuery(std::string_view query) {
  std::map<std::string, std::string> parameters;
  for (size_t begin = 0; begin < query.size();) {
    const size_t end = std::min(query.find('&', begin), query.size());
    const std::string_view parameter = query.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = std::min(parameter.find('='), parameter.size());
    HZ_ASSIGN_OR_RETURN(std::string name, Decode(parameter.substr(0, equals), true, "query"));
    HZ_ASSIGN_OR_RETURN(
        std::string value,
        Decode(parameter.substr(std::min(equals + 1, parameter.size())), true, "query"));
    if (name.empty()) return InvalidArgument("the query has a parameter without a name");
    if (parameters.size() == kMostParameters) {
      return InvalidArgument("the query has more than {} parameters", kMostParameters);
    }
    const auto [place, is_new] = parameters.emplace(std::move(name), std::move(value));
    if (!is_new) return InvalidArgument("the query has the parameter '{}' twice", place->first);
  }
  return parameters;
}

}  // namespace

Result<HttpTarget> ParseHttpTarget(std::string_view target) {
  if (target.size() > kMostTargetBytes) {
    return InvalidArgument("the target is longer than {} bytes", kMostTargetBytes);
  }
  if (target.empty() || target.front() != '/') {
    return InvalidArgument("the target has to begin with '/'");
  }
  if (target.find('#') != std::string_view::npos) {
    return InvalidArgument("the target has a fragment; it is not for the server");
  }
  const size_t path_end = std::min(target.find('?'), target.size());
  HttpTarget parsed;
  HZ_ASSIGN_OR_RETURN(parsed.path, ParsePath(target.substr(0, path_end)));
  HZ_ASSIGN_OR_RETURN(parsed.query,
                      ParseQuery(target.substr(std::min(path_end + 1, target.size()))));
  return parsed;
}

std::string PercentEncode(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char one : text) {
    if (IsUnreserved(one)) {
      encoded += one;
      continue;
    }
    const auto byte = static_cast<unsigned char>(one);
    encoded += '%';
    encoded += kDigits[byte >> 4];
    encoded += kDigits[byte & 15];
  }
  return encoded;
}

std::string EncodeHttpPath(const std::vector<std::string>& path) {
  if (path.empty()) return "/";
  std::string encoded;
  for (const std::string& segment : path) encoded += "/" + PercentEncode(segment);
  return encoded;
}

}  // namespace harmonaize::daemon
