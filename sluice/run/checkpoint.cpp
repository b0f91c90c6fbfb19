#include "sluice/run/checkpoint.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "sluice/core/atomic_file.h"
#include "sluice/core/checksum.h"
#include "sluice/core/ensure.h"
#include "sluice/core/input_file.h"
#include "sluice/core/json_check.h"
#include "sluice/run/json_count.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "checkpoints are little endian");

using Bytes = std::span<const std::byte>;

constexpr std::size_t kAlign = 64;
constexpr std::array<char, 8> kMagic = {'S', 'L', 'U', 'I', 'C', 'E', 'C', 'K'};

struct Preamble {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = Checkpoint::kVersion;
  std::uint32_t reserved = 0;
  std::uint64_t json_bytes = 0;
  std::uint64_t data_bytes = 0;
};
static_assert(sizeof(Preamble) == 32);

struct Ending {
  std::uint32_t front = 0;  // checksums
  std::uint32_t data = 0;
};
static_assert(sizeof(Ending) == 8);

constexpr std::uintmax_t kLeastBytes = sizeof(Preamble) + sizeof(Ending);

std::uint64_t digest_of(const Ending& ending) {
  return std::uint64_t{ending.front} << 32 | ending.data;
}

constexpr std::size_t aligned(std::size_t n) {
  return (n + kAlign - 1) / kAlign * kAlign;
}

// The bytes that dimensions ask for, or nothing if they overflow.
bool count_bytes(const StoredTensor& tensor, std::uint64_t& bytes) {
  bytes = dtype_size(tensor.dtype);
  for (const std::int64_t dim : tensor.dims) {
    if (dim < 0 || __builtin_mul_overflow(
                       bytes, static_cast<std::uint64_t>(dim), &bytes)) {
      return false;
    }
  }
  return true;
}

nlohmann::json parse_header(std::string_view header) {
  auto json = nlohmann::json::parse(header, nullptr, false);
  require(json.is_object(),
          "[write_checkpoint] the header must be a JSON object, got ",
          header.substr(0, 80));
  return json;
}

void check_tensors(std::span<const StoredTensor> tensors) {
  std::set<std::string_view> names;
  for (const StoredTensor& tensor : tensors) {
    require(!tensor.name.empty() && names.insert(tensor.name).second,
            "[write_checkpoint] tensors must have names of their own, got '",
            tensor.name, "' ", tensor.name.empty() ? "" : "twice");
    std::uint64_t bytes = 0;
    require(count_bytes(tensor, bytes) && bytes == tensor.data.size(),
            "[write_checkpoint] tensor '", tensor.name, "' must have ", bytes,
            " bytes by its dimensions, got ", tensor.data.size());
  }
}

// Preamble and JSON.
std::string front_of(std::string_view header,
                     std::span<const StoredTensor> tensors) {
  nlohmann::json index = {{"header", parse_header(header)},
                          {"tensors", nlohmann::json::array()}};
  Preamble preamble;
  for (const StoredTensor& tensor : tensors) {
    index["tensors"].push_back({{"name", tensor.name},
                                {"dtype", tensor.dtype},
                                {"dims", tensor.dims},
                                {"offset", preamble.data_bytes}});
    preamble.data_bytes += aligned(tensor.data.size());
  }
  std::string json = index.dump();
  json.resize(aligned(sizeof(Preamble) + json.size()) - sizeof(Preamble), ' ');
  preamble.json_bytes = json.size();
  std::string front(sizeof(Preamble), '\0');
  std::memcpy(front.data(), &preamble, sizeof(Preamble));
  return front + json;
}

std::uint32_t checksum_of(Bytes bytes) {
  Checksum checksum;
  checksum.add(bytes);
  return checksum.fold();
}

std::uint32_t checksum_of(std::span<const StoredTensor> tensors) {
  Checksum checksum;
  for (const StoredTensor& tensor : tensors) checksum.add(tensor.data);
  return checksum.fold();
}

