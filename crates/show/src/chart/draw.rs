//! Draws charts as SVG, at twice their display size, since the library only supports whole pixels.

use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, ChartContext, LabelAreaPosition};
use plotters::coord::{Shift, cartesian::Cartesian2d};
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, Cross, PathElement, Polygon, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, TRANSPARENT, TextStyle};
use stormlp_core::printable::printable;

use super::palette::{AXIS, Colour, GRID, INK, PALETTE, PAPER, page_rules};
use super::plot::{AxisValues, Bars, Chart, Line, Lines, Plot};
use super::ruler::Ruler;
use crate::numbers::short;

const WIDTH: i32 = 880;
/// Height of a line chart, including axes and labels.
const LINES_HEIGHT: i32 = 520;
/// Height of a bar with its spacing, and of a legend line.
const ROW_HEIGHT: i32 = 52;
const LEGEND_ROW_HEIGHT: i32 = 42;
/// Space for labels below an axis, and above a plot.
const BELOW: i32 = 88;
const ABOVE: i32 = 66;
/// Space for values to the right of bars.
const VALUE_WIDTH: i32 = 130;
/// Font size, and the approximate width of a letter.
const TEXT: f64 = 32.0;
const LETTER_WIDTH: i32 = 15;
/// Longer names leave too little space for the bars next to them.
const NAME_LETTERS: usize = 16;
/// Half the marker size.
const MARKER: i32 = 9;
/// Lines with more points only have some of them marked.
const MARKED_POINTS: usize = 24;
/// Minimum and maximum space for the labels of a vertical axis.
const NAMES_WIDTH: (i32, i32) = (126, 230);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;
type Plotted<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Ruler, Ruler>>;
type Pixel = (i32, i32);

/// A chart as SVG: for a page that provides the title and the dark-mode rules, or, if `alone`, with
/// both included.
///
/// # Errors
/// Errors of the library, which are not expected as it writes to memory.
pub fn svg(chart: &Chart, alone: bool) -> Result<String, String> {
    let mut text = String::new();
    let top = if alone { ABOVE } else { 0 };
    let legend = legend_of(chart);
    let rows = legend.len().div_ceil(legend_columns(&legend)) as i32;
    let plot = match &chart.plot {
        Plot::Lines(_) => LINES_HEIGHT,
        Plot::Bars(bars) => bars_above(bars) + bars.rows.len() as i32 * row_height(bars) + BELOW,
    };
    let size = (WIDTH as u32, (top + plot + rows * LEGEND_ROW_HEIGHT + 8) as u32);
    let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
    let drawn = || -> Drawn {
        if alone {
            let title = Text::new(shown(&chart.title, 60), (12, 30), ink(HPos::Left));
            area.draw(&title)?;
        }
        let (_, below) = area.split_vertically(top);
        let (area_of_plot, _) = below.split_vertically(plot);
        match &chart.plot {
            Plot::Lines(lines) => draw_lines(&area, &area_of_plot, lines, &chart.stretch)?,
            Plot::Bars(bars) => draw_bars(&area, &area_of_plot, bars, &chart.stretch.values)?,
        }
        draw_legend(&area, top + plot, &legend)?;
        area.present()
    };
    drawn().map_err(|error| error.to_string())?;
    drop(area);
    // Attributes common to all texts and lines are moved to a style sheet.
    let mut text = text.replace(" opacity=\"1\"", "").replace(" font-family=\"sans-serif\"", "");
    if alone && let Some(end) = text.find('>') {
        text.insert_str(end + 1, &format!("\n<style>{}</style>", page_rules()));
    }
    Ok(text)
}

/// Truncates a text to `most` letters.
fn shown(text: &str, most: usize) -> String {
    let text = printable(text);
    if text.chars().count() > most {
        text.chars().take(most - 1).chain(['…']).collect()
    } else {
        text.into_owned()
    }
}

fn ink(anchor: HPos) -> TextStyle<'static> {
    written(&INK, anchor)
}

