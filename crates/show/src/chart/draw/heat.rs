//! Draws heat maps: a cell for each pair of settings, coloured by its value.

use plotters::element::{Rectangle, Text};
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

use super::{Area, BELOW, Drawn, LETTER_WIDTH, ink, shown, width_of, written};
use crate::chart::palette::{GRID, HEAT, INK, PAPER};
use crate::chart::plot::Heat;

/// Height of a row of cells.
const CELL_HEIGHT: i32 = 60;
/// Space for the name of the rows above them, and for the values of the columns below.
const ABOVE: i32 = 46;
const COLUMN_NAMES: i32 = 40;

/// Height of a whole map.
pub(super) fn height(heat: &Heat) -> i32 {
    ABOVE + heat.rows.len() as i32 * CELL_HEIGHT + BELOW
}

/// Draws the cells, with their values where they fit; the colours are those of a scale that also
/// holds the values of `stretch`.
pub(super) fn draw(area: &Area<'_>, plot: &Area<'_>, heat: &Heat, stretch: &[f64]) -> Drawn {
    let top = plot.get_base_pixel().1 + ABOVE;
    let letters = heat.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let left = (letters as i32 * LETTER_WIDTH + 28).clamp(90, 260);
    let cell_width = (width_of(area) - left - 12) / heat.columns.len().max(1) as i32;
    let scale = ColourScale::of(heat.values().chain(stretch.iter().copied()));
    area.draw(&Text::new(shown(&heat.down, 30), (12, top - ABOVE + 18), ink(HPos::Left)))?;
    for (row, (name, values)) in (0..).zip(&heat.rows) {
        let above = top + row * CELL_HEIGHT;
        let middle = above + CELL_HEIGHT / 2;
        area.draw(&Text::new(shown(name, 16), (left - 14, middle), ink(HPos::Right)))?;
        for (column, value) in (0..).zip(values) {
            let from = left + column * cell_width;
            let corners = [(from, above), (from + cell_width - 3, above + CELL_HEIGHT - 3)];
            let text = heat.text(row as usize, column as usize);
            let (fill, letters) = match value {
                Some(value) => scale.colours(*value),
                None => (GRID, INK),
            };
            area.draw(&Rectangle::new(corners, fill.light.filled()))?;
            if text.chars().count() as i32 * LETTER_WIDTH < cell_width - 6 {
                let place = (from + cell_width / 2, middle);
                area.draw(&Text::new(text.clone(), place, written(&letters, HPos::Center)))?;
            }
        }
    }
    let below = top + heat.rows.len() as i32 * CELL_HEIGHT;
    let longest = heat.columns.iter().map(|name| name.chars().count()).max().unwrap_or(1);
    let every = ((longest as i32 + 1) * LETTER_WIDTH / cell_width.max(1) + 1).max(1);
    for (column, name) in (0..).zip(&heat.columns).step_by(every as usize) {
        let place = (left + column * cell_width + cell_width / 2, below + 20);
        area.draw(&Text::new(shown(name, 12), place, ink(HPos::Center)))?;
    }
    let place = (left + (width_of(area) - left) / 2, below + COLUMN_NAMES + 18);
    area.draw(&Text::new(shown(&heat.across, 40), place, ink(HPos::Center)))
}

/// Steps of equal ratio from the smallest to the largest value, at least over a factor of
/// [`LEAST_RANGE`], so that noise does not take all colours.
struct ColourScale {
    least: f64,
    most: f64,
}

const LEAST_RANGE: f64 = 4.0;

impl ColourScale {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let positive = values.filter(|value| *value > 0.0);
        let (least, most) = positive
            .fold((f64::INFINITY, f64::MIN_POSITIVE), |(least, most), v| {
                (least.min(v), most.max(v))
            });
        Self { least: least.min(most / LEAST_RANGE), most }
    }

    /// The colours of a cell and of the text on it.
    fn colours(&self, value: f64) -> (super::Colour, super::Colour) {
        let share = (value / self.least).ln() / (self.most / self.least).ln();
        let step = (share.clamp(0.0, 1.0) * (HEAT.len() - 1) as f64).round() as usize;
        (HEAT[step], if step < HEAT.len() / 2 { INK } else { PAPER })
    }
}
