//! Draws the names of settings beside the points of lines, and their knees.

use plotters::element::{Circle, Text};
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

use super::hover::Hover;
use super::{Area, Drawn, MARKER, Pixel, ink, text_width, width_of};
use crate::chart::palette::INK;
use crate::chart::plot::Lines;
use crate::numbers::short;

/// Distance of a name from its point, and the height of a line of text.
const DISTANCE: i32 = 26;
const TEXT_HEIGHT: i32 = 30;

/// Draws a ring around each knee and as many names as there is room for, those of knees first.
/// `pixel` is the place of a point.
pub(super) fn draw(
    area: &Area<'_>,
    lines: &Lines,
    pixel: impl Fn((f64, f64)) -> Pixel,
    hover: &mut Hover,
) -> Drawn {
    let mut names: Vec<(bool, Pixel, String)> = Vec::new();
    let mut taken: Vec<Space> = Vec::new();
    for line in &lines.lines {
        for (nth, (point, name)) in line.points().zip(&line.settings).enumerate() {
            let (at, is_knee) = (pixel(point), line.knee == Some(nth));
            if is_knee {
                let ring = INK.light.stroke_width(4);
                area.draw(&Circle::new(at, 2 * MARKER, ring))?;
            }
            let words = if is_knee { format!("knee: {name}") } else { name.clone() };
            names.push((is_knee, at, words.clone()));
            taken.push(Space {
                from: (at.0 - MARKER, at.1 - MARKER),
                to: (at.0 + MARKER, at.1 + MARKER),
            });
            let (x, y) = (format!("{} {}", short(point.0), lines.x.name), short(point.1));
            hover.point(
                at,
                &[format!("{}, {words}", line.name), x, format!("{y} {}", lines.y.name)],
            );
        }
    }
    let drawn = lines.lines.iter().flat_map(|line| &line.pieces);
    let drawn: Vec<Pixel> = drawn.flat_map(|piece| along(piece, &pixel)).collect();
    names.sort_by_key(|(is_knee, ..)| !is_knee);
    for (is_knee, (x, y), name) in names {
        let aside = text_width(&name) / 2 + DISTANCE;
        let places = [
            (x, y - DISTANCE),
            (x, y + DISTANCE),
            (x + aside, y + DISTANCE),
            (x + aside, y - DISTANCE),
            (x - aside, y - DISTANCE),
            (x - aside, y + DISTANCE),
        ];
        // A name stands off its point only if it is of a knee.
        let places = &places[..if is_knee { places.len() } else { 2 }];
        let spaces: Vec<Space> =
            places.iter().map(|place| Space::of(*place, &name, width_of(area))).collect();
        let free = |space: &&Space| taken.iter().all(|one| one.is_clear_of(space));
        let off_lines = |space: &&Space| !drawn.iter().any(|pixel| space.holds(*pixel));
        let clear = spaces.iter().filter(free).find(off_lines);
        let Some(space) = clear.or_else(|| spaces.iter().find(free)).copied() else {
            continue;
        };
        area.draw(&Text::new(name, space.middle(), ink(HPos::Center)))?;
        taken.push(space);
    }
    Ok(())
}

/// Pixels along a line, close enough together that none passes a name unseen.
fn along(piece: &[(f64, f64)], pixel: impl Fn((f64, f64)) -> Pixel) -> Vec<Pixel> {
    let points: Vec<Pixel> = piece.iter().copied().map(pixel).collect();
    let between = points.windows(2).flat_map(|ends| {
        let [from, to] = [ends[0], ends[1]];
        let apart = (to.0 - from.0).abs().max((to.1 - from.1).abs());
        let steps = (apart / MARKER).max(1);
        (0..=steps).map(move |nth| {
            (from.0 + (to.0 - from.0) * nth / steps, from.1 + (to.1 - from.1) * nth / steps)
        })
    });
    between.collect()
}

/// A rectangle of the chart.
#[derive(Debug, Clone, Copy)]
struct Space {
    from: Pixel,
    to: Pixel,
}

impl Space {
    /// The space of `text` around `middle`, moved so that it ends before `width`.
    fn of((x, y): Pixel, text: &str, width: i32) -> Self {
        let half = text_width(text) / 2;
        let x = x.min(width - half - 2);
        Self { from: (x - half, y - TEXT_HEIGHT / 2), to: (x + half, y + TEXT_HEIGHT / 2) }
    }

    fn middle(self) -> Pixel {
        ((self.from.0 + self.to.0) / 2, (self.from.1 + self.to.1) / 2)
    }

    fn holds(&self, (x, y): Pixel) -> bool {
        (self.from.0..=self.to.0).contains(&x) && (self.from.1..=self.to.1).contains(&y)
    }

    fn is_clear_of(&self, other: &Self) -> bool {
        self.to.0 <= other.from.0
            || other.to.0 <= self.from.0
            || self.to.1 <= other.from.1
            || other.to.1 <= self.from.1
    }
}
