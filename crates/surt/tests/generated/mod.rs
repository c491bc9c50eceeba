//! URIs of every odd kind, the same for the same seed.

/// SplitMix64: small, and good enough to choose with.
pub(crate) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// An endless supply of URIs.
pub(crate) struct Uris {
    random: Random,
}

const SCHEMES: &[&str] = &[
    "http://",
    "http://",
    "http://",
    "http://",
    "https://",
    "https://",
    "https://",
    "",
    "",
    "HTTP://",
    "Https://",
    "http:",
    "http:/",
    "http:///",
    "http:////",
    "https:/",
    "http://http://",
    "http://https://",
    "https://http://https://",
    "ftp://",
    "mailto:",
    "dns:",
    "whois://",
    "urn:uuid:",
    "urn:",
    "data:",
    "javascript:",
    "filedesc://",
    "filedesc",
    "warcinfo:",
    "metadata://",
    "file:///",
    "screenshot:http://",
    "rtsp://",
    "mms://",
    "gopher://",
    "news:",
    "//",
    "/",
    "x-y+z.0:",
    "1http://",
    "http ://",
    "httpx://",
    "about:",
    "view-source:http://",
    "ws://",
    "dns://",
];

const LABELS: &[&str] = &[
    "example",
    "www",
    "www2",
    "WWW",
    "www12",
    "wwww",
    "com",
    "co",
    "uk",
    "org",
    "a",
    "b1",
    "x-y",
    "_dmarc",
    "",
    "xn--bcher-kva",
    "b\u{fc}cher",
    "B\u{dc}CHER",
    "fa\u{df}",
    "\u{3b2}\u{3cc}\u{3bb}\u{3bf}\u{3c2}",
    "\u{4f8b}\u{3048}",
    "\u{1f4a9}",
    "\u{200d}",
    "\u{ad}a",
    "\u{5d0}\u{5d1}",
    "\u{5d0}a",
    "\u{621}1",
    "a\u{3002}b",
    "\u{ff41}\u{ff42}",
    "\u{fdfa}",
    "\u{1e9e}",
    "\u{130}",
    "%41",
    "%2e",
    "%2E%2e",
    "b%FCcher",
    "b%C3%BCcher",
    "%e4%be%8b",
    "%25%34%31",
    "localhost",
    "EXAMPLE",
    "a b",
    "a%20b",
    "~tilde",
    "a*b",
    "xn--\u{e4}",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\u{e4}",
    "(par)",
    "a,b",
    "com,example)",
];

const ADDRESSES: &[&str] = &[
    "127.0.0.1",
    "127.1",
    "10.0.258",
    "3279880203",
    "0127.0.0.1",
    "017.0.0.1",
    "08.1.2.3",
    "1.08.2.3",
    "0x7f.0.0.1",
    "1.2.3.4.5",
    "256.1.1.1",
    "1.2.3.256",
    "1.2.65536",
    "1.16777216",
    "0",
    "00",
    "0.0.0.0",
    "99999999999999999999999",
    "1.2.3.",
    ".1.2.3.4",
    "1..2",
    "[::1]",
    "[::ffff:1.2.3.4]",
    "[2001:DB8::1]",
    "[::1",
    "::1]",
    "x[::1]y",
    "[]",
    "1.2.3.4%20",
    "%31.2.3.4",
    "4294967296",
    "1.4294967296",
    "037777777777",
    "1.2.3.037",
    "1.0",
    "0.1",
    "1.00000000000000000000000000001",
];

const PORTS: &[&str] = &[
    "80",
    "443",
    "8080",
    "0",
    "00",
    "080",
    "65535",
    "65536",
    "99999999999",
    "",
    ":",
    "-1",
    "+80",
    " 80",
    "8a",
    "\u{663}",
    "80:80",
    "21",
    "0000000000000080",
    "%38%30",
];

const SEGMENTS: &[&str] = &[
    "a",
    "B",
    "index.html",
    ".",
    "..",
    "",
    "...",
    "%2e",
    "%2E%2E",
    "%2F",
    "%252F",
    "%25252e",
    "a%20b",
    "a b",
    "%",
    "%4",
    "%zz",
    "%E9",
    "\u{e9}",
    "%C3%A9",
    "a;jsessionid=0123456789abcdef0123456789abcdef",
    "(0123456789abcdefghijklmn)",
    "(S(0123456789abcdefghijklmn))",
    "(a(0123456789abcdefghijklmn)B(0123456789ABCDEFGHIJKLMN))",
    "page.aspx",
    ".aspx",
    "x.ASPX",
    "%3F",
    "%3f.aspx",
    "%23",
    "a,b",
    "a)b",
    "a:b",
    "@",
    "a@b",
    "~user",
    "*",
    "%0a",
    "%00",
    "%7f",
    "\u{7f}",
    "&",
    "=",
    "+",
    "'",
    "\"",
    "<x>",
    "|",
    "\\",
    "^",
    "`",
    "{}",
    "[1]",
    "\u{a0}",
    "\u{2028}",
    "x/../y",
];

