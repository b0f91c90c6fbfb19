#include "sluice/weights/torch_file.h"

#include <algorithm>
#include <cstring>

#include "sluice/core/ensure.h"
#include "sluice/weights/mapped_file.h"
#include "sluice/weights/pickle.h"
#include "sluice/weights/zip.h"

namespace sluice {
namespace {

using Kind = Pickle::Kind;
using PickleValue = Pickle::Value;
using TorchBytes = std::span<const std::byte>;

constexpr std::size_t kMostPickle = std::size_t{64} << 20;
constexpr std::size_t kMostSizes = 64;

struct StorageRow {
  std::string_view name;
  WeightType type;
};
constexpr StorageRow kStorages[] = {
    {"torch DoubleStorage", WeightType::kF64},
    {"torch FloatStorage", WeightType::kF32},
    {"torch HalfStorage", WeightType::kF16},
    {"torch BFloat16Storage", WeightType::kBF16},
    {"torch LongStorage", WeightType::kI64},
    {"torch IntStorage", WeightType::kI32},
    {"torch ShortStorage", WeightType::kI16},
    {"torch CharStorage", WeightType::kI8},
    {"torch ByteStorage", WeightType::kU8},
    {"torch BoolStorage", WeightType::kBool}};

// Where people keep the weights of a checkpoint, in order of preference.
constexpr std::string_view kNested[] = {"state_dict", "model_state_dict",
                                        "model", "module", "net"};

WeightType storage_type(std::string_view name) {
  for (const auto& [known, type] : kStorages) {
    if (known == name) return type;
  }
  ensure(false, "'", name, "' is no storage");
  return {};
}

struct Strided {
  TorchBytes storage;
  std::int64_t offset = 0;
  Dims dims, strides;
  std::size_t width = 0;  // of an element
};

bool is_contiguous(const Strided& t) {
  std::int64_t expected = 1;
  for (std::size_t i = t.dims.size(); i-- > 0;) {
    if (t.dims[i] != 1 && t.strides[i] != expected) return false;
    expected *= t.dims[i];
  }
  return true;
}

// One behind the last element that the tensor has; none if it overflows.
std::optional<std::int64_t> end_of(const Strided& t) {
  std::int64_t last = t.offset;
  for (std::size_t i = 0; i < t.dims.size(); ++i) {
    if (t.dims[i] == 0) return t.offset;
    std::int64_t reach = 0;
    if (t.strides[i] < 0 ||
        __builtin_mul_overflow(t.dims[i] - 1, t.strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return std::nullopt;
    }
  }
  if (__builtin_add_overflow(last, 1, &last)) return std::nullopt;
  return last;
}

// Row after row, counting the place like an odometer.
std::vector<std::byte> gathered(const Strided& t, std::int64_t elements) {
  std::vector<std::byte> out(static_cast<std::size_t>(elements) * t.width);
  Dims place(t.dims.size(), 0);
  std::int64_t from = t.offset;
  for (std::size_t i = 0; i < out.size(); i += t.width) {
    std::memcpy(out.data() + i,
                t.storage.data() + static_cast<std::size_t>(from) * t.width,
                t.width);
    for (std::size_t d = t.dims.size(); d-- > 0;) {
      from += t.strides[d];
      if (++place[d] < t.dims[d]) break;
      from -= t.strides[d] * t.dims[d];
      place[d] = 0;
    }
  }
  return out;
}

class TorchReader {
 public:
  TorchReader(TorchBytes file, Weights& weights)
      : zip_(file),
        prefix_(zip_.prefix_of("data.pkl")),
        weights_(weights),
        copies_left_(4 * file.size() + (std::size_t{1} << 20)) {}

  void read() {
    check_archive();
    const TorchBytes bytes = zip_.read(prefix_ + "data.pkl");
    ensure(bytes.size() <= kMostPickle, "its data.pkl must have at most ",
           kMostPickle, " bytes, has ", bytes.size());
    const Pickle pickle(bytes);
    pickle_ = &pickle;
    add_all(find_dict());
    drop_module_prefix();
  }

 private:
  void check_archive() const {
    ensure(!zip_.has(prefix_ + "constants.pkl"),
           "it is a TorchScript program, not a state_dict; in Python: "
           "torch.save(torch.jit.load(PATH).state_dict(), NEW)");
    if (!zip_.has(prefix_ + "byteorder")) return;  // before torch 2.1
    const TorchBytes order = zip_.read(prefix_ + "byteorder");
    const std::string_view text(reinterpret_cast<const char*>(order.data()),
                                order.size());
    ensure(text == "little", "its byteorder must be little, is '",
           text.substr(0, 16), "'; save it on a little endian machine");
  }

  bool has_tensors(const PickleValue& dict) const {
    for (std::size_t i = 1; i < dict.items.size(); i += 2) {
      if (pickle_->at(dict.items[i]).kind == Kind::kTensor) return true;
    }
    return false;
  }

  // Dicts with tensors in the root, by the text of their keys.
  std::vector<std::pair<std::string, const PickleValue*>> nested() const {
    const PickleValue& root = pickle_->root();
    std::vector<std::pair<std::string, const PickleValue*>> found;
    for (std::size_t i = 0; i < root.items.size(); i += 2) {
      const PickleValue& key = pickle_->at(root.items[i]);
      const PickleValue& value = pickle_->at(root.items[i + 1]);
      if (key.kind == Kind::kText && value.kind == Kind::kDict &&
          has_tensors(value)) {
        found.emplace_back(key.text, &value);
      }
    }
    return found;
  }

  const PickleValue& find_dict() {
    const PickleValue& root = pickle_->root();
    ensure(root.kind == Kind::kDict,
           "it must hold a state_dict; in Python: "
           "torch.save(model.state_dict(), PATH)");
    const auto inner = nested();
    for (const std::string_view name : kNested) {
      for (const auto& [key, dict] : inner) {
        if (key == name) return chosen(key, *dict);
      }
    }
    if (has_tensors(root) || inner.empty()) return root;
    std::string keys;
    for (const auto& [key, dict] : inner) keys.append(" ").append(key);
    ensure(inner.size() == 1,
           "one of its dicts must be named state_dict or model, it has:", keys);
    return chosen(inner.front().first, *inner.front().second);
  }

  const PickleValue& chosen(const std::string& key, const PickleValue& dict) {
    weights_.notes.push_back(concat("took the tensors of its '", key, "'"));
    return dict;
  }

  void add_all(const PickleValue& dict) {
    std::size_t passed_over = 0;
    for (std::size_t i = 0; i < dict.items.size(); i += 2) {
      const PickleValue& key = pickle_->at(dict.items[i]);
      const PickleValue& value = pickle_->at(dict.items[i + 1]);
      if (value.kind != Kind::kTensor) {
        ++passed_over;
        continue;
      }
      ensure(key.kind == Kind::kText, "names of tensors must be texts");
      add(key.text, value);
    }
    ensure(!weights_.tensors.empty(),
           "it has no tensors; in Python: "
           "torch.save(model.state_dict(), PATH)");
    if (passed_over == 0) return;
    weights_.notes.push_back(
        concat("passed over ", passed_over, " entries that are no tensors"));
  }

  Dims numbers(const PickleValue& tuple, const std::string& name) const {
    ensure(tuple.items.size() <= kMostSizes, "tensor '", name,
           "' must have at most ", kMostSizes, " dimensions, has ",
           tuple.items.size());
    Dims dims;
    for (const Pickle::Id id : tuple.items) {
      const PickleValue& value = pickle_->at(id);
      ensure(value.kind == Kind::kInt && value.number >= 0,
             "sizes and strides of '", name, "' must be whole numbers from 0");
      dims.push_back(value.number);
    }
    return dims;
  }

  void add(const std::string& name, const PickleValue& value) {
    const PickleValue& storage = pickle_->at(value.items[0]);
    WeightTensor tensor;
    tensor.name = name;
    tensor.type = storage_type(pickle_->at(storage.items[0]).text);
    Strided view;
    view.width = bytes_of(tensor.type);
    view.storage = bytes_of_storage(pickle_->at(storage.items[1]).text);
    view.offset = value.number;
    view.dims = numbers(pickle_->at(value.items[1]), name);
    view.strides = numbers(pickle_->at(value.items[2]), name);
    const auto has =
        static_cast<std::int64_t>(view.storage.size() / view.width);
    ensure(storage.number <= has, "the storage of '", name, "' must have ",
           storage.number, " elements, has ", has);
    ensure(view.dims.size() == view.strides.size(), "tensor '", name,
           "' must have as many strides as dimensions, has ",
           view.strides.size(), " and ", view.dims.size());
    const auto end = end_of(view);
    ensure(view.offset >= 0 && end.has_value() && *end <= has, "tensor '", name,
           "' must lie within its storage of ", has, " elements");
    tensor.dims = view.dims;
    tensor.bytes = contiguous(name, view, has);
    weights_.tensors.push_back(std::move(tensor));
  }

  // Of a view without gaps its own bytes, of any other a copy, of which a small
  // file must not ask for many.
  TorchBytes contiguous(const std::string& name, const Strided& view,
                        std::int64_t storage) {
    const auto n = elements_of(view.dims);
    ensure(n.has_value() && *n <= storage, "tensor '", name, "' (",
           text_of(view.dims),
           ") must not have more elements than its "
           "storage, which has ",
           storage, "; save it as .contiguous()");
    const std::size_t bytes = static_cast<std::size_t>(*n) * view.width;
    if (bytes == 0) return {};
    if (is_contiguous(view)) {
      return view.storage.subspan(
          static_cast<std::size_t>(view.offset) * view.width, bytes);
    }
    ensure(bytes <= copies_left_,
           "tensors that are not contiguous must not "
           "take four times the file; save them as .contiguous()");
    copies_left_ -= bytes;
    const auto copy =
        std::make_shared<std::vector<std::byte>>(gathered(view, *n));
    weights_.owners.push_back(copy);
    return *copy;
  }

  TorchBytes bytes_of_storage(const std::string& key) {
    const auto known = storages_.find(key);
    if (known != storages_.end()) return known->second;
    const TorchBytes bytes = zip_.read(concat(prefix_, "data/", key));
    storages_[key] = bytes;
    return bytes;
  }

  // As torch's DataParallel and DistributedDataParallel name them.
  void drop_module_prefix() {
    constexpr std::string_view kPrefix = "module.";
    auto& all = weights_.tensors;
    const bool every = std::all_of(all.begin(), all.end(), [&](auto& t) {
      return t.name.starts_with(kPrefix);
    });
    if (!every) return;
    for (WeightTensor& tensor : all) tensor.name.erase(0, kPrefix.size());
    weights_.notes.push_back("took 'module.' off all names");
  }

  ZipDirectory zip_;
  std::string prefix_;
  Weights& weights_;
  std::size_t copies_left_;
  const Pickle* pickle_ = nullptr;
  std::map<std::string, TorchBytes> storages_;
};

}  // namespace

Weights read_torch_file(const std::string& path) {
  Weights weights;
  weights.path = path;
  weights.format = "torch.save";
  const auto file = std::make_shared<MappedFile>(path);
  weights.owners.push_back(file);
  try {
    TorchReader(file->bytes(), weights).read();
  } catch (const std::runtime_error& e) {
    ensure(false, "[weights] '", path,
           "' must be a state_dict of torch.save, but: ", e.what());
  }
  sort_by_name(weights);
  return weights;
}

}  // namespace sluice
