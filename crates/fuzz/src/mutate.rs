//! Changes to inputs that are the same on every run.

/// Longest input that is made.
const MAX_BYTES: usize = 64 << 10;

/// Makes new inputs of known ones.
#[derive(Debug)]
pub struct Mutator {
    state: u64,
}

/// What the languages are made of; repeated, it nests.
const TOKENS: &[&str] = &[
    "{{",
    "}}",
    "{{-",
    "-}}",
    "{%",
    "%}",
    "{{ .Values.a }}",
    "{{ range . }}",
    "{{ end }}",
    "{{ define \"x\" }}",
    "{{ include \"x\" . }}",
    "{{ template \"x\" . }}",
    "{{ tpl \"{{ . }}\" . }}",
    "{{ with $x := . }}",
    "{{ else }}",
    "{{ if ",
    " | ",
    " | toYaml",
    " | indent 4",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":",
    ": ",
    "- ",
    "\n",
    "\n  ",
    "\t",
    "&a ",
    "*a",
    "<<: *a",
    "!!str ",
    "!!binary ",
    "!!merge ",
    "!x ",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
    "|\n",
    ">-\n",
    "|2+\n",
    "? ",
    "# ",
    "\"",
    "'",
    "\\",
    "\\u0000",
    "\\x",
    "\0",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    "é",
    "\u{10ffff}",
    "null",
    "~",
    "true",
    "0x7fffffffffffffff",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e999",
    "-0",
    "0.1e-400",
    ".inf",
    ".nan",
    "1_000",
    "0o777",
    "2001-01-01T00:00:00Z",
    "..",
    "../",
    "/etc/passwd",
    "a.b.c",
    "$ref",
    "\"$ref\": \"#\"",
    "allOf",
    "anyOf",
    "pattern",
    "(a+)+$",
    "(?i)",
    "{1,1000}",
    "\\p{L}",
    "%s",
    "%d",
    "%999999999d",
    "%v",
    "%!",
    "%[1]*d",
    "${",
    "$${",
    "${A:-",
    "}",
    "function() ",
    "end ",
    "while true do ",
    "string.rep('x', 1e9)",
    "local x = ",
    "setmetatable({}, ",
    "pcall(",
    "..",
    "apiVersion: v1\n",
    "kind: List\n",
    "metadata: {name: a}\n",
    "items:\n",
    "resources:\n",
    "patches:\n",
    "replacements:\n",
    "vars:\n",
    "helmCharts:\n",
    "configMapGenerator:\n",
    "name: a\n",
    "dependencies:\n",
    "alias: ",
    "condition: ",
    "import-values:\n",
];

impl Mutator {
    /// The mutations of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed ^ 0x9E37_79B9_7F4A_7C15 }
    }

    /// A number below `limit`; 0 when that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.state;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^= value >> 31;
        if limit == 0 { 0 } else { (value % limit as u64) as usize }
    }

    /// One of `inputs`, changed in a few places.
    pub fn next(&mut self, inputs: &[(String, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = self.pick(inputs).to_vec();
        for _ in 0..=self.below(6) {
            self.change(&mut bytes, inputs);
        }
        bytes.truncate(MAX_BYTES);
        bytes
    }

    fn pick<'i>(&mut self, inputs: &'i [(String, Vec<u8>)]) -> &'i [u8] {
        let at = self.below(inputs.len());
        inputs.get(at).map_or(&[], |(_, bytes)| bytes)
    }

    fn change(&mut self, bytes: &mut Vec<u8>, inputs: &[(String, Vec<u8>)]) {
        let at = self.below(bytes.len() + 1);
        let to = at + self.below((bytes.len() - at).min(200) + 1);
        match self.below(9) {
            0 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << self.below(8);
                }
            }
            1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = self.below(256) as u8;
                }
            }
            2 => drop(bytes.drain(at..to)),
            3 => {
                let piece = bytes.get(at..to).unwrap_or_default().to_vec();
                let place = self.below(bytes.len() + 1);
                bytes.splice(place..place, piece);
            }
            // Nesting: the same piece often.
            4 => {
                let count = 1 + self.below(2000);
                let token = self.token().repeat(count);
                let most = MAX_BYTES.saturating_sub(bytes.len()).min(token.len());
                bytes.splice(at..at, token.iter().take(most).copied());
            }
            5 => {
                let other = self.pick(inputs).to_vec();
                let from = self.below(other.len() + 1);
                let piece = other.get(from..).unwrap_or_default().iter().take(400).copied();
                bytes.splice(at..to, piece);
            }
            _ => {
                let token = self.token();
                bytes.splice(at..at, token.iter().copied());
            }
        }
    }

    fn token(&mut self) -> &'static [u8] {
        let at = self.below(TOKENS.len());
        TOKENS.get(at).map_or(&[], |token| token.as_bytes())
    }
}
