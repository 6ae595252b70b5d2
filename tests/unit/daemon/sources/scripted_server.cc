#include "tests/unit/daemon/sources/scripted_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <sstream>

namespace harmonaize::daemon {
namespace {

std::string PemOf(const std::function<void(BIO*)>& write) {
  BIO* const memory = BIO_new(BIO_s_mem());
  write(memory);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory, &bytes);
  std::string text(bytes, static_cast<size_t>(size));
  BIO_free(memory);
  return text;
}

SSL_CTX* ServerContext(const TestCertificate& certificate) {
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  BIO* const certificate_pem = BIO_new_mem_buf(certificate.certificate.data(), -1);
  BIO* const key_pem = BIO_new_mem_buf(certificate.key.data(), -1);
  X509* const made = PEM_read_bio_X509(certificate_pem, nullptr, nullptr, nullptr);
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(key_pem, nullptr, nullptr, nullptr);
  EXPECT_EQ(SSL_CTX_use_certificate(context, made), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);
  X509_free(made);
  EVP_PKEY_free(key);
  BIO_free(certificate_pem);
  BIO_free(key_pem);
  return context;
}

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char one) { return static_cast<char>(std::tolower(one)); });
  return text;
}

ServedRequest ReadHead(const std::string& head) {
  ServedRequest request;
  std::istringstream lines(head);
  lines >> request.method >> request.target;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && line != "\r") {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    request.headers[LowerCase(line.substr(0, colon))] =
        line.substr(colon + 2, line.size() - colon - 3);
  }
  return request;
}

}  // namespace

TestCertificate MakeCertificate(const std::string& subject, int days) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const made = X509_new();
  X509_set_version(made, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
  X509_gmtime_adj(X509_getm_notBefore(made), -86400);
  X509_gmtime_adj(X509_getm_notAfter(made), 86400L * (days - 1));
  X509_set_pubkey(made, key);
  X509_NAME* const name = X509_get_subject_name(made);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("127.0.0.1"), -1, -1, 0);
  X509_set_issuer_name(made, name);
  X509_EXTENSION* const hosts =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, subject.c_str());
  X509_add_ext(made, hosts, -1);
  X509_EXTENSION_free(hosts);
  EXPECT_GT(X509_sign(made, key, EVP_sha256()), 0);
  TestCertificate certificate;
  certificate.certificate = PemOf([&](BIO* pem) { PEM_write_bio_X509(pem, made); });
  certificate.key = PemOf(
      [&](BIO* pem) { PEM_write_bio_PrivateKey(pem, key, nullptr, nullptr, 0, nullptr, nullptr); });
  X509_free(made);
  EVP_PKEY_free(key);
  return certificate;
}

ServedConnection::ServedConnection(FileDescriptor socket, SSL_CTX* tls,
                                   const std::atomic<bool>& ends)
    : socket_(std::move(socket)), ends_(ends) {
  if (tls == nullptr) return;
  tls_ = SSL_new(tls);
  SSL_set_fd(tls_, socket_.get());
}

ServedConnection::~ServedConnection() {
  SSL_free(tls_);
}

bool ServedConnection::Begin() {
  return tls_ == nullptr || SSL_accept(tls_) == 1;
}

bool ServedConnection::Send(const std::string& bytes) {
  if (ends_) return false;
  const int size = static_cast<int>(bytes.size());
  if (tls_ != nullptr) return SSL_write(tls_, bytes.data(), size) == size;
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t taken =
        send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (taken <= 0) return false;
    sent += static_cast<size_t>(taken);
  }
  return true;
}

std::string ServedConnection::Receive() {
  char bytes[4096];
  const ssize_t taken = tls_ != nullptr ? SSL_read(tls_, bytes, sizeof bytes)
                                        : recv(socket_.get(), bytes, sizeof bytes, 0);
  return taken <= 0 ? "" : std::string(bytes, static_cast<size_t>(taken));
}

bool ServedConnection::Wait(int milliseconds) const {
  for (int waited = 0; waited < milliseconds && !ends_; waited += 5) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return !ends_;
}

std::string Answer(int status, const std::string& body, const std::string& headers) {
  return fmt::format("HTTP/1.1 {} Said\r\nContent-Length: {}\r\n{}\r\n{}", status, body.size(),
                     headers, body);
}

ScriptedServer::ScriptedServer(Handler handler, const TestCertificate* certificate)
    : handler_(std::move(handler)),
      tls_(certificate == nullptr ? nullptr : ServerContext(*certificate)),
      listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  // OpenSSL writes to connections that the other side has closed.
  signal(SIGPIPE, SIG_IGN);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listener_.get(), 64), 0);
  EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { Accept(); });
}

ScriptedServer::~ScriptedServer() {
  ends_ = true;
  accepting_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& connection : served_) shutdown(connection->fd(), SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  served_.clear();
  SSL_CTX_free(tls_);
}

std::string ScriptedServer::endpoint() const {
  return fmt::format("{}://127.0.0.1:{}", tls_ == nullptr ? "http" : "https", port_);
}

void ScriptedServer::Accept() {
  while (!ends_) {
    pollfd waiting{listener_.get(), POLLIN, 0};
    if (poll(&waiting, 1, 10) != 1) continue;
    FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.valid()) continue;
    ++connections_;
    auto made = std::make_unique<ServedConnection>(std::move(socket), tls_, ends_);
    ServedConnection* const connection = made.get();
    const std::lock_guard lock(mutex_);
    served_.push_back(std::move(made));
    threads_.emplace_back([this, connection] {
      Serve(*connection);
      shutdown(connection->fd(), SHUT_RDWR);
    });
  }
}

void ScriptedServer::Serve(ServedConnection& connection) {
  if (!connection.Begin()) return;
  std::string bytes;
  size_t end = std::string::npos;
  while ((end = bytes.find("\r\n\r\n")) == std::string::npos) {
    const std::string more = connection.Receive();
    if (more.empty()) return;
    bytes += more;
  }
  ServedRequest request = ReadHead(bytes.substr(0, end + 4));
  request.body = bytes.substr(end + 4);
  const std::string length = request.Header("content-length");
  while (!length.empty() && request.body.size() < std::stoul(length)) {
    const std::string more = connection.Receive();
    if (more.empty()) return;
    request.body += more;
  }
  handler_(request, connection);
}

}  // namespace harmonaize::daemon
