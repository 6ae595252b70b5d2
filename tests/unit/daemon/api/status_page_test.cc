#include "daemon/page/status_page.h"

#include <gtest/gtest.h>

#include <string>

#include "daemon/api/page_routes.h"

namespace harmonaize::daemon {
namespace {

TEST(StatusPage, IsOneFileOfBoundedSize) {
  const Result<StatusPage> page = MakeStatusPage();
  ASSERT_TRUE(page.ok()) << page.status().message();
  EXPECT_LE(page->document.size(), kMostPageBytes);
  EXPECT_TRUE(page->document.starts_with("<!doctype html>"));
  EXPECT_EQ(page->document.find("/*page."), std::string::npos) << "all places are filled";
  for (const char* const tag : {"<script", "</script>", "<style", "</style>"}) {
    const size_t first = page->document.find(tag);
    ASSERT_NE(first, std::string::npos) << tag;
    EXPECT_EQ(page->document.find(tag, first + 1), std::string::npos) << tag;
  }
}

TEST(StatusPage, MayRunItsOwnScriptAndStyleAlone) {
  const Result<StatusPage> page = MakeStatusPage();
  ASSERT_TRUE(page.ok()) << page.status().message();
  EXPECT_TRUE(page->policy.starts_with("default-src 'none'; script-src 'sha256-"));
  EXPECT_NE(page->policy.find("; style-src 'sha256-"), std::string::npos);
  for (const char* const word : {"unsafe", "*", "data:", "http"}) {
    EXPECT_EQ(page->policy.find(word), std::string::npos) << word;
  }
}

TEST(PageRoutes, OpenThePageAloneToEverybody) {
  for (const HttpRoute& route : PageRoutes({}, {})) {
    EXPECT_EQ(route.method, "GET");
    EXPECT_EQ(route.audience == HttpAudience::kAnybody, route.pattern == "/") << route.pattern;
  }
}

}  // namespace
}  // namespace harmonaize::daemon
