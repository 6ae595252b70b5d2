#include "daemon/http/http_router.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

namespace harmonaize::daemon {
namespace {

bool IsVisible(HttpAudience audience, const HttpCaller& caller) {
  if (caller.is_operator()) return true;
  switch (audience) {
    case HttpAudience::kTenants: return caller.scope == HttpScope::kTenant;
    case HttpAudience::kOperators: return false;
    case HttpAudience::kMetrics: return caller.scope == HttpScope::kMetrics;
    case HttpAudience::kAnybody: return true;
  }
  return false;
}

bool IsMethod(std::string_view method) {
  return method == "GET" || method == "PUT" || method == "POST" || method == "DELETE";
}

HttpResponse NotFound() {
  return HttpProblem(404, "there is nothing here; /v1/openapi.json lists what there is");
}

HttpResponse WrongMethod(const std::set<std::string>& allowed) {
  HttpResponse response = HttpProblem(
      405, fmt::format("this can be asked for with {} alone", fmt::join(allowed, ", ")));
  response.headers.emplace_back("Allow", fmt::format("{}{}", fmt::join(allowed, ", "),
                                                     allowed.contains("GET") ? ", HEAD" : ""));
  return response;
}

}  // namespace

Result<std::shared_ptr<HttpRouter>> HttpRouter::Create(std::vector<HttpRoute> routes) {
  std::shared_ptr<HttpRouter> router(new HttpRouter);
  for (HttpRoute& route : routes) HZ_RETURN_IF_ERROR(router->Add(std::move(route)));
  std::stable_sort(router->entries_.begin(), router->entries_.end(), IsMoreFixed);
  return router;
}

Status HttpRouter::Add(HttpRoute route) {
  if (!IsMethod(route.method)) return InvalidArgument("no route has the method '{}'", route.method);
  if (!route.serve) return InvalidArgument("the route {} has nothing to serve it", route.pattern);
  HZ_ASSIGN_OR_RETURN(std::vector<Segment> segments, ParsePattern(route.pattern));
  for (const Entry& other : entries_) {
    const bool same =
        std::equal(segments.begin(), segments.end(), other.segments.begin(), other.segments.end(),
                   [](const Segment& one, const Segment& another) {
                     return one.is_parameter == another.is_parameter &&
                            (one.is_parameter || one.text == another.text);
                   });
    if (same && other.route.method == route.method) {
      return InvalidArgument("no request can tell the route {} {} from {}", route.method,
                             route.pattern, other.route.pattern);
    }
  }
  entries_.push_back({std::move(route), std::move(segments)});
  return Status::Ok();
}

Result<std::vector<HttpRouter::Segment>> HttpRouter::ParsePattern(const std::string& pattern) {
  std::vector<Segment> segments;
  if (pattern.empty() || pattern.front() != '/') {
    return InvalidArgument("the route '{}' does not begin with '/'", pattern);
  }
  std::set<std::string> names;
  for (size_t begin = 1; pattern != "/" && begin <= pattern.size();) {
    const size_t end = std::min(pattern.find('/', begin), pattern.size());
    std::string text = pattern.substr(begin, end - begin);
    const bool is_parameter = text.size() > 2 && text.front() == '{' && text.back() == '}';
    if (is_parameter) text = text.substr(1, text.size() - 2);
    if (text.empty() || text.find_first_of("{}") != std::string::npos) {
      return InvalidArgument("the route '{}' has a segment of wrong form", pattern);
    }
    if (is_parameter && !names.insert(text).second) {
      return InvalidArgument("the route '{}' has the parameter '{}' twice", pattern, text);
    }
    segments.push_back({is_parameter, std::move(text)});
    begin = end + 1;
  }
  return segments;
}

bool HttpRouter::IsMoreFixed(const Entry& one, const Entry& other) {
  return std::lexicographical_compare(
      one.segments.begin(), one.segments.end(), other.segments.begin(), other.segments.end(),
      [](const Segment& a, const Segment& b) { return !a.is_parameter && b.is_parameter; });
}

bool HttpRouter::Matches(const Entry& entry, const std::vector<std::string>& path) {
  return std::equal(entry.segments.begin(), entry.segments.end(), path.begin(), path.end(),
                    [](const Segment& segment, const std::string& text) {
                      return segment.is_parameter || segment.text == text;
                    });
}

HttpRouter::Found HttpRouter::Find(const HttpRequest& request) const {
  std::set<std::string> allowed;
  for (const Entry& entry : entries_) {
    if (!IsVisible(entry.route.audience, request.caller) || !Matches(entry, request.path)) continue;
    if (entry.route.method != request.method) {
      allowed.insert(entry.route.method);
      continue;
    }
    if (request.method != "GET" && request.caller.scope == HttpScope::kOperatorReadOnly) {
      return {nullptr, HttpProblem(403,
                                   "this caller may read and not change anything; a token of "
                                   "scope 'operator' may")};
    }
    return {&entry};
  }
  if (allowed.empty()) return {nullptr, NotFound()};
  return {nullptr, WrongMethod(allowed)};
}

std::optional<HttpResponse> HttpRouter::RefuseEarly(const HttpRequest& head) {
  Found found = Find(head);
  if (found.entry == nullptr) return std::move(found.refusal);
  return RefuseMediaType(head, found.entry->route.media_types);
}

void HttpRouter::Handle(std::shared_ptr<HttpExchange> exchange) {
  const HttpRequest& request = exchange->request();
  Found found = Find(request);
  if (found.entry == nullptr) return exchange->Respond(std::move(*found.refusal));
  HttpParameters parameters;
  for (size_t i = 0; i < found.entry->segments.size(); ++i) {
    const Segment& segment = found.entry->segments[i];
    if (segment.is_parameter) parameters[segment.text] = request.path[i];
  }
  found.entry->route.serve(std::move(exchange), parameters);
}

}  // namespace harmonaize::daemon
