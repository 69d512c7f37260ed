//! A dog and a cat on a meadow.

use super::canvas::{Colour, Picture};

const SKY: Colour = [196, 228, 245];
const SUN: Colour = [255, 214, 94];
const CLOUD: Colour = [244, 250, 253];
const HILL: Colour = [151, 201, 120];
const MEADOW: Colour = [118, 180, 92];
const DOG: Colour = [176, 120, 72];
const DOG_DARK: Colour = [116, 74, 44];
const DOG_LIGHT: Colour = [236, 208, 174];
const CAT: Colour = [136, 142, 156];
const CAT_DARK: Colour = [96, 101, 115];
const CAT_LIGHT: Colour = [224, 227, 233];
const PINK: Colour = [236, 150, 158];
const BLACK: Colour = [40, 36, 38];
const WHITE: Colour = [255, 255, 255];
const EYE: Colour = [126, 186, 92];
const COLLAR: Colour = [206, 66, 58];

pub(crate) fn draw() -> Picture {
    let mut picture = Picture::new(480, 320, SKY);
    landscape(&mut picture);
    dog(&mut picture);
    cat(&mut picture);
    picture
}

fn landscape(picture: &mut Picture) {
    picture.ellipse(SUN, (412, 62), (34, 34));
    for (x, y) in [(90, 62), (226, 44)] {
        picture.ellipse(CLOUD, (x, y), (34, 16));
        picture.ellipse(CLOUD, (x + 26, y - 10), (24, 18));
        picture.ellipse(CLOUD, (x + 52, y), (30, 14));
    }
    picture.ellipse(HILL, (120, 330), (260, 120));
    picture.ellipse(HILL, (400, 340), (240, 110));
    picture.rectangle(MEADOW, (0, 262), (480, 58));
    for (x, y, colour) in
        [(30, 284, PINK), (232, 300, SUN), (452, 288, PINK), (246, 276, WHITE), (58, 304, WHITE)]
    {
        for (dx, dy) in [(-4, 0), (4, 0), (0, -4), (0, 4)] {
            picture.ellipse(colour, (x + dx, y + dy), (3, 3));
        }
        picture.ellipse(SUN, (x, y), (2, 2));
    }
}

fn dog(picture: &mut Picture) {
    picture.stroke(DOG, (84, 250), (52, 196), 16);
    picture.ellipse(DOG, (150, 232), (68, 62));
    picture.ellipse(DOG_LIGHT, (156, 244), (36, 44));
    for x in [122, 186] {
        picture.stroke(DOG, (x, 232), (x, 286), 26);
        picture.ellipse(DOG_LIGHT, (x, 290), (18, 11));
    }
    picture.rectangle(COLLAR, (118, 176), (72, 12));
    picture.ellipse(SUN, (154, 192), (7, 7));
    picture.ellipse(DOG, (154, 128), (58, 54));
    picture.ellipse(DOG_DARK, (96, 132), (20, 44));
    picture.ellipse(DOG_DARK, (212, 132), (20, 44));
    picture.ellipse(DOG_LIGHT, (154, 148), (34, 28));
    for x in [132, 176] {
        picture.ellipse(WHITE, (x, 112), (11, 12));
        picture.ellipse(BLACK, (x + 1, 114), (7, 8));
        picture.ellipse(WHITE, (x + 3, 111), (2, 2));
    }
    picture.ellipse(PINK, (154, 172), (9, 14));
    picture.ellipse(DOG_LIGHT, (154, 158), (12, 8));
    picture.arc_below(BLACK, (144, 154), 11, 3);
    picture.arc_below(BLACK, (164, 154), 11, 3);
    picture.ellipse(BLACK, (154, 142), (12, 9));
    picture.ellipse(WHITE, (150, 139), (3, 2));
}

fn cat(picture: &mut Picture) {
    picture.stroke(CAT_DARK, (388, 272), (430, 236), 14);
    picture.stroke(CAT_DARK, (430, 236), (424, 196), 14);
    picture.ellipse(CAT, (336, 244), (52, 50));
    picture.ellipse(CAT_LIGHT, (330, 256), (24, 34));
    for x in [310, 352] {
        picture.stroke(CAT, (x, 246), (x, 288), 20);
        picture.ellipse(CAT_LIGHT, (x, 291), (14, 9));
    }
    picture.triangle(CAT, [(284, 168), (290, 104), (330, 140)]);
    picture.triangle(CAT, [(382, 168), (376, 104), (336, 140)]);
    picture.triangle(PINK, [(292, 150), (295, 118), (316, 138)]);
    picture.triangle(PINK, [(374, 150), (371, 118), (350, 138)]);
    picture.ellipse(CAT, (333, 170), (52, 44));
    for x in [316, 333, 350] {
        picture.stroke(CAT_DARK, (x, 130), (x + (333 - x) / 4, 146), 5);
    }
    picture.ellipse(CAT_LIGHT, (333, 188), (22, 16));
    for x in [312, 354] {
        picture.ellipse(EYE, (x, 166), (12, 11));
        picture.ellipse(BLACK, (x, 166), (4, 10));
        picture.ellipse(WHITE, (x + 3, 161), (2, 2));
    }
    picture.triangle(PINK, [(326, 179), (340, 179), (333, 187)]);
    picture.arc_below(BLACK, (327, 188), 7, 2);
    picture.arc_below(BLACK, (339, 188), 7, 2);
    for (y, tilt) in [(184, -6), (190, 0), (196, 6)] {
        picture.stroke(BLACK, (308, y), (274, y + tilt), 2);
        picture.stroke(BLACK, (358, y), (392, y + tilt), 2);
    }
}
