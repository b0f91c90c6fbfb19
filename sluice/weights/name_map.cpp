#include "sluice/weights/name_map.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "sluice/core/error.h"

namespace sluice {
namespace {

constexpr std::string_view kCounter = "a counter, which is not trained";
constexpr std::string_view kBuffer = "a constant, which the model makes itself";

constexpr Respelling kOldNorms[] = {{".LayerNorm.weight", ".LayerNorm.gamma"},
                                    {".LayerNorm.bias", ".LayerNorm.beta"}};
constexpr IgnoredName kBertIgnored[] = {
    {"cls.*", "the heads of pretraining, which the model does not have"},
    {"*embeddings.position_ids", kBuffer},
    {"*embeddings.token_type_ids", kBuffer}};
constexpr std::string_view kBertHeads[] = {"bert.pooler.*", "qa_outputs.*"};

constexpr NameRule kGpt2Rules[] = {
    {"transformer.h.*.attn.c_attn", "transformer.h.*.attn.c_attn", true},
    {"transformer.h.*.attn.c_proj", "transformer.h.*.attn.c_proj", true},
    {"transformer.h.*.mlp.c_fc", "transformer.h.*.mlp.c_fc", true},
    {"transformer.h.*.mlp.c_proj", "transformer.h.*.mlp.c_proj", true}};
constexpr IgnoredName kGpt2Ignored[] = {{"*.attn.bias", kBuffer},
                                        {"*.attn.masked_bias", kBuffer}};

constexpr NameRule kVitRules[] = {
    {"cls_token", "vit.embeddings.cls_token"},
    {"pos_embed", "vit.embeddings.position_embeddings"},
    {"patch_embed.proj", "vit.embeddings.patch_embeddings.projection"},
    {"blocks.*.norm1", "vit.encoder.layer.*.layernorm_before"},
    {"blocks.*.attn.qkv",
     "vit.encoder.layer.*.attention.attention.query "
     "vit.encoder.layer.*.attention.attention.key "
     "vit.encoder.layer.*.attention.attention.value"},
    {"blocks.*.attn.proj", "vit.encoder.layer.*.attention.output.dense"},
    {"blocks.*.norm2", "vit.encoder.layer.*.layernorm_after"},
    {"blocks.*.mlp.fc1", "vit.encoder.layer.*.intermediate.dense"},
    {"blocks.*.mlp.fc2", "vit.encoder.layer.*.output.dense"},
    {"norm", "vit.layernorm"},
    {"head", "classifier"}};
constexpr IgnoredName kVitIgnored[] = {
    {"vit.pooler.*", "a layer that the model does not have"},
    {"pooler.*", "a layer that the model does not have"},
    {"vit.embeddings.mask_token", "for pretraining alone"},
    {"embeddings.mask_token", "for pretraining alone"}};
constexpr std::string_view kVitHeads[] = {"head.*"};

constexpr IgnoredName kTorchvisionIgnored[] = {
    {"*.num_batches_tracked", kCounter}};
// The last layer of resnets; of vgg and alexnet.
constexpr std::string_view kTorchvisionHeads[] = {"fc.*", "classifier.6.*"};

constexpr std::array<NameMap, 5> kMaps = {
    {{.kind = "bert",
      .dialect = "huggingface",
      .prefix = "bert.",
      .vocabulary = "bert.embeddings.word_embeddings.weight",
      .positions = "bert.embeddings.position_embeddings.weight",
      .tied = {},
      .rules = {},
      .respellings = kOldNorms,
      .ignored = kBertIgnored,
      .heads = kBertHeads},
     {.kind = "gpt2",
      .dialect = "huggingface",
      .prefix = "transformer.",
      .vocabulary = "transformer.wte.weight",
      .positions = "transformer.wpe.weight",
      .tied = "lm_head.weight",
      .rules = kGpt2Rules,
      .respellings = {},
      .ignored = kGpt2Ignored,
      .heads = {}},
     {.kind = "vit",
      .dialect = "huggingface",
      .prefix = "vit.",
      .vocabulary = {},
      .positions = {},
      .tied = {},
      .rules = kVitRules,
      .respellings = {},
      .ignored = kVitIgnored,
      .heads = kVitHeads},
     {.kind = "vit",
      .dialect = "timm",
      .prefix = {},
      .vocabulary = {},
      .positions = {},
      .tied = {},
      .rules = {},
      .respellings = {},
      .ignored = {},
      .heads = kVitHeads},
     {.kind = "torchvision",
      .dialect = "torchvision",
      .prefix = {},
      .vocabulary = {},
      .positions = {},
      .tied = {},
      .rules = {},
      .respellings = {},
      .ignored = kTorchvisionIgnored,
      .heads = kTorchvisionHeads}}};

// The number for which `pattern` is `name`; "" if it has none.
std::optional<std::string> number_in(std::string_view pattern,
                                     std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == pattern.npos) {
    if (pattern != name) return std::nullopt;
    return std::string();
  }
  const std::string_view behind = pattern.substr(star + 1);
  if (name.size() < pattern.size() || !name.ends_with(behind) ||
      name.substr(0, star) != pattern.substr(0, star)) {
    return std::nullopt;
  }
  const auto number = name.substr(star, name.size() - behind.size() - star);
  if (number.find_first_not_of("0123456789") != number.npos)
    return std::nullopt;
  return std::string(number);
}

TheirNames applied(const NameRule& rule, const std::string& number,
                   std::string_view leaf) {
  TheirNames out;
  out.transposed = rule.transposed;
  std::string_view rest = rule.theirs;
  while (!rest.empty()) {
    const std::size_t blank = std::min(rest.find(' '), rest.size());
    std::string name(rest.substr(0, blank));
    const std::size_t star = name.find('*');
    if (star != name.npos) name.replace(star, 1, number);
    out.names.push_back(name.append(leaf));
    rest.remove_prefix(std::min(blank + 1, rest.size()));
  }
  return out;
}

// One more than the largest number behind `start`.
std::int64_t layers_behind(std::span<const TensorSpec> specs,
                           std::string_view start) {
  std::int64_t most = -1;
  for (const TensorSpec& spec : specs) {
    if (!spec.name.starts_with(start)) continue;
    std::int64_t number = -1;
    const char* from = spec.name.data() + start.size();
    std::from_chars(from, spec.name.data() + spec.name.size(), number);
    most = std::max(most, number);
  }
  return most + 1;
}

struct ShapeSource {
  std::string_view kind;
  std::optional<std::int64_t> ModelConfig::*member;
  std::string_view name;
  std::size_t dim;
};
constexpr ShapeSource kShapes[] = {
    {"bert", &ModelConfig::width, "bert.embeddings.word_embeddings.weight", 1},
    {"bert", &ModelConfig::vocabulary, "bert.embeddings.word_embeddings.weight",
     0},
    {"bert", &ModelConfig::positions,
     "bert.embeddings.position_embeddings.weight", 0},
    {"bert", &ModelConfig::inner_width,
     "bert.encoder.layer.0.intermediate.dense.weight", 0},
    {"gpt2", &ModelConfig::width, "transformer.wte.weight", 1},
    {"gpt2", &ModelConfig::vocabulary, "transformer.wte.weight", 0},
    {"gpt2", &ModelConfig::positions, "transformer.wpe.weight", 0},
    {"gpt2", &ModelConfig::inner_width, "transformer.h.0.mlp.c_fc.weight", 0},
    {"vit", &ModelConfig::width, "cls_token", 2},
    {"vit", &ModelConfig::patch_size, "patch_embed.proj.weight", 2},
    {"vit", &ModelConfig::inner_width, "blocks.0.mlp.fc1.weight", 0},
    // Tokens, until they are made a side of images.
    {"vit", &ModelConfig::image_size, "pos_embed", 1}};

}  // namespace

