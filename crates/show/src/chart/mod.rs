//! Charts before they are drawn: their data, and the same numbers as a table.
//!
//! A lane defines the charts of its report; [`svg`] draws them independently of the lane. Three forms
//! are enough: lines over an axis, lines from setting to setting, and bars that may be stacked.

mod draw;
mod palette;
mod plot;
mod ruler;
mod table;

pub use draw::{Form, svg};
pub(crate) use palette::dark_rules;
pub use plot::{
    Axis, Bar, Bars, Chart, Group, Line, Lines, MOST_LINES, Plot, Scale, Setting, percentiles,
};
