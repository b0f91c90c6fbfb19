#include "sluice/run/events.h"

#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "sluice/core/ensure.h"
#include "sluice/run/crc32c.h"
#include "sluice/run/ranks.h"

namespace sluice {
namespace {

// The fields of TensorFlow's event.proto and summary.proto that we write.
enum EventField {
  kWallTime = 1,
  kStep,
  kFileVersion,
  kSummary = 5,
  kSessionLog = 7
};
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue };
enum SessionLogField { kStatus = 1 };
constexpr std::uint64_t kStatusStart = 1;

// Protocol buffers' wire types.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <class T>
void put_little_endian(std::string& out, T bits) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<char>(bits >> (8 * i) & 0xffU));
  }
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    out.push_back(static_cast<char>((value & 0x7fU) | 0x80U));
  }
  out.push_back(static_cast<char>(value));
}

void put_key(std::string& out, int field, WireType type) {
  put_varint(out, static_cast<std::uint64_t>(field << 3 | type));
}

void put_number(std::string& out, int field, std::uint64_t value) {
  put_key(out, field, kVarint);
  put_varint(out, value);
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// TFRecord stores checksums rotated and shifted, so that the checksum of data
// that holds checksums stays meaningful.
std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
}

std::string framed(std::string_view data) {
  std::string record;
  put_little_endian(record, std::uint64_t{data.size()});
  put_little_endian(record, masked_crc(record));
  record += data;
  put_little_endian(record, masked_crc(data));
  return record;
}

double seconds_since_epoch() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string file_name() {
  static std::atomic<int> count{0};
  return concat("events.out.tfevents.",
                static_cast<std::int64_t>(seconds_since_epoch()), ".",
                host_name(), ".", getpid(), ".", count++);
}

}  // namespace

EventWriter::EventWriter(const std::string& folder, std::int64_t first_step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  ensure(!error, "[events] folder '", folder,
         "' must exist or be possible to make: ", error.message());
  path_ = (std::filesystem::path(folder) / file_name()).string();
  file_.reset(std::fopen(path_.c_str(), "wbx"));
  check(file_ != nullptr);
  std::string version;
  put_bytes(version, kFileVersion, "brain.Event:2");
  write_event(0, version);
  std::string start;
  put_number(start, kStatus, kStatusStart);
  std::string log;
  put_bytes(log, kSessionLog, start);
  write_event(first_step, log);
  flush();
}

void EventWriter::add_scalar(std::string_view tag, double value,
                             std::int64_t step) {
  std::string scalar;
  put_bytes(scalar, kTag, tag);
  put_key(scalar, kSimpleValue, kFixed32);
  put_little_endian(scalar,
                    std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  std::string summary;
  put_bytes(summary, kValue, scalar);
  std::string event;
  put_bytes(event, kSummary, summary);
  write_event(step, event);
}

void EventWriter::flush() { check(std::fflush(file_.get()) == 0); }

void EventWriter::write_event(std::int64_t step, std::string_view what) {
  std::string event;
  put_key(event, kWallTime, kFixed64);
  put_little_endian(event, std::bit_cast<std::uint64_t>(seconds_since_epoch()));
  put_number(event, kStep, static_cast<std::uint64_t>(step));
  event += what;
  const std::string record = framed(event);
  check(std::fwrite(record.data(), 1, record.size(), file_.get()) ==
        record.size());
}

void EventWriter::check(bool ok) const {
  ensure(ok, "[events] '", path_,
         "' could not be written: ", ok ? "" : std::strerror(errno));
}

}  // namespace sluice