fn written(colour: &'static Colour, anchor: HPos) -> TextStyle<'static> {
    let style = TextStyle::from(("sans-serif", TEXT).into_font());
    style.color(&colour.light).pos(Pos::new(anchor, VPos::Center))
}

/// The axes with their grid; `names` says whether the vertical one has labels.
fn axes<'a, 'b>(
    area: &'a Area<'b>,
    (x, y): (&Ruler, &Ruler),
    (left, right, above): (i32, i32, i32),
    name: &str,
) -> Result<Plotted<'a, 'b>, DrawingAreaErrorKind<std::io::Error>> {
    let mut context = ChartBuilder::on(area)
        .margin_top(above)
        .margin_right(right)
        .set_label_area_size(LabelAreaPosition::Left, left)
        .set_label_area_size(LabelAreaPosition::Bottom, BELOW)
        .build_cartesian_2d(x.clone(), y.clone())?;
    let label = TextStyle::from(("sans-serif", TEXT).into_font()).color(&INK.light);
    let mut mesh = context.configure_mesh();
    if y.ticks.is_empty() {
        mesh.disable_y_mesh();
    }
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(GRID.light.stroke_width(2))
        .axis_style(AXIS.light.stroke_width(2))
        .label_style(label.clone())
        .axis_desc_style(label)
        .x_desc(name)
        .draw()?;
    Ok(context)
}

fn draw_lines(area: &Area<'_>, plot: &Area<'_>, lines: &Lines, stretch: &AxisValues) -> Drawn {
    let points = || lines.lines.iter().flat_map(Line::points);
    let marks = lines.marks.iter().map(|(at, _)| *at);
    let across = points().map(|(x, _)| x).chain(marks);
    let x = Ruler::new(&lines.x, across.chain(stretch.across.iter().copied()));
    let values = points().map(|(_, y)| y);
    let y = Ruler::new(&lines.y, values.chain(stretch.values.iter().copied()));
    let (least, most) = NAMES_WIDTH;
    let left = (y.letters() as i32 * LETTER_WIDTH + 26).clamp(least, most);
    let x = with_room(x, WIDTH - left);
    // Half of the last label extends beyond the axis.
    let right = (x.letters() as i32 * LETTER_WIDTH / 2 + 6).max(48);
    let context = axes(plot, (&x, &y), (left, right, ABOVE), &lines.x.name)?;
    let top = plot.get_base_pixel().1;
    // Labels on a time axis include their units.
    let name = if lines.y.name == "µs" { "latency" } else { &lines.y.name };
    let name_place = (12, top + 18);
    area.draw(&Text::new(name.to_string(), name_place, ink(HPos::Left)))?;
    let width = |text: &str| text.chars().count() as i32 * LETTER_WIDTH;
    let mut free_from = 20 + width(name);
    for (at, name) in &lines.marks {
        let at = x.place(*at);
        let line = [(at, y.range.0), (at, y.range.1)].map(|end| context.backend_coord(&end));
        area.draw(&PathElement::new(line, AXIS.light.stroke_width(4)))?;
        // Labels that would overlap are only in the table, as are those without space.
        let (name, place) = (shown(name, 12), (line[1].0 + 4, top + 18));
        if place.0 >= free_from && place.0 + width(&name) <= WIDTH {
            free_from = place.0 + width(&name) + 8;
            area.draw(&Text::new(name, place, ink(HPos::Left)))?;
        }
    }
    for (index, line) in lines.lines.iter().enumerate() {
        let pixel =
            |(at, value): &(f64, f64)| context.backend_coord(&(x.place(*at), y.place(*value)));
        let pieces = line.pieces.iter();
        let pieces: Vec<Vec<Pixel>> =
            pieces.map(|piece| piece.iter().map(pixel).collect()).collect();
        draw_line(area, index, &pieces, lines.lines.len())?;
    }
    Ok(())
}

/// Draws the line with this `index` of `among`.
fn draw_line(area: &Area<'_>, index: usize, pieces: &[Vec<Pixel>], among: usize) -> Drawn {
    let pixels: usize = pieces.iter().map(Vec::len).sum();
    let (first, every) = match (pixels <= MARKED_POINTS, among) {
        (true, _) => (0, 1),
        (false, 1) => (pixels, 1),
        // Different lines have their markers in different places.
        (false, _) => (pixels / 24 * (1 + index % 3), pixels / 8),
    };
    // Many points are close to each other.
    let width = if pixels > 200 { 2 } else { 4 };
    let stroke = colour_of(index).light.stroke_width(width);
    for piece in pieces {
        match piece.as_slice() {
            // A single point would be invisible without a shape.
            [only] => draw_shape(area, index, *only, MARKER / 2, colour_of(index))?,
            _ => area.draw(&PathElement::new(piece.clone(), stroke))?,
        }
    }
    let marked = pieces.iter().flatten().skip(first).step_by(every);
    marked.copied().try_for_each(|pixel| draw_marker(area, index, pixel))
}

/// An axis of this many pixels, reduced to the labels that fit.
fn with_room(axis: Ruler, pixels: i32) -> Ruler {
    let width = (axis.letters() as i32 + 1) * LETTER_WIDTH;
    axis.with_room_for((pixels / width.max(1)) as usize)
}

/// Whether the names are too long to stand beside their bars.
fn names_above(bars: &Bars) -> bool {
    bars.rows.iter().any(|row| row.name.chars().count() > NAME_LETTERS)
}

fn row_height(bars: &Bars) -> i32 {
    if names_above(bars) { 2 * ROW_HEIGHT - 8 } else { ROW_HEIGHT }
}

/// Space for a named limit above the bars.
fn bars_above(bars: &Bars) -> i32 {
    if bars.limit.is_some() { ABOVE } else { 8 }
}

fn draw_bars(area: &Area<'_>, plot: &Area<'_>, bars: &Bars, stretch: &[f64]) -> Drawn {
    let totals = bars.rows.iter().map(super::plot::Bar::total);
    let limit = bars.limit.iter().map(|(value, _)| *value);
    let values = totals.chain(limit.clone()).chain(stretch.iter().copied());
    let axis = super::plot::Axis::new(&bars.unit, super::plot::Scale::Linear);
    let rows = Ruler::plain(bars.rows.len() as f64);
    let above = names_above(bars);
    let letters = bars.rows.iter().map(|row| row.name.chars().count()).max();
    let left = if above { 40 } else { (letters.unwrap_or(0) as i32 * LETTER_WIDTH + 24).max(60) };
    let sides = (left, VALUE_WIDTH, bars_above(bars));
    let x = with_room(Ruler::new(&axis, values), WIDTH - left - VALUE_WIDTH);
    let context = axes(plot, (&x, &rows), sides, &bars.unit)?;
    let stacked = bars.parts.len() > 1;
    for (nth, row) in bars.rows.iter().enumerate() {
        let middle = rows.range.1 - nth as f64 - 0.5;
        let pixel = |value: f64| context.backend_coord(&(x.place(value), middle));
        let zero = pixel(0.0);
        let (height, name) = if above {
            (
                zero.1 + 20,
                Text::new(shown(&row.name, 56), (zero.0 + 4, zero.1 - 22), ink(HPos::Left)),
            )
        } else {
            (
                zero.1,
                Text::new(shown(&row.name, NAME_LETTERS), (zero.0 - 12, zero.1), ink(HPos::Right)),
            )
        };
        area.draw(&name)?;
        let mut from = 0.0;
        for (index, value) in row.values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            let (start, end) = (pixel(from).0, pixel(from + value).0);
            from += value;
            draw_part(area, index, (start, end.max(start + 1), height), stacked)?;
        }
        // Avoids the line of the limit.
        let beside = limit.clone().fold(from, f64::max);
        let place = (pixel(beside).0 + 10, height);
        area.draw(&Text::new(short(row.total()), place, ink(HPos::Left)))?;
    }
    if let Some((value, name)) = &bars.limit {
        let at = x.place(*value);
        let line = [(at, rows.range.0), (at, rows.range.1)].map(|end| context.backend_coord(&end));
        area.draw(&PathElement::new(line, INK.light.stroke_width(3)))?;
        let place = (line[1].0, line[1].1 - 22);
        area.draw(&Text::new(shown(name, 24), place, ink(HPos::Center)))?;
    }
    Ok(())
}