const PARAMETERS: &[&str] = &[
    "a=1",
    "b=2",
    "A=1",
    "a",
    "a=",
    "=",
    "",
    "a-b=1",
    "a=2",
    "x=y=z",
    "id=7",
    "sid=7",
    "q=%26",
    "q=%3D",
    "q=%2526",
    "q=a+b",
    "q=a%20b",
    "q=\u{e9}",
    "q=%E9",
    "q=?",
    "q=/",
    "q=%23",
    "jsessionid=0123456789abcdef0123456789abcdef",
    "JSESSIONID=0123456789ABCDEF0123456789abcdef",
    "jsessionid=0123456789abcdef0123456789abcdef0",
    "jsessionid=short",
    "phpsessid=0123456789abcdef0123456789abcdef",
    "PHPSESSID=0123456789abcdef0123456789abcdeF",
    "mysid=0123456789abcdef0123456789abcdef",
    "sid=0123456789abcdef0123456789abcdef",
    "sid=0123456789abcdef0123456789abcde-",
    "aspsessionidabcdefgh=abcdefghabcdefghabcdefgh",
    "ASPSESSIONIDABCDEFGH=ABCDEFGHABCDEFGHABCDEFGH",
    "aspsessionidabcdefg1=abcdefghabcdefghabcdefgh",
    "cfid=1&cftoken=2",
    "CFID=a&CFTOKEN=b",
    "cfid=&cftoken=2",
    "cfid=1&cftoken=",
    "cfid=cfid=1&cftoken=2",
    "cfid=1&x=2&cftoken=3",
    "cftoken=2",
    "cfid=1",
    "utm_source=x",
    "z=%00",
    "z=%0A",
];

impl Uris {
    pub(crate) fn new(seed: u64) -> Uris {
        Uris {
            random: Random(seed),
        }
    }

    pub(crate) fn next_uri(&mut self) -> Vec<u8> {
        let mut uri = Vec::new();
        if self.random.one_in(60) {
            self.push_noise(&mut uri);
            return uri;
        }
        if self.random.one_in(25) {
            uri.extend(
                self.random
                    .pick(&[" ", "\t", "\r\n", "\u{b}", "\u{c}", "\0", "\u{a0}"])
                    .bytes(),
            );
        }
        uri.extend(self.random.pick(SCHEMES).bytes());
        if self.random.one_in(15) {
            uri.extend(
                self.random
                    .pick(&["user@", "u:p@", "u:p@ss@", "@", "%40@", "a:b:c@"])
                    .bytes(),
            );
        }
        self.push_host(&mut uri);
        if self.random.one_in(6) {
            uri.push(b':');
            uri.extend(self.random.pick(PORTS).bytes());
        }
        self.push_path(&mut uri);
        if self.random.one_in(2) {
            self.push_query(&mut uri);
        }
        if self.random.one_in(8) {
            uri.extend(
                self.random
                    .pick(&["#", "#frag", "#a?b", "#/x", "##", "#%23"])
                    .bytes(),
            );
        }
        if self.random.one_in(25) {
            uri.extend(
                self.random
                    .pick(&[" ", "\n", "\t\t", "\r", "\u{b}", "\u{85}"])
                    .bytes(),
            );
        }
        if self.random.one_in(10) {
            self.damage(&mut uri);
        }
        uri
    }

    fn push_host(&mut self, uri: &mut Vec<u8>) {
        if self.random.one_in(6) {
            uri.extend(self.random.pick(ADDRESSES).bytes());
            return;
        }
        for i in 0..1 + self.random.below(4) {
            if i > 0 {
                uri.extend(
                    self.random
                        .pick(&[".", ".", ".", ".", ".", "..", "...", "%2e"])
                        .bytes(),
                );
            }
            let label = if self.random.one_in(3) {
                self.random.pick(LABELS)
            } else {
                self.random
                    .pick(&["example", "com", "www", "a", "org", "co", "uk"])
            };
            uri.extend(label.bytes());
        }
        if self.random.one_in(20) {
            uri.push(b'.');
        }
    }

    fn push_path(&mut self, uri: &mut Vec<u8>) {
        for _ in 0..self.random.below(6) {
            uri.push(b'/');
            uri.extend(self.random.pick(SEGMENTS).bytes());
        }
        if self.random.one_in(3) {
            uri.push(b'/');
        }
    }

    fn push_query(&mut self, uri: &mut Vec<u8>) {
        uri.push(b'?');
        for i in 0..self.random.below(6) {
            if i > 0 {
                uri.extend(
                    self.random
                        .pick(&["&", "&", "&", "&", "&&", "&amp;", ";", "%26"])
                        .bytes(),
                );
            }
            uri.extend(self.random.pick(PARAMETERS).bytes());
        }
    }

    fn push_noise(&mut self, uri: &mut Vec<u8>) {
        for _ in 0..self.random.below(24) {
            let byte = if self.random.one_in(2) {
                b"/:?#[]@%.&=()htp \t\n\r"[self.random.below(20)]
            } else {
                self.random.below(256) as u8
            };
            uri.push(byte);
        }
    }

    fn damage(&mut self, uri: &mut Vec<u8>) {
        for _ in 0..1 + self.random.below(3) {
            if uri.is_empty() {
                return;
            }
            let at = self.random.below(uri.len());
            match self.random.below(3) {
                0 => {
                    uri.remove(at);
                }
                1 => uri.insert(at, self.random.below(256) as u8),
                _ => uri[at] = b"/:?#[]@%.&=()\t\n\r "[self.random.below(17)],
            }
        }
    }
}