std::span<const NameMap> name_maps() { return kMaps; }

std::vector<const NameMap*> name_maps_of(std::string_view kind) {
  std::vector<const NameMap*> found;
  for (const NameMap& map : kMaps) {
    if (map.kind == kind) found.push_back(&map);
  }
  require(!found.empty(),
          "[weights] kinds of models are bert, gpt2, vit and torchvision, "
          "got '",
          kind, "'");
  return found;
}

TheirNames their_names(const NameMap& map, std::string_view ours) {
  const std::size_t dot = std::min(ours.rfind('.'), ours.size());
  for (const NameRule& rule : map.rules) {
    if (const auto number = number_in(rule.ours, ours)) {
      return applied(rule, *number, {});
    }
    if (const auto number = number_in(rule.ours, ours.substr(0, dot))) {
      return applied(rule, *number, ours.substr(dot));
    }
  }
  return {{std::string(ours)}, false};
}

bool fits_pattern(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == name;
  return name.size() + 1 >= pattern.size() &&
         name.starts_with(pattern.substr(0, star)) &&
         name.ends_with(pattern.substr(star + 1));
}

bool is_head(const NameMap& map, std::string_view ours) {
  return std::any_of(map.heads.begin(), map.heads.end(),
                     [&](auto head) { return fits_pattern(head, ours); });
}

ModelConfig describe(std::string_view kind, std::span<const TensorSpec> specs) {
  ModelConfig config;
  config.model_type = kind;
  for (const ShapeSource& row : kShapes) {
    if (row.kind != kind) continue;
    const auto spec = std::find_if(specs.begin(), specs.end(), [&](auto& s) {
      return s.name == row.name && s.dims.size() > row.dim;
    });
    if (spec != specs.end()) config.*row.member = spec->dims[row.dim];
  }
  const std::string_view start = kind == "bert"   ? "bert.encoder.layer."
                                 : kind == "gpt2" ? "transformer.h."
                                                  : "blocks.";
  const std::int64_t layers = layers_behind(specs, start);
  if (kind != "torchvision" && layers > 0) config.layers = layers;
  if (config.image_size) {
    const double patches = static_cast<double>(*config.image_size - 1);
    const auto side = std::llround(std::sqrt(patches));
    const bool square = side * side == *config.image_size - 1;
    config.image_size.reset();
    if (square && config.patch_size) {
      config.image_size = side * *config.patch_size;
    }
  }
  return config;
}

}  // namespace sluice