std::vector<std::byte> read_all(const std::string& path) {
  const std::string problem = why_no_file(path);
  ensure(problem.empty(), "[read_checkpoint] '", path,
         "' must be a file that can be read: ", problem);
  auto size = std::filesystem::file_size(path);
  std::ifstream file(path, std::ios::binary);
  std::array<char, 8> magic = {};
  file.read(magic.data(), magic.size());
  // No memory for what is something else, a long hole say.
  if (magic != kMagic) size = std::min(size, kLeastBytes);
  file.clear();
  file.seekg(0);
  std::vector<std::byte> bytes(size);
  file.read(reinterpret_cast<char*>(bytes.data()),
            static_cast<std::streamsize>(size));
  ensure(file.good(), "[read_checkpoint] '", path,
         "' must be a file that can be read: ", std::strerror(errno));
  return bytes;
}

// What a file says of itself, checked against its size.
class Reader {
 public:
  Reader(const std::string& path, Bytes bytes) : path_(path), bytes_(bytes) {}

  void check_front() {
    check(bytes_.size() >= kLeastBytes, "must have at least 40 bytes, has ",
          bytes_.size(), "; it was cut short or is no checkpoint");
    std::memcpy(&preamble_, bytes_.data(), sizeof(Preamble));
    check(preamble_.magic == kMagic,
          "must begin with SLUICECK; it is no checkpoint");
    check(preamble_.version == Checkpoint::kVersion, "must be of version ",
          Checkpoint::kVersion, ", is of version ", preamble_.version,
          "; read it with the Sluice that wrote it");
    std::uint64_t expected = sizeof(Preamble) + sizeof(Ending);
    const bool fits =
        !__builtin_add_overflow(expected, preamble_.json_bytes, &expected) &&
        !__builtin_add_overflow(expected, preamble_.data_bytes, &expected);
    check(fits && bytes_.size() == expected, "must have ", expected,
          " bytes by its preamble, has ", bytes_.size(),
          bytes_.size() < expected ? "; it was cut short" : "");
    std::memcpy(&ending_, bytes_.data() + bytes_.size() - sizeof(Ending),
                sizeof(Ending));
    const Bytes front = bytes_.first(sizeof(Preamble) + preamble_.json_bytes);
    check(checksum_of(front) == ending_.front, kDamaged);
  }

  std::string read_index(std::vector<StoredTensor>& tensors) {
    const Bytes text = bytes_.subspan(sizeof(Preamble), preamble_.json_bytes);
    const auto* begin = reinterpret_cast<const char*>(text.data());
    try {
      check_json("header", {begin, text.size()});
      const auto json = nlohmann::json::parse(begin, begin + text.size());
      for (const auto& item : json.at("tensors")) {
        StoredTensor tensor{item.at("name"), item.at("dtype"), {}, {}};
        check(item.at("dims").is_array(), kNoCount);
        for (const auto& dim : item.at("dims")) {
          tensor.dims.push_back(static_cast<std::int64_t>(count(dim)));
        }
        tensor.data = place(tensor, count(item.at("offset")));
        tensors.push_back(std::move(tensor));
      }
      return json.at("header").dump();
    } catch (const nlohmann::json::exception& e) {
      check(false, "has a header that cannot be read (", json_problem(e.what()),
            "); it is damaged");
    } catch (const std::invalid_argument& e) {
      check(false, "has a tensor that cannot be read (", e.what(),
            "); it is damaged");
    }
    return {};
  }

  // After the index: it needs to know where tensors begin and end.
  void check_data(std::span<const StoredTensor> tensors) const {
    check(next_ == preamble_.data_bytes &&
              checksum_of(tensors) == ending_.data &&
              std::all_of(tensors.begin(), tensors.end(), has_clean_filling),
          kDamaged);
  }

  std::uint64_t digest() const { return digest_of(ending_); }

