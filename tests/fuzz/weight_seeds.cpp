#include "weight_seeds.h"

#include "sluice/weights/model_config.h"
#include "weights/pickle_writer.h"
#include "weights/zip_writer.h"

namespace sluice::fuzz {
namespace {

using namespace testing::pickles;

std::string state_dict() {
  const std::string floats = storage("FloatStorage", "0", 6);
  return whole(dict({text("a"), tensor(floats, 0, {2, 3}, {3, 1}), text("b"),
                     tensor(floats, 1, {3, 2}, {1, 3}), text("c"),
                     tensor(storage("BFloat16Storage", "1", 4), 0, {}, {})}));
}

std::string nested() {
  // With the opcodes of protocol 4, a memo and what checkpoints hold besides.
  std::string out = "\x80\x04\x95";
  out.append(8, '\1').append("}\x94(\x8c\x05model\x94");
  out += dict({text("w"), tensor(storage("HalfStorage", "0", 2), 0, {2}, {1})});
  out += text("epoch") + "K\3" + text("list") + "](K\1M\2\3Ne";
  out += text("x") + text("collections") + text("OrderedDict") + "\x93)R";
  out += "}" + text("_metadata") + "Nsb";
  out += text("f") + std::string("G\x3f\xe0\0\0\0\0\0\0", 9);
  out += text("l") + std::string("\x8a\x02\0\x80", 4) + "u.";
  return out;
}

}  // namespace

std::vector<Seed> weight_seeds() {
  std::vector<Seed> seeds;
  const auto add = [&](const char* fuzzer, std::string bytes) {
    seeds.push_back({fuzzer, std::move(bytes)});
  };
  std::string file =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],)"
      R"("data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[],)"
      R"("data_offsets":[8,10]}})";
  add("safetensors", file + "\n" + std::string(9, '\1'));
  add("safetensors", std::string("\0\2\0\0\0\0\0\0\0{}", 11));
  add("torch_file", state_dict());
  add("torch_file", nested());
  for (const bool zip64 : {false, true}) {
    testing::ZipWriter zip;
    zip.zip64 = zip64;
    zip.add("m/data.pkl", state_dict()).add("m/data/0", std::string(24, '\1'));
    add("torch_file", zip.add("m/data/1", "12345678").str());
  }
  add("weight_index",
      R"({"metadata":{"total_size":1},"weight_map":{"a":"m-1","b":"m-2"}})");
  for (const char* type : {"bert", "gpt2", "vit"}) {
    ModelConfig config;
    config.model_type = type;
    config.width = config.heads = config.image_size = 8;
    config.norm_epsilon = 1e-5;
    config.labels = {"a", "b"};
    add("model_config", to_json(config));
  }
  return seeds;
}

}  // namespace sluice::fuzz