/// Draws a bar segment from `start` to `end`, with its letter if there are several kinds.
fn draw_part(
    area: &Area<'_>,
    index: usize,
    (start, end, height): (i32, i32, i32),
    stacked: bool,
) -> Drawn {
    let seam = i32::from(stacked && end - start > 4) * 2;
    let corners = [(start, height - 17), (end - seam, height + 17)];
    area.draw(&Rectangle::new(corners, colour_of(index).light.filled()))?;
    if stacked && end - start > 2 * LETTER_WIDTH {
        let place = ((start + end) / 2, height);
        area.draw(&Text::new(letter(index), place, written(&PAPER, HPos::Center)))?;
    }
    Ok(())
}

/// A letter that identifies a segment in addition to its colour.
fn letter(index: usize) -> String {
    char::from(b'A' + (index % 26) as u8).to_string()
}

fn colour_of(index: usize) -> Colour {
    PALETTE[index % PALETTE.len()]
}

/// The legend entries; empty if the title is sufficient.
fn legend_of(chart: &Chart) -> Vec<(bool, String)> {
    let (names, letters): (Vec<&String>, bool) = match &chart.plot {
        Plot::Lines(lines) => (lines.lines.iter().map(|line| &line.name).collect(), false),
        Plot::Bars(bars) => (bars.parts.iter().collect(), true),
    };
    match names.as_slice() {
        [only] if only.is_empty() => Vec::new(),
        names => names.iter().map(|name| (letters, shown(name, 56))).collect(),
    }
}

