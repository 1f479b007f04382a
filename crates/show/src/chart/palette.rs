//! The colours of charts, each with its dark-mode replacement. Their contrast with the page is at
//! least 3:1, and the text's at least 4.5:1.

use plotters::style::RGBColor;

/// A colour for light mode and for dark mode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Colour {
    pub(super) light: RGBColor,
    dark: RGBColor,
}

const fn colour(light: (u8, u8, u8), dark: (u8, u8, u8)) -> Colour {
    Colour { light: RGBColor(light.0, light.1, light.2), dark: RGBColor(dark.0, dark.1, dark.2) }
}

/// Lines, bars and their segments.
pub(super) const PALETTE: [Colour; 8] = [
    colour((0x0b, 0x62, 0xa4), (0x6c, 0xb4, 0xf5)),
    colour((0xc2, 0x41, 0x0c), (0xff, 0x9d, 0x5c)),
    colour((0x0f, 0x7b, 0x5f), (0x4f, 0xd1, 0xa5)),
    colour((0x7b, 0x3f, 0xa0), (0xc7, 0x9b, 0xf2)),
    colour((0x8a, 0x5a, 0x00), (0xf0, 0xc6, 0x4a)),
    colour((0xb0, 0x1c, 0x5a), (0xff, 0x86, 0xb9)),
    colour((0x0e, 0x74, 0x90), (0x5f, 0xd4, 0xe8)),
    colour((0x4b, 0x55, 0x63), (0xb6, 0xbe, 0xc9)),
];
/// Text.
pub(super) const INK: Colour = colour((0x1c, 0x24, 0x30), (0xe6, 0xea, 0xf0));
/// Text on bars, and the gaps between segments.
pub(super) const PAPER: Colour = colour((0xff, 0xff, 0xff), (0x14, 0x19, 0x21));
/// Grid lines.
pub(super) const GRID: Colour = colour((0xdd, 0xe2, 0xe9), (0x33, 0x3c, 0x4a));
/// Axes, marks and limits.
pub(super) const AXIS: Colour = colour((0x6a, 0x74, 0x82), (0x93, 0x9d, 0xab));

fn all() -> impl Iterator<Item = Colour> {
    [INK, PAPER, GRID, AXIS].into_iter().chain(PALETTE)
}

fn hex(colour: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
}

/// Style rules with the dark-mode colours of charts. They select by the colour itself, so that a
/// chart also looks right without a style sheet.
pub(crate) fn dark_rules() -> String {
    let rule = |colour: Colour| {
        let (light, dark) = (hex(colour.light), hex(colour.dark));
        format!("svg [fill=\"{light}\"]{{fill:{dark}}}svg [stroke=\"{light}\"]{{stroke:{dark}}}")
    };
    all().map(rule).collect()
}

/// The style of a standalone chart with a background.
pub(super) fn page_rules() -> String {
    format!(
        "svg{{font-family:system-ui,sans-serif;background:{}}}\
         @media (prefers-color-scheme:dark){{svg{{background:{}}}{}}}",
        hex(PAPER.light),
        hex(PAPER.dark),
        dark_rules()
    )
}
