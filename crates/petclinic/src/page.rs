//! What the application shows.

/// Path of the picture, as the page names it.
pub(crate) const PICTURE_PATH: &str = "/resources/images/pets.png";

/// The picture; `src/picture` draws it.
pub(crate) const PICTURE: &[u8] = include_bytes!("../assets/pets.png");

/// The page. Only the picture's line holds "pet" in small letters, so that `grep pet` prints that line alone.
pub(crate) const PAGE: &str = r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>PetClinic</title>
<style>
body { font-family: sans-serif; max-width: 40rem; margin: 3rem auto; text-align: center; color: #34302d; }
img { max-width: 100%; border-radius: 8px; }
</style>
</head>
<body>
<h1>Welcome</h1>
<p>The clinic is open.</p>
<img class="img-responsive" src="/resources/images/pets.png"/>
</body>
</html>
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_the_picture_on_the_only_line_that_grep_pet_finds() {
        let found: Vec<&str> = PAGE.lines().filter(|line| line.contains("pet")).collect();
        assert_eq!(
            found,
            [r#"<img class="img-responsive" src="/resources/images/pets.png"/>"#],
            "whole page:\n{PAGE}"
        );
        assert!(found[0].contains(PICTURE_PATH));
    }

    #[test]
    fn the_picture_is_a_png() {
        assert_eq!(&PICTURE[..8], b"\x89PNG\r\n\x1a\n");
    }
}
