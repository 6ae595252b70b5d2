#include "daemon/http/http_router.h"

#include <gtest/gtest.h>

#include "daemon/http/http_target.h"

namespace harmonaize::daemon {
namespace {

/// An exchange that keeps its answer.
class KeptExchange final : public HttpExchange {
 public:
  explicit KeptExchange(HttpRequest request) : request_(std::move(request)) {}
  const HttpRequest& request() const override { return request_; }
  void Respond(HttpResponse response) override { response_ = std::move(response); }
  std::shared_ptr<HttpStream> RespondWithStream(HttpStreamNews) override { return nullptr; }
  const HttpResponse& response() const { return response_; }

 private:
  const HttpRequest request_;
  HttpResponse response_;
};

HttpRoute Route(const std::string& method, const std::string& pattern, HttpAudience audience) {
  return {
      method, pattern, audience,
      [pattern](const std::shared_ptr<HttpExchange>& exchange, const HttpParameters& parameters) {
        HttpResponse response;
        response.body = pattern;
        for (const auto& [name, value] : parameters) response.body += " " + name + "=" + value;
        exchange->Respond(std::move(response));
      }};
}

class HttpRouterTest : public ::testing::Test {
 protected:
  HttpRouterTest() {
    Result<std::shared_ptr<HttpRouter>> router = HttpRouter::Create({
        Route("GET", "/", HttpAudience::kAnybody),
        Route("GET", "/v1/jobs/{job}", HttpAudience::kTenants),
        Route("GET", "/v1/jobs/{job}/stuck", HttpAudience::kTenants),
        Route("PUT", "/v1/jobs/{job}/requirements", HttpAudience::kTenants),
        Route("GET", "/v1/jobs/{job}/requirements", HttpAudience::kTenants),
        Route("GET", "/v1/jobs/all", HttpAudience::kOperators),
        Route("POST", "/v1/events", HttpAudience::kOperators),
        Route("GET", "/v1/events", HttpAudience::kTenants),
        Route("GET", "/metrics", HttpAudience::kMetrics),
    });
    EXPECT_TRUE(router.ok()) << router.status().message();
    router_ = std::move(*router);
  }

  HttpResponse Ask(HttpScope scope, const std::string& method, const std::string& target) {
    HttpRequest request;
    request.method = method;
    request.path = ParseHttpTarget(target)->path;
    request.caller.scope = scope;
    const std::optional<HttpResponse> early = router_->RefuseEarly(request);
    const auto exchange = std::make_shared<KeptExchange>(request);
    router_->Handle(exchange);
    if (early.has_value()) {
      EXPECT_EQ(early->status, exchange->response().status);
    }
    return exchange->response();
  }

