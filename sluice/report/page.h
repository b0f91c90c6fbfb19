#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

// A page for people, as one HTML file that needs nothing else: no network, no
// script of others, light and dark, for phones and printers.

namespace sluice {

struct TableCell {
  std::string text;
  std::optional<double> value;  // to sort by; else the text is
  std::string link;             // relative; empty: none
};

// Text without a value, and a number as people read it ("-" if it is none).
TableCell text_cell(std::string text);
TableCell number_cell(const std::string& text, double value);

struct TableHead {
  std::string title;
  std::string meaning;  // shown by a pointer that rests; may be empty
};

struct PageTable {
  std::string title;
  std::vector<TableHead> heads;
  std::vector<std::vector<TableCell>> rows;
  std::string note;  // what the columns mean
};

// So many rows of a table are on a page; a line says how many are not.
inline constexpr std::size_t kMostRows = 500;

struct Figure {
  std::string title;
  std::string note;
  std::string svg;    // of draw_plot() or draw_timeline(), for a page
  bool wide = false;  // takes a row, and scrolls on a phone
};

// Bars of one kind: each a share of the longest, in parts.
struct Bars {
  struct Row {
    std::string name;  // a method's gives the colour
    std::string text;  // behind the bar
    double value = 0;
    double pale = 0;  // of the value, at the end of the bar
  };
  std::string title;
  std::string note;
  std::vector<Row> rows;
};

struct Section {
  std::string heading;
  std::vector<std::string> paragraphs;
  std::vector<std::string> points;
  std::vector<std::string> commands;
  std::vector<Figure> figures;
  std::vector<Bars> bars;
  std::vector<PageTable> tables;

  bool empty() const;
};

// One with that heading and nothing in it yet.
Section titled(std::string heading);

struct KeyNumber {
  std::string name;
  std::string value;
  std::string note;
};

struct Page {
  std::string title;
  std::string subtitle;
  std::string state;  // "finished", "running", ...; empty: none
  std::vector<std::string> notes;
  std::vector<KeyNumber> tiles;
  std::vector<Section> sections;  // those that are empty are left out
  std::string made;               // by what and when
  int refresh_s = 0;              // a viewer loads it again; 0: never
};

// Everything in the page is escaped but for the pictures.
std::string to_html(const Page& page);

// The style of the page, and the script that sorts tables.
extern const char* const kPageStyle;
extern const char* const kPageScript;

}  // namespace sluice
