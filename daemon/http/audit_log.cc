#include "daemon/http/audit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/config/private_file.h"
#include "daemon/config/state_directory.h"
#include "daemon/runtime/guarded.h"
#include "src/base/json_text.h"
#include "src/base/log.h"
#include "src/base/time_text.h"
#include "src/base/wall_clock.h"
#include "src/base/write_whole.h"

namespace harmonaize::daemon {
namespace {

using Json = nlohmann::ordered_json;

std::string AuditTimeText(double unix_seconds) {
  const double whole = std::floor(unix_seconds);
  const auto seconds = static_cast<time_t>(whole);
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03d}Z", text, static_cast<int>((unix_seconds - whole) * 1000));
}

std::string LineOf(const Json& line) {
  return JsonText(line) + "\n";
}

std::string ShortPath(const std::string& path) {
  if (path.size() <= kMostAuditPathBytes) return path;
  return path.substr(0, kMostAuditPathBytes) + "...";
}

Json ObjectOf(const AuditEntry& entry) {
  Json object = {{"time", AuditTimeText(entry.unix_seconds)},
                 {"who", entry.who},
                 {"method", entry.method},
                 {"path", ShortPath(entry.path)},
                 {"status", entry.status}};
  if (!entry.note.id.empty()) object["id"] = entry.note.id;
  if (!entry.note.state.empty()) object["state"] = entry.note.state;
  return object;
}

}  // namespace

AuditLog::AuditLog(std::string folder, AuditLimits limits)
    : folder_(std::move(folder)), path_(folder_ + "/" + kAuditFile), limits_(limits) {}

Result<std::unique_ptr<AuditLog>> AuditLog::Start(std::string folder, AuditLimits limits) {
  std::unique_ptr<AuditLog> log(new AuditLog(std::move(folder), limits));
  HZ_RETURN_IF_ERROR(MakeStateFolder(log->folder_));
  HZ_RETURN_IF_ERROR(log->OpenFile());
  try {
    log->thread_ = std::thread([own = log.get()] { own->Run(); });
  } catch (const std::system_error& error) {
    return SystemError("cannot start a thread: {}", error.what());
  }
  return log;
}

AuditLog::~AuditLog() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AuditLog::Add(AuditEntry entry) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= limits_.waiting) {
      ++missing_;
    } else {
      waiting_.push_back(std::move(entry));
    }
  }
  changed_.notify_all();
}

void AuditLog::Flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.empty() && !writing_; });
}

void AuditLog::CountRefusal(const std::string& who) {
  {
    const std::lock_guard lock(mutex_);
    last_refused_ = who;
    ++refusals_;
  }
  changed_.notify_all();
}

void AuditLog::Run() {
  pthread_setname_np(pthread_self(), "hz-audit");
  std::unique_lock lock(mutex_);
  while (true) {
    AwaitWork(&lock);
    if (waiting_.empty() && refusals_ == 0) return;
    const Batch batch = TakeBatch();
    writing_ = true;
    lock.unlock();
    const Status written = Caught([&] { return WriteLines(batch); });
    Tell(written);
    lock.lock();
    if (!written.ok()) {
      missing_ += batch.missing + batch.entries.size();
      refusals_ += batch.refusals;
    }
    writing_ = false;
    changed_.notify_all();
    if (stopping_ && !written.ok()) return;
  }
}

void AuditLog::AwaitWork(std::unique_lock<std::mutex>* lock) {
  while (!stopping_ && waiting_.empty() && !RefusalsAreDue()) {
    if (refusals_ == 0) {
      changed_.wait(*lock);
    } else {
      changed_.wait_until(*lock, refusals_due_);
    }
  }
}

bool AuditLog::RefusalsAreDue() const {
  if (refusals_ == 0) return false;
  return stopping_ || std::chrono::steady_clock::now() >= refusals_due_;
}

AuditLog::Batch AuditLog::TakeBatch() {
  Batch batch;
  batch.entries = std::exchange(waiting_, {});
  batch.missing = std::exchange(missing_, 0);
  if (!RefusalsAreDue()) return batch;
  batch.refusals = std::exchange(refusals_, 0);
  batch.last_refused = last_refused_;
  refusals_due_ = std::chrono::steady_clock::now() + limits_.refusals_every;
  return batch;
}

Status AuditLog::WriteLines(const Batch& batch) {
  if (!file_.valid()) HZ_RETURN_IF_ERROR(OpenFile());
  std::string text;
  if (batch.missing > 0) {
    text += LineOf({{"time", AuditTimeText(UnixSeconds())}, {"missing", batch.missing}});
  }
  for (const AuditEntry& entry : batch.entries) {
    text += LineOf(ObjectOf(entry));
  }
  if (batch.refusals > 0) {
    text += LineOf({{"time", AuditTimeText(UnixSeconds())},
                    {"refused", batch.refusals},
                    {"last_refused", batch.last_refused}});
  }
  HZ_RETURN_IF_ERROR(WriteWhole(file_.get(), text, path_));
  if (fdatasync(file_.get()) != 0) return ErrnoError(errno, "cannot write " + path_);
  file_bytes_ += static_cast<int64_t>(text.size());
  return file_bytes_ > limits_.file_bytes ? Rotate() : Status::Ok();
}

Status AuditLog::OpenFile() {
  file_ = FileDescriptor(
      open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file_.valid()) return ErrnoError(errno, "cannot open " + path_);
  struct stat found {};
  if (fstat(file_.get(), &found) != 0 || fchmod(file_.get(), 0600) != 0) {
    return ErrnoError(errno, "cannot look at " + path_);
  }
  file_bytes_ = found.st_size;
  return Status::Ok();
}

Status AuditLog::Rotate() {
  file_.Reset();
  for (int i = limits_.kept_files - 1; i >= 1; --i) {
    std::rename(fmt::format("{}.{}", path_, i).c_str(), fmt::format("{}.{}", path_, i + 1).c_str());
  }
  if (std::rename(path_.c_str(), (path_ + ".1").c_str()) != 0) {
    Log(LogLevel::kWarning, kLogInit, "cannot set {} aside, so it grows on", path_);
  }
  return OpenFile();
}

void AuditLog::Tell(const Status& written) {
  if (!written.ok() && !failing_) {
    Log(LogLevel::kError, kLogInit, "the audit log lacks lines from now on: {}", written.message());
  }
  failing_ = !written.ok();
}

}  // namespace harmonaize::daemon