  std::shared_ptr<HttpRouter> router_;
};

TEST_F(HttpRouterTest, GivesParametersToTheRoute) {
  EXPECT_EQ(Ask(HttpScope::kTenant, "GET", "/v1/jobs/a%2Fb/stuck").body,
            "/v1/jobs/{job}/stuck job=a/b");
  EXPECT_EQ(Ask(HttpScope::kTenant, "GET", "/").body, "/");
}

TEST_F(HttpRouterTest, AFixedSegmentGoesBeforeAParameter) {
  EXPECT_EQ(Ask(HttpScope::kOperator, "GET", "/v1/jobs/all").body, "/v1/jobs/all");
  EXPECT_EQ(Ask(HttpScope::kTenant, "GET", "/v1/jobs/all").body, "/v1/jobs/{job} job=all")
      << "to a tenant the operators' route does not exist";
}

TEST_F(HttpRouterTest, ATenantDoesNotLearnWhatOperatorsHave) {
  const HttpResponse hidden = Ask(HttpScope::kTenant, "POST", "/v1/events");
  EXPECT_EQ(hidden.status, 405);
  EXPECT_EQ(hidden.headers.at(0).second, "GET, HEAD") << "and POST is not listed";
  const HttpResponse unknown = Ask(HttpScope::kTenant, "GET", "/v1/nothing");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(Ask(HttpScope::kTenant, "GET", "/metrics").body, unknown.body);
  EXPECT_EQ(Ask(HttpScope::kOperator, "POST", "/v1/events").body, "/v1/events");
}

TEST_F(HttpRouterTest, AReadOnlyOperatorChangesNothing) {
  EXPECT_EQ(Ask(HttpScope::kOperatorReadOnly, "GET", "/v1/jobs/all").status, 200);
  EXPECT_EQ(Ask(HttpScope::kOperatorReadOnly, "POST", "/v1/events").status, 403);
  EXPECT_EQ(Ask(HttpScope::kOperatorReadOnly, "PUT", "/v1/jobs/a/requirements").status, 403);
  EXPECT_EQ(Ask(HttpScope::kOperatorReadOnly, "DELETE", "/v1/events").status, 405);
}

TEST_F(HttpRouterTest, MetricsAndStrangersSeeWhatIsTheirs) {
  EXPECT_EQ(Ask(HttpScope::kMetrics, "GET", "/metrics").status, 200);
  EXPECT_EQ(Ask(HttpScope::kMetrics, "GET", "/v1/jobs/a").status, 404);
  EXPECT_EQ(Ask(HttpScope::kStranger, "GET", "/").status, 200);
  EXPECT_EQ(Ask(HttpScope::kStranger, "GET", "/v1/events").status, 404);
}

TEST_F(HttpRouterTest, AllowsTheMethodsOfAllRoutesOfAPath) {
  const HttpResponse wrong = Ask(HttpScope::kTenant, "DELETE", "/v1/jobs/a/requirements");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at(0).first, "Allow");
  EXPECT_EQ(wrong.headers.at(0).second, "GET, PUT, HEAD");
  for (const char* const unknown : {"OPTIONS", "PATCH", "BREW"}) {
    const HttpResponse refused = Ask(HttpScope::kTenant, unknown, "/v1/jobs/a/requirements");
    EXPECT_EQ(refused.status, 405) << unknown;
    EXPECT_EQ(refused.headers.at(0).second, "GET, PUT, HEAD") << unknown;
    EXPECT_EQ(Ask(HttpScope::kTenant, unknown, "/metrics").status, 404) << unknown;
    EXPECT_EQ(Ask(HttpScope::kOperatorReadOnly, unknown, "/v1/events").status, 405) << unknown;
  }
}

TEST(HttpRouter, RefusesRoutesThatCannotBeMeant) {
  const auto create = [](std::vector<HttpRoute> routes) {
    return HttpRouter::Create(std::move(routes)).status().code();
  };
  const HttpAudience all = HttpAudience::kTenants;
  EXPECT_EQ(create({Route("GET", "/a", all), Route("PUT", "/a", all)}), Code::kOk);
  EXPECT_EQ(create({Route("PATCH", "/a", all)}), Code::kInvalidArgument);
  EXPECT_EQ(create({Route("GET", "/{a}", all), Route("GET", "/{b}", all)}), Code::kInvalidArgument);
  for (const char* const wrong : {"", "a", "/a/", "/{}", "/{a", "/a}b", "/{a}/{a}"}) {
    EXPECT_EQ(create({Route("GET", wrong, all)}), Code::kInvalidArgument) << wrong;
  }
}

TEST(HttpRouter, ARouteMayTakeAnotherMediaType) {
  HttpRoute route = Route("PUT", "/toml", HttpAudience::kTenants);
  route.media_types = {"application/toml"};
  const auto router = std::move(HttpRouter::Create({std::move(route)})).value();
  HttpRequest head;
  head.method = "PUT";
  head.path = {"toml"};
  head.headers = {{"content-length", "3"}, {"content-type", "Application/TOML; charset=utf-8"}};
  EXPECT_FALSE(router->RefuseEarly(head).has_value());
  head.headers["content-type"] = "application/json";
  EXPECT_EQ(router->RefuseEarly(head)->status, 415);
  head.headers.erase("content-type");
  EXPECT_EQ(router->RefuseEarly(head)->status, 415);
  head.headers["content-length"] = "0";
  EXPECT_FALSE(router->RefuseEarly(head).has_value()) << "no body has no type";
}

}  // namespace
}  // namespace harmonaize::daemon
