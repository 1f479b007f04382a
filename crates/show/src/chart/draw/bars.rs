//! Draws horizontal bars, which may be stacked.

use plotters::element::{PathElement, Rectangle, Text};
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

use super::{
    ABOVE, Area, BELOW, Drawn, LETTER_WIDTH, axes, colour_of, ink, shown, width_of, with_room,
    written,
};
use crate::chart::palette::{INK, PAPER};
use crate::chart::plot::{Axis, Bar, Bars, Scale};
use crate::chart::ruler::Ruler;
use crate::numbers::short;

/// Height of a bar with its spacing.
const ROW_HEIGHT: i32 = 52;
/// Space for values to the right of bars.
const VALUE_WIDTH: i32 = 130;
/// Longer names leave too little space for the bars next to them.
const NAME_LETTERS: usize = 16;

/// Whether the names are too long to stand next to their bars.
fn names_above(bars: &Bars) -> bool {
    bars.rows.iter().any(|row| row.name.chars().count() > NAME_LETTERS)
}

fn row_height(bars: &Bars) -> i32 {
    if names_above(bars) { 2 * ROW_HEIGHT - 8 } else { ROW_HEIGHT }
}

/// Space for a named limit above the bars.
fn above(bars: &Bars) -> i32 {
    if bars.limit.is_some() { ABOVE } else { 8 }
}

/// Height of a whole chart.
pub(super) fn height(bars: &Bars) -> i32 {
    above(bars) + bars.rows.len() as i32 * row_height(bars) + BELOW
}

/// Draws bars on their axis.
pub(super) fn draw(area: &Area<'_>, plot: &Area<'_>, bars: &Bars) -> Drawn {
    let totals = bars.rows.iter().map(Bar::end);
    let limit = bars.limit.iter().map(|(value, _)| *value);
    let values = totals.chain(limit.clone());
    // Without the unit, which each label would repeat: the values next to the bars share the one
    // below the axis.
    let axis = Axis::new("", Scale::Linear);
    let rows = Ruler::plain(bars.rows.len() as f64);
    let names_above = names_above(bars);
    let letters = bars.rows.iter().map(|row| row.name.chars().count()).max();
    let left =
        if names_above { 40 } else { (letters.unwrap_or(0) as i32 * LETTER_WIDTH + 24).max(60) };
    let sides = (left, VALUE_WIDTH, above(bars));
    let x = with_room(Ruler::new(&axis, values), width_of(area) - left - VALUE_WIDTH);
    let context = axes(plot, (&x, &rows), sides, &bars.unit)?;
    let stacked = bars.parts.len() > 1;
    for (nth, row) in bars.rows.iter().enumerate() {
        let middle = rows.range.1 - nth as f64 - 0.5;
        let pixel = |value: f64| context.backend_coord(&(x.place(value), middle));
        let zero = pixel(0.0);
        let (height, name) = if names_above {
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
        if let Some(ends) = row.interval {
            let [low, high] = ends.map(|end| pixel(end).0);
            let line = |from, to| PathElement::new([from, to], INK.light.stroke_width(4));
            area.draw(&line((low, height), (high, height)))?;
            for end in [low, high] {
                area.draw(&line((end, height - 9), (end, height + 9)))?;
            }
        }
        // Avoids the line of the limit.
        let beside = limit.clone().fold(row.end(), f64::max);
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
pub(super) fn draw_part(
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
