//! Draws lines over an axis.

use plotters::element::{PathElement, Text};
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

use super::{
    ABOVE, Area, Drawn, LETTER_WIDTH, MARKER, Pixel, axes, colour_of, draw_marker, draw_shape, ink,
    settings, shown, text_width, width_of, with_room,
};
use crate::chart::palette::AXIS;
use crate::chart::plot::{Line, Lines};
use crate::chart::ruler::Ruler;

/// Lines with more points only have some of them marked.
const MARKED_POINTS: usize = 24;
/// Minimum and maximum space for the labels of a vertical axis.
const NAMES_WIDTH: (i32, i32) = (126, 230);
/// Maximum number of letters of a label.
const MARK_LETTERS: usize = 24;

/// Draws lines on their axes.
pub(super) fn draw(area: &Area<'_>, plot: &Area<'_>, lines: &Lines) -> Drawn {
    let points = || lines.lines.iter().flat_map(Line::points);
    let marks = lines.marks.iter().map(|(at, _)| *at);
    let across = points().map(|(x, _)| x).chain(marks);
    let x = Ruler::new(&lines.x, across);
    let y = Ruler::new(&lines.y, points().map(|(_, y)| y));
    let (least, most) = NAMES_WIDTH;
    let left = (y.letters() as i32 * LETTER_WIDTH + 26).clamp(least, most);
    let x = with_room(x, width_of(area) - left);
    // Half of the last label extends beyond the axis.
    let right = (x.letters() as i32 * LETTER_WIDTH / 2 + 6).max(48);
    let context = axes(plot, (&x, &y), (left, right, ABOVE), &lines.x.name)?;
    let top = plot.get_base_pixel().1;
    // Labels on a time axis include their units.
    let name = if lines.y.name == "µs" { "latency" } else { &lines.y.name };
    area.draw(&Text::new(name.to_string(), (12, top + 18), ink(HPos::Left)))?;
    let column = |at: f64| {
        let ends = [(x.place(at), y.range.0), (x.place(at), y.range.1)];
        ends.map(|end| context.backend_coord(&end))
    };
    draw_marks(area, lines, (top + 18, 20 + text_width(name)), &column)?;
    let pixel = |(at, value): (f64, f64)| context.backend_coord(&(x.place(at), y.place(value)));
    for (index, line) in lines.lines.iter().enumerate() {
        let pieces = line.pieces.iter();
        let pieces: Vec<Vec<Pixel>> =
            pieces.map(|piece| piece.iter().copied().map(pixel).collect()).collect();
        draw_line(area, index, &pieces, lines.lines.len())?;
    }
    if lines.has_settings() {
        let [bottom, top] = column(x.range.0).map(|(_, height)| height);
        settings::draw(area, top..bottom, lines, pixel)?;
    }
    Ok(())
}

/// Draws the labelled positions of the horizontal axis, `beside` the name of the other one.
fn draw_marks(
    area: &Area<'_>,
    lines: &Lines,
    (height, mut free_from): Pixel,
    column: &dyn Fn(f64) -> [Pixel; 2],
) -> Drawn {
    for (at, name) in &lines.marks {
        let line = column(*at);
        area.draw(&PathElement::new(line, AXIS.light.stroke_width(4)))?;
        let name = shown(name, MARK_LETTERS);
        let (at, width) = (line[1].0, text_width(&name));
        let is_right = at + 4 + width <= width_of(area);
        let from = if is_right { at + 4 } else { at - 8 - width };
        // Labels that would overlap are only in the table.
        if from >= free_from {
            free_from = from + width + 8;
            area.draw(&Text::new(name, (from, height), ink(HPos::Left)))?;
        }
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
