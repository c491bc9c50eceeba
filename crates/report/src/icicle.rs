//! A tree as a self-contained page: an icicle plot, in which a click opens a subtree.

use std::fmt::Write;

use crate::html::escape;

/// A node of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The label.
    pub name: String,
    /// The size, including that of the children.
    pub size: u64,
    /// Further details.
    pub note: String,
    /// The children.
    pub parts: Vec<Piece>,
}

impl Piece {
    /// Appends it as JSON.
    fn write_json(&self, out: &mut String) {
        out.push_str("{\"n\":");
        quote(&self.name, out);
        let _ = write!(out, ",\"s\":{},\"t\":", self.size);
        quote(&self.note, out);
        out.push_str(",\"c\":[");
        for (at, part) in self.parts.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            part.write_json(out);
        }
        out.push_str("]}");
    }
}

/// Appends a text as JSON that is safe inside a script element.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '<' | '>' | '&' | '\u{0}'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

const STYLE: &str = "body{font:15px/1.4 system-ui,sans-serif;margin:1.5rem;color:#222}h1{font-size:1.3rem}\
#path button{border:0;background:none;color:#1d5c8a;cursor:pointer;font:inherit;padding:0 .2rem}\
#stage{position:relative;overflow:hidden;min-height:20rem}\
#stage button{position:absolute;height:1.8rem;border:1px solid #fff;font:12px system-ui,sans-serif;text-align:left;\
overflow:hidden;white-space:nowrap;text-overflow:ellipsis;cursor:pointer;padding:0 .3rem;color:#111;box-sizing:border-box}\
#stage button:hover,#stage button:focus{filter:brightness(1.12);outline:2px solid #333;z-index:1}\
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}#path button{color:#8cc4ee}#stage button{border-color:#181818}}";

const SCRIPT: &str = r#"
const root = JSON.parse(document.getElementById("tree").textContent);
const stage = document.getElementById("stage"), path = document.getElementById("path"), note = document.getElementById("note");
(function name(piece, above) { piece.above = above; piece.c.forEach(part => name(part, piece)); })(root, null);
function button(text, act) {
  const made = document.createElement("button");
  made.textContent = text;
  made.onclick = act;
  return made;
}
function draw(piece, left, width, level, hue) {
  if (width * stage.clientWidth < 3) return level;
  const made = button(piece.n, () => show(piece));
  made.title = piece.n + "\n" + piece.t;
  made.style.cssText = `left:${100 * left}%;width:${100 * width}%;top:${1.85 * level}rem;background:hsl(${hue} 45% ${Math.min(82, 62 + 4 * level)}%)`;
  stage.append(made);
  let at = left, deepest = level + 1;
  piece.c.forEach((part, number) => {
    const share = piece.s ? width * part.s / piece.s : 0;
    deepest = Math.max(deepest, draw(part, at, share, level + 1, level ? hue : (205 + 47 * number) % 360));
    at += share;
  });
  return deepest;
}
function show(top) {
  stage.replaceChildren();
  path.replaceChildren();
  for (let piece = top; piece; piece = piece.above) path.prepend(button(piece.n, () => show(piece)));
  note.textContent = top.t;
  stage.style.height = 1.85 * draw(top, 0, 1, 0, 205) + "rem";
}
show(root);
addEventListener("resize", () => show(root));
"#;

/// The page.
pub fn icicle(title: &str, root: &Piece) -> String {
    let mut tree = String::new();
    root.write_json(&mut tree);
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
        <title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n<noscript>This page draws with a script of its own.</noscript>\n\
        <p id=\"path\"></p>\n<p id=\"note\"></p>\n<div id=\"stage\"></div>\n\
        <script type=\"application/json\" id=\"tree\">{tree}</script>\n<script>{SCRIPT}</script>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_the_script_and_nothing_is_fetched() {
        let root = Piece {
            name: "*".into(),
            size: 3,
            parts: vec![Piece {
                name: "</script><img>".into(),
                size: 2,
                note: "a & b".into(),
                ..Piece::default()
            }],
            ..Piece::default()
        };
        let page = icicle("maps <of> a", &root);
        assert!(page.contains("maps &lt;of&gt; a") && !page.contains("<img"));
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(
            !page.contains("http:") && !page.contains("https:") && !page.contains("src="),
            "{page}"
        );
    }
}
