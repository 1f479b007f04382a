//! Draws the names of settings beside the points of lines, and their knees.

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
/// The space between two names.
const BETWEEN: i32 = 10;

/// Draws a ring around each knee, and above or below each point its name if there is room for it
/// between these `heights`, the names of knees first. `pixel` is the place of a point.
pub(super) fn draw(
    area: &Area<'_>,
    heights: Range<i32>,
    lines: &Lines,
    pixel: impl Fn((f64, f64)) -> Pixel,
) -> Drawn {
    let mut names: Vec<(bool, Pixel, String)> = Vec::new();
    for line in &lines.lines {
        for (nth, (point, name)) in line.points().zip(&line.settings).enumerate() {
            let (at, is_knee) = (pixel(point), line.knee == Some(nth));
            if is_knee {
                area.draw(&Circle::new(at, RING, INK.light.stroke_width(4)))?;
            }
            names.push((is_knee, at, if is_knee { format!("knee: {name}") } else { name.clone() }));
        }
    }
    names.sort_by_key(|(is_knee, ..)| !is_knee);
    // The middle of each point and name with half its width and height.
    let mut taken: Vec<(Pixel, Pixel)> =
        names.iter().map(|(_, at, _)| (*at, (MARKER, MARKER))).collect();
    for (is_knee, (x, y), name) in names {
        let half = text_width(&name) / 2;
        let x = x.min(width_of(area) - half).max(half);
        let away = if is_knee { RING + 4 } else { MARKER } + TEXT_HEIGHT / 2;
        let mut places = [(x, y - away), (x, y + away)].into_iter().filter(|(_, y)| {
            heights.start + TEXT_HEIGHT / 2 <= *y && *y <= heights.end - TEXT_HEIGHT / 2
        });
        let is_free = |place: &Pixel| {
            taken.iter().all(|((x, y), (wide, high))| {
                (x - place.0).abs() >= half + wide + BETWEEN
                    || (y - place.1).abs() >= TEXT_HEIGHT / 2 + high
            })
        };
        // A knee is named at any price.
        let free = places.clone().find(is_free).or_else(|| places.next().filter(|_| is_knee));
        if let Some(place) = free {
            area.draw(&Text::new(name, place, ink(HPos::Center)))?;
            taken.push((place, (half, TEXT_HEIGHT / 2)));
        }
    }
    Ok(())
}
