//! A tree as a self-contained page: an icicle plot, in which a click opens a subtree.

use std::fmt::Write;

use crate::html::{STYLE as PAGE_STYLE, escape};

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

const STYLE: &str = "body{display:flex;flex-direction:column;min-height:100vh}header,#path,#note{padding:0 1rem}\
header h1{font-size:1.3rem;margin:.8rem 0 .2rem}#note{margin:.2rem 0 .6rem;color:var(--quiet)}#path{margin:0}\
#path button{border:0;background:none;padding:0 .25rem;font-size:.95rem}#path button+button::before{content:'›';margin-right:.4rem;color:var(--quiet)}\
#stage{position:relative;overflow:hidden;flex:1;min-height:24rem;margin:0 1rem 1rem}\
#stage button{position:absolute;border:1px solid var(--paper);border-radius:.25rem;text-align:left;vertical-align:top;overflow:hidden;\
padding:.1rem .35rem;color:#10202e;font-size:.82rem;line-height:1.25;white-space:nowrap;text-overflow:ellipsis;display:block}\
#stage button small{display:block;font-size:.72rem;color:#10202e;overflow:hidden;text-overflow:ellipsis}\
#stage button:hover,#stage button:focus-visible{filter:brightness(1.08);outline:2px solid var(--ink);z-index:1}";

const SCRIPT: &str = r#"
const root = JSON.parse(document.getElementById("tree").textContent);
const stage = document.getElementById("stage"), path = document.getElementById("path"), note = document.getElementById("note");
const tip = document.getElementById("tip");
(function name(piece, above) { piece.above = above; piece.c.forEach(part => name(part, piece)); })(root, null);
// A key's last segment says what is new at its level: `google` of `com,google,*`.
function label(piece) {
  const key = piece.n.replace(/[,\/]\*$/, "");
  if (key === "" || key === "*") return "all";
  const last = key.slice(Math.max(key.lastIndexOf(","), key.lastIndexOf("/")) + 1);
  return key.includes("/") ? "/" + last : last;
}
// Cells narrower than this are not drawn.
const least = 3;
function depth(piece, width) {
  const below = piece.c.map(part => [part, width * part.s / Math.max(1, piece.s)]).filter(([, width]) => width >= least);
  return 1 + Math.max(0, ...below.map(([part, width]) => depth(part, width)));
}
function button(text, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.onclick = act;
  return made;
}
let shown = root;
function draw(piece, left, width, level, tall, hue, top) {
  const pixels = width * stage.clientWidth;
  if (pixels < least) return;
  const made = button(label(piece), () => show(piece));
  made.dataset.tip = piece.n + "\n" + piece.t;
  if (pixels < 24) {
    made.setAttribute("aria-label", made.textContent);
    made.textContent = "";
  }
  else if (tall > 42 && pixels > 90) {
    const more = document.createElement("small");
    more.textContent = (100 * piece.s / Math.max(1, top.s)).toFixed(1) + "%";
    made.append(more);
  }
  made.style.cssText = `left:${100 * left}%;width:${100 * width}%;top:${tall * level}px;height:${tall - 1}px;background:hsl(${hue} 45% ${Math.min(84, 66 + 3 * level)}%)${pixels < 24 ? ";padding:0" : ""}`;
  stage.append(made);
  let at = left;
  piece.c.forEach((part, number) => {
    const share = width * part.s / Math.max(1, piece.s);
    draw(part, at, share, level + 1, tall, level ? hue : (205 + 47 * number) % 360, top);
    at += share;
  });
}
function show(top) {
  shown = top;
  stage.replaceChildren();
  path.replaceChildren();
  for (let piece = top; piece; piece = piece.above) path.prepend(button(label(piece), () => show(piece)));
  note.textContent = top.n + ": " + top.t;
  const levels = depth(top, stage.clientWidth);
  const tall = Math.max(26, Math.min(120, Math.floor(stage.clientHeight / levels)));
  stage.style.minHeight = Math.max(384, tall * levels) + "px";
  draw(top, 0, 1, 0, tall, 205, top);
}
show(root);
addEventListener("resize", () => show(shown));
document.addEventListener("pointermove", event => {
  const mark = event.target.closest?.("[data-tip]");
  tip.hidden = !mark;
  if (!mark) return;
  tip.textContent = mark.dataset.tip;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 4)) + "px";
  tip.style.top = (event.clientY > height + 20 ? event.clientY - height - 12 : event.clientY + 18) + "px";
});
"#;

/// The page. Names are keys of a map; each cell is labelled with the last segment of its key.
pub fn icicle(title: &str, root: &Piece) -> String {
    let mut tree = String::new();
    root.write_json(&mut tree);
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
        <title>{title}</title>\n<style>{PAGE_STYLE}\n{STYLE}</style>\n</head>\n<body>\n<header><h1>{title}</h1></header>\n\
        <noscript><p>This page draws with a script of its own.</p></noscript>\n\
        <main style=\"display:contents\"><p id=\"path\"></p>\n<p id=\"note\"></p>\n<div id=\"stage\"></div></main>\n<div id=\"tip\" style=\"white-space:pre-line\" role=\"status\" hidden></div>\n\
        <script type=\"application/json\" id=\"tree\">{tree}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
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
