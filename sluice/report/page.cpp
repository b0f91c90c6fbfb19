#include "sluice/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sluice/report/markup.h"
#include "sluice/report/palette.h"

namespace sluice {
namespace {

constexpr std::size_t kMostNotes = 12;
constexpr std::size_t kMostBars = 40;
constexpr std::size_t kLongCell = 44;  // characters; it wraps

std::string e(const std::string& text) { return escape_markup(text); }

std::string id_of(std::size_t section) { return fmt::format("s{}", section); }

std::string variables() {
  const Palette& p = Palette::standard();
  const auto block = [&](std::string Tone::*part, const char* card,
                         const char* link, const char* good, const char* bad) {
    return fmt::format(
        "--paper:{};--ink:{};--muted:{};--grid:{};--card:{};--link:{};"
        "--good:{};--bad:{}",
        p.paper().*part, p.ink().*part, p.muted().*part, p.grid().*part, card,
        link, good, bad);
  };
  return fmt::format(
      ":root{{color-scheme:light dark;{}}}"
      "@media screen and (prefers-color-scheme:dark){{:root{{{}}}{}}}",
      block(&Tone::light, "#f4f6f8", "#0b57b7", "#1a7f37", "#b3261e"),
      block(&Tone::dark, "#1e2329", "#7ab8ff", "#4cc36b", "#ff8a80"),
      p.dark_css());
}

// Bars are of HTML: the colours of the palette, on both papers.
std::string bar_colours() {
  const Palette& p = Palette::standard();
  std::string light;
  std::string dark;
  for (std::size_t i = 0; i < p.size(); ++i) {
    light += fmt::format(".b{}{{color:{}}}", i, p.colour(i).light);
    dark += fmt::format(".b{}{{color:{}}}", i, p.colour(i).dark);
  }
  return light + "@media screen and (prefers-color-scheme:dark){" + dark + "}";
}

std::string head(const Page& page) {
  // Nothing may be loaded, whatever a name in the page tries.
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,"
      "initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
      "'none';style-src 'unsafe-inline';script-src 'unsafe-inline';img-src "
      "data:\">\n{}<title>{}</title>\n<link rel=\"icon\" href=\"data:,\">\n",
      page.refresh_s > 0
          ? fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n",
                        page.refresh_s)
          : "",
      e(page.title));
  return out + "<style>" + variables() + bar_colours() + kPageStyle +
         "</style>\n</head>\n";
}

std::string notes_of(const Page& page) {
  if (page.notes.empty()) return {};
  std::string out = "<div class=\"missing\"><b>To know</b><ul>\n";
  for (std::size_t i = 0; i < std::min(page.notes.size(), kMostNotes); ++i) {
    out += "<li>" + e(page.notes[i]) + "</li>\n";
  }
  if (page.notes.size() > kMostNotes) {
    out += fmt::format("<li>and {} more of the kind</li>\n",
                       page.notes.size() - kMostNotes);
  }
  return out + "</ul></div>\n";
}

std::string header(const Page& page) {
  std::string out = "<body>\n<header>\n<h1>" + e(page.title);
  if (!page.state.empty()) {
    const std::string kind = page.state.substr(0, page.state.find(' '));
    out += fmt::format(" <span class=\"state {}\">{}</span>", e(kind),
                       e(page.state));
  }
  out += "</h1>\n<p class=\"sub\">" + e(page.subtitle) + "</p>\n<nav>";
  for (std::size_t i = 0; i < page.sections.size(); ++i) {
    if (page.sections[i].empty()) continue;
    out += fmt::format("<a href=\"#{}\">{}</a>\n", id_of(i),
                       e(page.sections[i].heading));
  }
  out += "</nav>\n" + notes_of(page);
  if (!page.tiles.empty()) out += "<div class=\"tiles\">\n";
  for (const KeyNumber& tile : page.tiles) {
    out += fmt::format(
        "<div class=\"tile\"><span>{}</span><b>{}</b><span>{}</span></div>\n",
        e(tile.name), e(tile.value), e(tile.note));
  }
  if (!page.tiles.empty()) out += "</div>\n";
  return out + "</header>\n";
}

std::string cell(const TableCell& c) {
  const std::string text = c.link.empty() ? e(c.text)
                                          : fmt::format("<a href=\"{}\">{}</a>",
                                                        e(c.link), e(c.text));
  if (!c.value) {
    const bool is_long = text_length(c.text) > kLongCell;
    return (is_long ? "<td class=\"long\">" : "<td>") + text + "</td>";
  }
  if (!std::isfinite(*c.value)) return "<td class=\"n\">" + text + "</td>";
  return fmt::format("<td class=\"n\" data-v=\"{:.9g}\">{}</td>", *c.value,
                     text);
}

bool is_number_column(const PageTable& table, std::size_t column) {
  return std::any_of(
      table.rows.begin(), table.rows.end(), [&](const auto& row) {
        return column < row.size() && row[column].value.has_value();
      });
}

