#include "sluice/cli/shared/table.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "sluice/core/error.h"
#include "sluice/run/terminal.h"

namespace sluice {
namespace {

std::string cell(const nlohmann::ordered_json& value, const Column& column) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_integer() && column.scale == 1) {
    return fmt::format("{}", value.get<std::int64_t>());
  }
  return fmt::format(fmt::runtime(column.spec),
                     value.get<double>() * column.scale);
}

// As people see them, the titles first.
std::vector<std::vector<std::string>> cells(
    const std::vector<nlohmann::ordered_json>& rows,
    const std::vector<Column>& columns) {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& c : columns) lines[0].emplace_back(c.title);
  for (const auto& row : rows) {
    lines.emplace_back();
    for (const Column& c : columns) {
      const auto it = row.find(std::string(c.key));
      lines.back().push_back(it == row.end() ? "-" : cell(*it, c));
    }
  }
  return lines;
}

// Wide enough for every day, and for a page of a log.
constexpr std::size_t kPage = 100;

std::string aligned(const std::vector<nlohmann::ordered_json>& rows,
                    const std::vector<Column>& columns) {
  const auto lines = cells(rows, columns);
  std::vector<std::size_t> widths(columns.size(), 0);
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      widths[c] = std::max(widths[c], line[c].size());
    }
  }
  std::string out;
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      // Names to the left, numbers to the right.
      const bool left = columns[c].spec.empty();
      out += left ? fmt::format("{:<{}}", line[c], widths[c])
                  : fmt::format("{:>{}}", line[c], widths[c]);
      out += c + 1 < line.size() ? "  " : "\n";
    }
  }
  return out;
}

std::string markdown(const std::vector<nlohmann::ordered_json>& rows,
                     const std::vector<Column>& columns) {
  std::string out;
  bool titles = true;
  for (const auto& line : cells(rows, columns)) {
    for (const std::string& text : line) out += "| " + text + " ";
    out += "|\n";
    if (!titles) continue;
    for (const Column& c : columns) out += c.spec.empty() ? "|---" : "|---:";
    out += "|\n";
    titles = false;
  }
  return out;
}

// A field as RFC 4180 has it: quoted where it holds a comma, quote or line end.
std::string csv_field(const nlohmann::ordered_json& value) {
  if (!value.is_string()) return value.dump();
  const auto text = value.get<std::string>();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + "\"";
}

}  // namespace

std::string print_csv(const std::vector<nlohmann::ordered_json>& rows) {
  std::string out;
  const auto append_line = [&](const auto& row, auto&& field) {
    bool first = true;
    for (const auto& [key, value] : row.items()) {
      out += first ? "" : ",";
      out += field(key, value);
      first = false;
    }
    out += "\n";
  };
  if (!rows.empty()) {
    append_line(rows[0], [](const auto& key, const auto&) { return key; });
  }
  for (const auto& row : rows) {
    append_line(row, [](const auto&, const auto& v) { return csv_field(v); });
  }
  return out;
}

std::string print_rows(const std::vector<nlohmann::ordered_json>& rows,
                       const Table& table, Format format, bool wide) {
  require(!table.legend.empty(), "[table] a table must have a legend");
  std::vector<Column> columns;
  std::copy_if(table.columns.begin(), table.columns.end(),
               std::back_inserter(columns),
               [&](const Column& c) { return wide || !c.wide; });
  switch (format) {
    case Format::kTable:
      return aligned(rows, columns) + wrap(table.legend, kPage) + "\n";
    case Format::kMarkdown:
      return markdown(rows, columns) + "\n" + table.legend + "\n";
    case Format::kCsv:
      return print_csv(rows);
    case Format::kJson:
      return nlohmann::ordered_json(rows).dump(
                 2, ' ', false,
                 nlohmann::ordered_json::error_handler_t::replace) +
             "\n";
  }
  return {};
}

void show_rows(const std::vector<nlohmann::ordered_json>& rows,
               const Table& table, const OutputOptions& output) {
  const std::string text =
      print_rows(rows, table, output.format(), output.wide);
  if (output.format() != Format::kTable || !has_colours(STDOUT_FILENO)) {
    fmt::print("{}", text);
    return;
  }
  const std::size_t titles = text.find('\n');
  fmt::print("\x1b[1m{}\x1b[0m{}", text.substr(0, titles), text.substr(titles));
}

}  // namespace sluice
