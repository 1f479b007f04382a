//! Draws charts as SVG, at twice their display size, since the library only supports whole pixels.

mod bars;
mod lines;
mod settings;

use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, ChartContext, LabelAreaPosition};
use plotters::coord::{Shift, cartesian::Cartesian2d};
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, Cross, Polygon, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, TRANSPARENT, TextStyle};
use stormlp_core::printable::printable;

use super::palette::{AXIS, Colour, GRID, INK, PALETTE, PAPER, page_rules};
use super::plot::{Chart, MOST_LINES, Plot};
use super::ruler::Ruler;

/// Height of a legend line.
const LEGEND_ROW_HEIGHT: i32 = 42;
/// Space for labels below an axis, and above a plot.
const BELOW: i32 = 88;
const ABOVE: i32 = 66;
/// Font size, and the approximate width of a letter.
const TEXT: f64 = 32.0;
const LETTER_WIDTH: i32 = 15;
/// Half the marker size.
const MARKER: i32 = 9;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;
type Plotted<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Ruler, Ruler>>;
type Pixel = (i32, i32);

/// Where a chart is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// On a page, in a column that also fits a phone.
    Page,
    /// In a file: with its title, its background and its dark mode.
    Alone,
}

/// Width of a chart.
const WIDTH: i32 = 880;
/// Height of a line chart, including axes and labels.
const LINES_HEIGHT: i32 = 520;

/// A chart as SVG: for a page that provides the title and the dark-mode rules, or with both
/// included.
///
/// # Errors
/// Errors of the library, which are not expected as it writes to memory.
pub fn svg(chart: &Chart, form: Form) -> Result<String, String> {
    let mut text = String::new();
    let alone = form == Form::Alone;
    let top = if alone { ABOVE } else { 0 };
    let legend = legend_of(chart);
    let rows = legend.len().div_ceil(legend_columns(&legend, WIDTH)) as i32;
    let plot = match &chart.plot {
        Plot::Lines(_) => LINES_HEIGHT,
        Plot::Bars(bars) => bars::height(bars),
    };
    let size = (WIDTH as u32, (top + plot + rows * LEGEND_ROW_HEIGHT + 8) as u32);
    let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
    let drawn = || -> Drawn {
        if alone {
            let title = Text::new(shown(&chart.title, 60), (12, 30), ink(HPos::Left));
            area.draw(&title)?;
        }
        let (_, below) = area.split_vertically(top);
        let (place, _) = below.split_vertically(plot);
        match &chart.plot {
            Plot::Lines(lines) => lines::draw(&area, &place, lines)?,
            Plot::Bars(bars) => bars::draw(&area, &place, bars)?,
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

fn width_of(area: &Area<'_>) -> i32 {
    area.dim_in_pixel().0 as i32
}

/// About how wide a text is.
fn text_width(text: &str) -> i32 {
    text.chars().count() as i32 * LETTER_WIDTH
}

fn ink(anchor: HPos) -> TextStyle<'static> {
    written(&INK, anchor)
}

fn written(colour: &Colour, anchor: HPos) -> TextStyle<'_> {
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

/// An axis of this many pixels, reduced to the labels that fit.
fn with_room(axis: Ruler, pixels: i32) -> Ruler {
    let width = (axis.letters() as i32 + 1) * LETTER_WIDTH;
    axis.with_room_for((pixels / width.max(1)) as usize)
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

/// Number of legend columns in this width.
fn legend_columns(legend: &[(bool, String)], width: i32) -> usize {
    let longest = legend.iter().map(|(_, name)| text_width(name) + 74).max();
    (width / longest.unwrap_or(width)).clamp(1, 6) as usize
}

fn draw_legend(area: &Area<'_>, top: i32, legend: &[(bool, String)]) -> Drawn {
    let columns = legend_columns(legend, width_of(area));
    let column_width = width_of(area) / columns as i32;
    for (index, (letters, name)) in legend.iter().enumerate() {
        let (row, column) = ((index / columns) as i32, (index % columns) as i32);
        let at = (34 + column * column_width, top + row * LEGEND_ROW_HEIGHT + 20);
        if *letters {
            bars::draw_part(area, index, (at.0 - 16, at.0 + 16, at.1), true)?
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
    if index >= MOST_LINES { draw_shape(area, index, at, MARKER / 2, PAPER) } else { Ok(()) }
}

fn draw_shape(area: &Area<'_>, index: usize, (x, y): Pixel, size: i32, colour: Colour) -> Drawn {
    let style = colour.light.filled();
    let (more, less) = (size + 3, size - 1);
    match index % MOST_LINES {
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