 private:
  template <class... Parts>
  void check(bool ok, const Parts&... parts) const {
    ensure(ok, "[read_checkpoint] '", path_, "' ", parts...,
           ok ? "" : "; use an older checkpoint");
  }

  std::uint64_t count(const nlohmann::json& value) const {
    const auto number =
        count_in(value, 0, std::numeric_limits<std::int64_t>::max());
    check(number.has_value(), kNoCount);
    return *number;
  }

  // Tensors lie one after another, so each offset is known beforehand.
  Bytes place(const StoredTensor& tensor, std::uint64_t offset) {
    std::uint64_t size = 0;
    const bool fits = count_bytes(tensor, size) && offset == next_ &&
                      size <= preamble_.data_bytes &&
                      aligned(size) <= preamble_.data_bytes - next_;
    check(fits, "has a tensor '", tensor.name,
          "' outside its data; it is damaged");
    next_ += aligned(size);
    return bytes_.subspan(sizeof(Preamble) + preamble_.json_bytes + offset,
                          size);
  }

  // The checksum does not cover what fills up between tensors.
  static bool has_clean_filling(const StoredTensor& tensor) {
    const std::size_t size = tensor.data.size();
    const Bytes filling(tensor.data.data() + size, aligned(size) - size);
    return std::all_of(filling.begin(), filling.end(),
                       [](std::byte b) { return b == std::byte{0}; });
  }

  static constexpr std::string_view kNoCount =
      "must have tensors with whole dims and offsets; it is damaged";
  static constexpr std::string_view kDamaged =
      "must match its checksum; it is damaged";

  const std::string& path_;
  Bytes bytes_;
  Preamble preamble_;
  Ending ending_;
  std::uint64_t next_ = 0;
};

}  // namespace

std::size_t dtype_size(std::string_view dtype) {
  struct Row {
    std::string_view name;
    std::size_t size;
  };
  constexpr Row kSizes[] = {{"float32", 4},  {"float64", 8}, {"float16", 2},
                            {"bfloat16", 2}, {"int8", 1},    {"int16", 2},
                            {"int32", 4},    {"int64", 8},   {"uint8", 1},
                            {"bool", 1}};
  const auto* row = std::find_if(std::begin(kSizes), std::end(kSizes),
                                 [&](const Row& r) { return r.name == dtype; });
  require(row != std::end(kSizes), "[checkpoint] no element type '", dtype,
          "'; float32, float64, float16, bfloat16, int8 to int64, uint8 and "
          "bool can be stored");
  return row->size;
}

std::uint64_t Checkpoint::write(const std::string& path,
                                std::string_view header,
                                std::span<const StoredTensor> tensors) {
  check_tensors(tensors);
  const std::string front = front_of(header, tensors);
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(front)));
  constexpr std::array<std::byte, kAlign> kFilling{};
  for (const StoredTensor& tensor : tensors) {
    const std::size_t size = tensor.data.size();
    file.write(tensor.data);
    file.write(Bytes(kFilling).first(aligned(size) - size));
  }
  const Ending ending = {checksum_of(std::as_bytes(std::span(front))),
                         checksum_of(tensors)};
  file.write(std::as_bytes(std::span(&ending, 1)));
  file.commit();
  return digest_of(ending);
}

Checkpoint Checkpoint::read(const std::string& path) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  checkpoint.bytes_ = read_all(path);
  Reader reader(path, checkpoint.bytes_);
  reader.check_front();
  checkpoint.header_ = reader.read_index(checkpoint.tensors_);
  reader.check_data(checkpoint.tensors_);
  checkpoint.digest_ = reader.digest();
  return checkpoint;
}

const StoredTensor& Checkpoint::at(std::string_view name) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(),
                   [&](const StoredTensor& t) { return t.name == name; });
  require(found != tensors_.end(), "[checkpoint] '", path_, "' has no tensor '",
          name, "' among its ", tensors_.size());
  return *found;
}

}  // namespace sluice
