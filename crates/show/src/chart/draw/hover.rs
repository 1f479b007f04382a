//! What a chart says under the pointer: invisible shapes with titles, which browsers show.

use super::Pixel;
use crate::xml::escaped;

/// The shapes, in the order in which they are drawn: later ones lie on top.
#[derive(Debug, Default)]
pub(super) struct Hover(String);

impl Hover {
    /// Says `words` within the corners of a rectangle.
    pub(super) fn rectangle(
        &mut self,
        (left, top): Pixel,
        (right, bottom): Pixel,
        words: &[String],
    ) {
        let (width, height) = ((right - left).max(1), (bottom - top).max(1));
        let place = format!("x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"");
        self.shape("rect", &place, words);
    }

    /// Says `words` around a point.
    pub(super) fn point(&mut self, (x, y): Pixel, words: &[String]) {
        self.shape("circle", &format!("cx=\"{x}\" cy=\"{y}\" r=\"22\""), words);
    }

    fn shape(&mut self, name: &str, place: &str, words: &[String]) {
        let words: Vec<String> = words.iter().map(|line| escaped(line)).collect();
        let words = words.join("\n");
        self.0.push_str(&format!("<{name} {place}><title>{words}</title></{name}>\n"));
    }

    /// Adds the shapes to a complete `svg`.
    pub(super) fn add_to(self, svg: &mut String) {
        if let Some(end) = svg.rfind("</svg>").filter(|_| !self.0.is_empty()) {
            svg.insert_str(end, &format!("<g fill-opacity=\"0\">\n{}</g>\n", self.0));
        }
    }
}
