//! Draws the knees of lines with the names of their settings.

use std::ops::Range;

use plotters::element::{Circle, Text};
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

use super::{Area, Drawn, MARKER, Pixel, ink, text_width, width_of};
use crate::chart::palette::INK;
use crate::chart::plot::Lines;

/// Radius of the ring around a knee.
const RING: i32 = 2 * MARKER;
/// Height of a line of text with the space around it.
const TEXT_HEIGHT: i32 = 34;

/// Draws a ring around each knee, and its name above or below it, within these `heights`. `pixel` is
/// the place of a point.
pub(super) fn draw(
    area: &Area<'_>,
    heights: Range<i32>,
    lines: &Lines,
    pixel: impl Fn((f64, f64)) -> Pixel,
) -> Drawn {
    for line in &lines.lines {
        let mut knees = line.points().zip(&line.settings).enumerate();
        let Some((_, (point, name))) = knees.find(|(nth, _)| line.knee == Some(*nth)) else {
            continue;
        };
        let (x, y) = pixel(point);
        area.draw(&Circle::new((x, y), RING, INK.light.stroke_width(4)))?;
        let name = format!("knee: {name}");
        let half = text_width(&name) / 2;
        let away = RING + 4 + TEXT_HEIGHT / 2;
        let is_low = y - away - TEXT_HEIGHT / 2 < heights.start;
        let place =
            (x.min(width_of(area) - half).max(half), if is_low { y + away } else { y - away });
        area.draw(&Text::new(name, place, ink(HPos::Center)))?;
    }
    Ok(())
}