std::string table_of(const PageTable& t) {
  std::string out = "<div class=\"table\">";
  if (!t.title.empty()) out += "<h3>" + e(t.title) + "</h3>";
  out += "<div class=\"scroll\"><table class=\"sorts\"><thead><tr>";
  for (std::size_t i = 0; i < t.heads.size(); ++i) {
    out += fmt::format("<th scope=\"col\"{}{}>{}</th>",
                       is_number_column(t, i) ? " class=\"n\"" : "",
                       t.heads[i].meaning.empty()
                           ? ""
                           : " title=\"" + e(t.heads[i].meaning) + "\"",
                       e(t.heads[i].title));
  }
  out += "</tr></thead>\n<tbody>\n";
  const std::size_t shown = std::min(t.rows.size(), kMostRows);
  for (std::size_t r = 0; r < shown; ++r) {
    out += "<tr>";
    for (const TableCell& c : t.rows[r]) out += cell(c);
    out += "</tr>\n";
  }
  out += "</tbody></table></div>\n";
  if (shown < t.rows.size()) {
    out += fmt::format("<p class=\"note\">The first {} of {} rows.</p>", shown,
                       t.rows.size());
  }
  if (!t.note.empty()) out += "<p class=\"note\">" + e(t.note) + "</p>";
  return out + "</div>\n";
}

std::string bars_of(const Bars& bars) {
  double most = 0;
  std::vector<std::string> names;
  for (const Bars::Row& row : bars.rows) {
    if (std::isfinite(row.value)) most = std::max(most, row.value);
    names.push_back(row.name);
  }
  const auto colours = Palette::standard().assign(names);
  std::string out = "<div class=\"bars\"><h3>" + e(bars.title) + "</h3>\n";
  if (!bars.note.empty()) out += "<p class=\"note\">" + e(bars.note) + "</p>\n";
  const std::size_t shown = std::min(bars.rows.size(), kMostBars);
  for (std::size_t i = 0; i < shown; ++i) {
    const Bars::Row& row = bars.rows[i];
    const bool sound = most > 0 && std::isfinite(row.value) && row.value > 0;
    const double width = sound ? 100 * row.value / most : 0;
    const double pale =
        sound ? std::clamp(100 * row.pale / row.value, 0.0, 100.0) : 0;
    out += fmt::format(
        "<span class=\"name\">{}</span><div class=\"bar b{}\" "
        "style=\"width:{:.2f}%\"><i style=\"width:{:.1f}%\"></i>"
        "<i style=\"width:{:.1f}%\"></i></div><span>{}</span>\n",
        e(row.name), colours[i], width, 100 - pale, pale, e(row.text));
  }
  if (shown < bars.rows.size()) {
    out += fmt::format("<p class=\"note\">The first {} of {}.</p>", shown,
                       bars.rows.size());
  }
  return out + "</div>\n";
}

std::string figure_of(const Figure& f) {
  return fmt::format(
      "<figure{}><figcaption>{}{}</figcaption><div class=\"scroll\">{}</div>"
      "</figure>\n",
      f.wide ? " class=\"wide\"" : "", e(f.title),
      f.note.empty() ? "" : "<small>" + e(f.note) + "</small>", f.svg);
}

std::string section_of(const Section& s, std::size_t number) {
  std::string out = fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n",
                                id_of(number), e(s.heading));
  for (const std::string& text : s.paragraphs) {
    out += "<p>" + e(text) + "</p>\n";
  }
  if (!s.points.empty()) out += "<ul class=\"points\">\n";
  for (const std::string& text : s.points) {
    out += "<li>" + e(text) + "</li>\n";
  }
  if (!s.points.empty()) out += "</ul>\n";
  for (const std::string& text : s.commands) {
    out += "<pre>" + e(text) + "</pre>\n";
  }
  for (const Bars& b : s.bars) out += bars_of(b);
  if (!s.figures.empty()) out += "<div class=\"figures\">\n";
  for (const Figure& f : s.figures) out += figure_of(f);
  if (!s.figures.empty()) out += "</div>\n";
  for (const PageTable& t : s.tables) out += table_of(t);
  return out + "</section>\n";
}

}  // namespace

TableCell text_cell(std::string text) {
  return {std::move(text), std::nullopt, ""};
}

TableCell number_cell(const std::string& text, double value) {
  return {std::isfinite(value) ? text : "-", value, ""};
}

Section titled(std::string heading) {
  Section section;
  section.heading = std::move(heading);
  return section;
}

bool Section::empty() const {
  return paragraphs.empty() && points.empty() && commands.empty() &&
         figures.empty() && bars.empty() && tables.empty();
}

std::string to_html(const Page& page) {
  std::string out = head(page) + header(page) + "<main>\n";
  for (std::size_t i = 0; i < page.sections.size(); ++i) {
    if (!page.sections[i].empty()) out += section_of(page.sections[i], i);
  }
  out += "</main>\n<footer>" + e(page.made) + "</footer>\n<script>" +
         kPageScript + "</script>\n</body>\n</html>\n";
  return out;
}

}  // namespace sluice
