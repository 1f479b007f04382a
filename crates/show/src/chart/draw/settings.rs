//! Draws the names of settings beside the points of lines, and their knees.

use plotters::element::{Circle, Text};
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

use super::hover::Hover;
use super::{Area, Drawn, MARKER, Pixel, ink};
use crate::chart::palette::INK;
use crate::chart::plot::Lines;
use crate::numbers::short;

/// Radius of the ring around a knee.
const RING: i32 = 2 * MARKER;
/// Height of a line of text with the space around it.
const TEXT_HEIGHT: i32 = 34;
/// Width of a digit, which names mostly consist of, and the space between two names.
const DIGIT_WIDTH: i32 = 18;
const BETWEEN: i32 = 10;

/// Draws a ring around each knee and as many names as there is room for within the corners of the
/// `frame`, those of knees first. `pixel` is the place of a point.
pub(super) fn draw(
    area: &Area<'_>,
    frame: [Pixel; 2],
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
                area.draw(&Circle::new(at, RING, ring))?;
            }
            let words = if is_knee { format!("knee: {name}") } else { name.clone() };
            names.push((is_knee, at, words.clone()));
            let reach = reach(is_knee);
            taken.push(Space {
                from: (at.0 - reach, at.1 - reach),
                to: (at.0 + reach, at.1 + reach),
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
        let away = reach(is_knee) + TEXT_HEIGHT / 2;
        let aside = away + width_of(&name) / 2;
        let places = [
            (x, y - away),
            (x, y + away),
            (x + aside, y),
            (x - aside, y),
            (x + aside, y + away),
            (x + aside, y - away),
            (x - aside, y - away),
            (x - aside, y + away),
        ];
        // Only a knee is named at any price: askew of its point, or on a line.
        let places = &places[..if is_knee { places.len() } else { 4 }];
        let spaces = places.iter().map(|place| Space::of(*place, &name, frame));
        let free = |space: &Space| {
            space.is_within(frame) && taken.iter().all(|one| one.is_clear_of(space))
        };
        let spaces: Vec<Space> = spaces.filter(free).collect();
        let off_lines = |space: &&Space| !drawn.iter().any(|pixel| space.holds(*pixel));
        let clear = spaces.iter().find(off_lines);
        let Some(space) = clear.or(spaces.first().filter(|_| is_knee)).copied() else {
            continue;
        };
        area.draw(&Text::new(name, space.middle(), ink(HPos::Center)))?;
        taken.push(space);
    }
    Ok(())
}

/// How far the shape of a point extends.
fn reach(is_knee: bool) -> i32 {
    if is_knee { RING + 4 } else { MARKER }
}

/// About how wide a name is.
fn width_of(name: &str) -> i32 {
    name.chars().count() as i32 * DIGIT_WIDTH
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
    /// The space of `text` around `middle`, moved between the sides of the frame.
    fn of((x, y): Pixel, text: &str, [from, to]: [Pixel; 2]) -> Self {
        let half = width_of(text) / 2;
        let x = x.min(to.0 - half).max(from.0 + half);
        Self { from: (x - half, y - TEXT_HEIGHT / 2), to: (x + half, y + TEXT_HEIGHT / 2) }
    }

    /// Whether it is not above or below the frame.
    fn is_within(&self, [from, to]: [Pixel; 2]) -> bool {
        self.from.1 >= from.1 && self.to.1 <= to.1
    }

    fn middle(self) -> Pixel {
        ((self.from.0 + self.to.0) / 2, (self.from.1 + self.to.1) / 2)
    }

    fn holds(&self, (x, y): Pixel) -> bool {
        (self.from.0..=self.to.0).contains(&x) && (self.from.1..=self.to.1).contains(&y)
    }

    fn is_clear_of(&self, other: &Self) -> bool {
        self.to.0 + BETWEEN <= other.from.0
            || other.to.0 + BETWEEN <= self.from.0
            || self.to.1 <= other.from.1
            || other.to.1 <= self.from.1
    }
}
