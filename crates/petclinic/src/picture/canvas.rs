//! A canvas that paints shapes given as "is this point inside", with smooth edges.

pub(crate) type Colour = [u8; 3];

/// Samples per pixel and direction; integers alone, so that every machine draws the same.
const SAMPLES: i64 = 3;

pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pixels: Vec<Colour>,
}

impl Picture {
    pub(crate) fn new(width: usize, height: usize, colour: Colour) -> Self {
        Self { width, height, pixels: vec![colour; width * height] }
    }

    /// Paints the points that `inside` holds; coordinates are in pixels times `SAMPLES`.
    fn paint(&mut self, colour: Colour, inside: impl Fn(i64, i64) -> bool) {
        let all = SAMPLES * SAMPLES;
        for (index, pixel) in self.pixels.iter_mut().enumerate() {
            let x = i64::try_from(index % self.width).unwrap() * SAMPLES;
            let y = i64::try_from(index / self.width).unwrap() * SAMPLES;
            let hit = |step| inside(x + step % SAMPLES, y + step / SAMPLES);
            let hits = i64::try_from((0..all).filter(|step| hit(*step)).count()).unwrap();
            for (old, new) in pixel.iter_mut().zip(colour) {
                let mixed = (i64::from(*old) * (all - hits) + i64::from(new) * hits) / all;
                *old = u8::try_from(mixed).unwrap();
            }
        }
    }

    /// An ellipse by centre and half axes.
    pub(crate) fn ellipse(&mut self, colour: Colour, centre: (i64, i64), half: (i64, i64)) {
        let (cx, cy) = (centre.0 * SAMPLES, centre.1 * SAMPLES);
        let (rx, ry) = (half.0 * SAMPLES, half.1 * SAMPLES);
        self.paint(colour, |x, y| {
            let (dx, dy) = (x - cx, y - cy);
            dx * dx * ry * ry + dy * dy * rx * rx <= rx * rx * ry * ry
        });
    }

    /// The lower half of a ring: half a mouth.
    pub(crate) fn arc_below(
        &mut self,
        colour: Colour,
        centre: (i64, i64),
        radius: i64,
        thick: i64,
    ) {
        let (cx, cy) = (centre.0 * SAMPLES, centre.1 * SAMPLES);
        let (outer, inner) = (radius * SAMPLES, (radius - thick) * SAMPLES);
        self.paint(colour, |x, y| {
            let distance = (x - cx).pow(2) + (y - cy).pow(2);
            y >= cy && distance <= outer * outer && distance >= inner * inner
        });
    }

    pub(crate) fn triangle(&mut self, colour: Colour, corners: [(i64, i64); 3]) {
        let [a, b, c] = corners.map(|(x, y)| (x * SAMPLES, y * SAMPLES));
        let side = |p: (i64, i64), q: (i64, i64), x: i64, y: i64| {
            (q.0 - p.0) * (y - p.1) - (q.1 - p.1) * (x - p.0)
        };
        self.paint(colour, |x, y| {
            let sides = [side(a, b, x, y), side(b, c, x, y), side(c, a, x, y)];
            sides.iter().all(|s| *s >= 0) || sides.iter().all(|s| *s <= 0)
        });
    }

    /// A line with round ends.
    pub(crate) fn stroke(&mut self, colour: Colour, from: (i64, i64), to: (i64, i64), width: i64) {
        let (ax, ay) = (from.0 * SAMPLES, from.1 * SAMPLES);
        let (dx, dy) = (to.0 * SAMPLES - ax, to.1 * SAMPLES - ay);
        let (length, radius) = (dx * dx + dy * dy, width * SAMPLES / 2);
        self.paint(colour, |x, y| {
            let along = ((x - ax) * dx + (y - ay) * dy).clamp(0, length);
            // Distance to the nearest point of the line, everything times `length` to stay in integers.
            let (ex, ey) = ((x - ax) * length - along * dx, (y - ay) * length - along * dy);
            i128::from(ex).pow(2) + i128::from(ey).pow(2)
                <= i128::from(radius).pow(2) * i128::from(length).pow(2)
        });
    }

    pub(crate) fn rectangle(&mut self, colour: Colour, corner: (i64, i64), size: (i64, i64)) {
        self.paint(colour, |x, y| {
            (corner.0 * SAMPLES..(corner.0 + size.0) * SAMPLES).contains(&x)
                && (corner.1 * SAMPLES..(corner.1 + size.1) * SAMPLES).contains(&y)
        });
    }
}
