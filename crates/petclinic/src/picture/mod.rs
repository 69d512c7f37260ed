//! The picture on the page is what this module draws: `UPDATE_PICTURE=1 cargo test -p petclinic picture`
//! writes it anew after a change of the drawing.

mod canvas;
mod pets;
mod png;

use std::path::Path;

#[test]
fn the_committed_picture_is_the_drawing() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/pets.png");
    let drawn = pets::draw();
    if std::env::var_os("UPDATE_PICTURE").is_some() {
        std::fs::write(&path, png::encode(&drawn)).unwrap();
    }
    let committed = png::decode(&std::fs::read(&path).unwrap());
    assert_eq!((committed.width, committed.height), (drawn.width, drawn.height));
    assert!(
        committed.pixels == drawn.pixels,
        "assets/pets.png is not the drawing; see the module's head"
    );
}
