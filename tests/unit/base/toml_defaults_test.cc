#include "src/base/toml_defaults.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "src/base/toml_reader.h"

namespace harmonaize {
namespace {

constexpr char kDefaults[] =
    "[cluster]\naddress = \"10.0.0.1\"\nhost = \"host0\"\n[costs]\nmessage_us = 5\n";

TEST(WithTomlDefaults, KeysOfTheDocumentStay) {
  // A name in a comment is no section, and tables may be written in any way.
  const Result<std::string> text = WithTomlDefaults(
      "# [costs]\nlog = \"debug\"\n[cluster]\nhost = \"mine\"\n", "provider.toml", kDefaults);
  ASSERT_TRUE(text.ok()) << text.status().message();
  Result<TomlReader> reader = TomlReader::FromString(*text, "written");
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  std::string log;
  std::string host;
  std::string address;
  int64_t message = 0;
  reader->String("log", &log);
  reader->String("cluster.host", &host);
  reader->String("cluster.address", &address);
  reader->Integer("costs.message_us", 0, 100, &message);
  EXPECT_TRUE(reader->Finish().ok()) << *text;
  EXPECT_EQ(log, "debug");
  EXPECT_EQ(host, "mine");
  EXPECT_EQ(address, "10.0.0.1");
  EXPECT_EQ(message, 5);
}

TEST(WithTomlDefaults, StringsWithAnyQuotesStay) {
  const Result<std::string> text =
      WithTomlDefaults("log = \"a'''b\\\\c\\\"\\t\"\n", "provider.toml", kDefaults);
  ASSERT_TRUE(text.ok()) << text.status().message();
  Result<TomlReader> reader = TomlReader::FromString(*text, "written");
  ASSERT_TRUE(reader.ok()) << reader.status().message() << "\n" << *text;
  std::string log;
  reader->String("log", &log);
  EXPECT_EQ(log, "a'''b\\c\"\t");
}

TEST(WithTomlDefaults, AnEmptyDocumentIsAllDefaults) {
  const Result<std::string> text = WithTomlDefaults("", "provider.toml", kDefaults);
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->find("10.0.0.1"), std::string::npos);
}

TEST(WithTomlDefaults, ErrorsGiveThePlace) {
  const Result<std::string> text =
      WithTomlDefaults("[cluster]\nhost = =\n", "provider.toml", kDefaults);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.status().message().rfind("provider.toml:2:", 0), 0u) << text.status().message();
}

}  // namespace
}  // namespace harmonaize