/// Number of legend columns: short names stand side by side.
fn legend_columns(legend: &[(bool, String)]) -> usize {
    if legend.iter().all(|(_, name)| name.chars().count() <= 26) { 2 } else { 1 }
}

fn draw_legend(area: &Area<'_>, top: i32, legend: &[(bool, String)]) -> Drawn {
    let columns = legend_columns(legend);
    for (index, (letters, name)) in legend.iter().enumerate() {
        let (row, column) = ((index / columns) as i32, (index % columns) as i32);
        let at = (34 + column * WIDTH / 2, top + row * LEGEND_ROW_HEIGHT + 20);
        if *letters {
            draw_part(area, index, (at.0 - 16, at.0 + 16, at.1), true)?
        } else {
            draw_marker(area, index, at)?
        }
        area.draw(&Text::new(name.clone(), (at.0 + 28, at.1), ink(HPos::Left)))?;
    }
    Ok(())
}

/// A shape for each line, so that lines differ in more than colour; hollow from the sixth on.
fn draw_marker(area: &Area<'_>, index: usize, at: Pixel) -> Drawn {
    draw_shape(area, index, at, MARKER, colour_of(index))?;
    if index >= super::plot::MOST_LINES {
        draw_shape(area, index, at, MARKER / 2, PAPER)
    } else {
        Ok(())
    }
}

fn draw_shape(area: &Area<'_>, index: usize, (x, y): Pixel, size: i32, colour: Colour) -> Drawn {
    let style = colour.light.filled();
    let (more, less) = (size + 3, size - 1);
    match index % super::plot::MOST_LINES {
        0 => area.draw(&Circle::new((x, y), size, style)),
        1 => area.draw(&Rectangle::new([(x - less, y - less), (x + less, y + less)], style)),
        2 => {
            let corners = vec![(x, y - more), (x + more, y + size), (x - more, y + size)];
            area.draw(&Polygon::new(corners, style))
        }
        3 => {
            let corners = vec![(x, y - more), (x + more, y), (x, y + more), (x - more, y)];
            area.draw(&Polygon::new(corners, style))
        }
        _ => area.draw(&Cross::new((x, y), size, colour.light.stroke_width(4))),
    }
}
