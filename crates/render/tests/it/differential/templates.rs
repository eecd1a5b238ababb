//! Charts that chance writes: every construct of the language, and the functions whose result is the same each time.

use super::Chance;

const TEXTS: &[&str] = &[
    "a",
    "",
    " ",
    "b-c",
    "x: y",
    "- z",
    "true",
    "null",
    "1",
    "1.0",
    "0x1f",
    "007",
    "1e3",
    "multi\\nline\\n",
    "tab\\t",
    "#c",
    "a b  c",
    "é日",
    "A_B.c",
    "~",
    "yes",
    "12:30",
    "2024-01-02",
    "\\\"q\\\"",
    "it's",
    "@at",
    "{{",
    "%d",
    "k.l",
    "a,b,,c",
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "-3",
    "7",
    "10",
    "1.5",
    "-0.25",
    "2.0",
    "1e3",
    "1e21",
    "100000",
    "0x1F",
    "017",
    "1_000",
    "123456789",
    "0.0000001",
];
const PATHS: &[&str] = &[
    ".Values.s",
    ".Values.i",
    ".Values.f",
    ".Values.b",
    ".Values.n",
    ".Values.l",
    ".Values.m",
    ".Values.e",
    ".Values.m.a",
    ".Values.m.c.d",
    ".Values.none",
    ".Values.m.none",
    ".Release.Name",
    ".Chart.Name",
    ".Chart.Version",
    ".Values.lm",
    ".Values.big",
    ".Release.IsInstall",
    ".Values.t",
    ".Template.Name",
    ".Capabilities.KubeVersion.Minor",
    "$.Values.s",
    "$.Release",
    ".",
    ".Values.d",
];
/// Name, fewest and most arguments. What draws or depends on Go's order of maps is left out.
const FUNCTIONS: &[(&str, usize, usize)] = &[
    ("upper", 1, 1),
    ("lower", 1, 1),
    ("title", 1, 1),
    ("quote", 1, 2),
    ("squote", 1, 2),
    ("toString", 1, 1),
    ("toYaml", 1, 1),
    ("toJson", 1, 1),
    ("toPrettyJson", 1, 1),
    ("toRawJson", 1, 1),
    ("toYamlPretty", 1, 1),
    ("toToml", 1, 1),
    ("fromYaml", 1, 1),
    ("fromJson", 1, 1),
    ("fromYamlArray", 1, 1),
    ("int", 1, 1),
    ("int64", 1, 1),
    ("float64", 1, 1),
    ("len", 1, 1),
    ("empty", 1, 1),
    ("not", 1, 1),
    ("kindOf", 1, 1),
    ("typeOf", 1, 1),
    ("first", 1, 1),
    ("last", 1, 1),
    ("rest", 1, 1),
    ("initial", 1, 1),
    ("reverse", 1, 1),
    ("uniq", 1, 1),
    ("compact", 1, 1),
    ("sortAlpha", 1, 1),
    ("trim", 1, 1),
    ("b64enc", 1, 1),
    ("b64dec", 1, 1),
    ("sha256sum", 1, 1),
    ("snakecase", 1, 1),
    ("camelcase", 1, 1),
    ("kebabcase", 1, 1),
    ("nospace", 1, 1),
    ("untitle", 1, 1),
    ("swapcase", 1, 1),
    ("initials", 1, 1),
    ("floor", 1, 1),
    ("ceil", 1, 1),
    ("until", 1, 1),
    ("deepCopy", 1, 1),
    ("base", 1, 1),
    ("dir", 1, 1),
    ("ext", 1, 1),
    ("clean", 1, 1),
    ("urlParse", 1, 1),
    ("html", 1, 2),
    ("js", 1, 1),
    ("urlquery", 1, 2),
    ("print", 0, 3),
    ("println", 0, 2),
    ("add", 1, 3),
    ("sub", 2, 2),
    ("mul", 2, 3),
    ("div", 2, 2),
    ("mod", 2, 2),
    ("add1", 1, 1),
    ("max", 1, 3),
    ("min", 1, 3),
    ("addf", 2, 2),
    ("mulf", 2, 2),
    ("divf", 2, 2),
    ("round", 2, 2),
    ("eq", 2, 3),
    ("ne", 2, 2),
    ("lt", 2, 2),
    ("le", 2, 2),
    ("gt", 2, 2),
    ("ge", 2, 2),
    ("and", 1, 3),
    ("or", 1, 3),
    ("default", 2, 2),
    ("coalesce", 1, 3),
    ("ternary", 3, 3),
    ("contains", 2, 2),
    ("hasPrefix", 2, 2),
    ("hasSuffix", 2, 2),
    ("trimAll", 2, 2),
    ("trimPrefix", 2, 2),
    ("trimSuffix", 2, 2),
    ("trunc", 2, 2),
    ("abbrev", 2, 2),
    ("repeat", 2, 2),
    ("indent", 2, 2),
    ("nindent", 2, 2),
    ("replace", 3, 3),
    ("splitList", 2, 2),
    ("split", 2, 2),
    ("splitn", 3, 3),
    ("join", 2, 2),
    ("cat", 1, 3),
    ("list", 0, 3),
    ("dict", 0, 4),
    ("get", 2, 2),
    ("set", 3, 3),
    ("hasKey", 2, 2),
    ("unset", 2, 2),
    ("pick", 2, 3),
    ("omit", 2, 3),
    ("pluck", 2, 3),
    ("dig", 3, 3),
    ("merge", 2, 2),
    ("mergeOverwrite", 2, 2),
    ("index", 1, 3),
    ("slice", 1, 3),
    ("append", 2, 2),
    ("prepend", 2, 2),
    ("concat", 1, 2),
    ("has", 2, 2),
    ("without", 2, 3),
    ("chunk", 2, 2),
    ("regexMatch", 2, 2),
    ("regexFind", 2, 2),
    ("regexReplaceAll", 3, 3),
    ("regexSplit", 3, 3),
    ("semverCompare", 2, 2),
    ("semver", 1, 1),
    ("kindIs", 2, 2),
    ("typeIs", 2, 2),
    ("deepEqual", 2, 2),
    ("required", 2, 2),
    ("fail", 1, 1),
    ("printf", 1, 3),
    ("tpl", 2, 2),
    ("toStrings", 1, 1),
    ("seq", 1, 3),
    ("untilStep", 3, 3),
    ("substr", 3, 3),
    ("wrap", 2, 2),
    ("atoi", 1, 1),
    ("dateInZone", 3, 3),
    ("lookup", 4, 4),
    ("durationRound", 1, 1),
    ("all", 1, 2),
    ("any", 1, 2),
    ("plural", 3, 3),
    ("regexQuoteMeta", 1, 1),
    ("adler32sum", 1, 1),
    ("toDecimal", 1, 1),
    ("biggest", 1, 2),
    ("maxf", 1, 2),
];
const FORMATS: &[&str] = &[
    "%s", "%d", "%v", "%q", "%5.2f", "%-4s|", "%T", "%t", "%x", "%+v", "%#v", "%05d", "%g", "%%", "%c",
    "%s-%s", "%e",
];

struct Writer<'c> {
    chance: &'c mut Chance,
    variables: Vec<String>,
}

impl Writer<'_> {
    fn text(&mut self) -> String {
        let text = self.chance.pick(TEXTS);
        if self.chance.once_in(6) && !text.contains('\\') {
            format!("`{text}`")
        } else {
            format!("\"{text}\"")
        }
    }

    /// An operand.
    fn operand(&mut self, depth: usize) -> String {
        match self.chance.below(if depth > 2 { 8 } else { 12 }) {
            0 | 1 => self.text(),
            2 | 3 => self.chance.pick(NUMBERS).to_owned(),
            4..=6 => self.chance.pick(PATHS).to_owned(),
            7 => match self.variables.len() {
                0 => self.chance.pick(&["true", "false", "nil"]).to_owned(),
                count => self.variables[self.chance.below(count)].clone(),
            },
            8 => {
                let inner = self.pipeline(depth + 1);
                format!("({inner}).{}", self.chance.pick(&["a", "b", "Name", "x"]))
            }
            _ => format!("({})", self.pipeline(depth + 1)),
        }
    }

    fn call(&mut self, depth: usize, piped: bool) -> String {
        let (name, fewest, most) = FUNCTIONS[self.chance.below(FUNCTIONS.len())];
        let mut count = fewest + self.chance.below(most - fewest + 1);
        // Now and then one argument too many or too few.
        if self.chance.once_in(40) {
            count += 1;
        }
        count = count.saturating_sub(usize::from(piped));
        let mut out = name.to_owned();
        for at in 0..count {
            let operand = match (name, at) {
                ("printf", 0) => format!("\"{}\"", self.chance.pick(FORMATS)),
                ("tpl", 0) => self
                    .chance
                    .pick(&["\"{{ .Values.s }}\"", "`{{ .Values.m | toYaml }}`", "\"{{ .x }}\"", "\"plain\""])
                    .to_owned(),
                ("regexMatch" | "regexFind" | "regexReplaceAll" | "regexSplit", 0) => self
                    .chance
                    .pick(&[
                        "`[a-z]+`",
                        "`^a.*$`",
                        "`\\d+`",
                        "`(a)(b)?`",
                        "`\\s`",
                        "``",
                        "`[^A-Za-z0-9]`",
                        "`é`",
                    ])
                    .to_owned(),
                ("repeat" | "until" | "trunc" | "indent" | "nindent" | "wrap", 0) => {
                    self.chance.pick(&["0", "1", "2", "4", "-1", "7"]).to_owned()
                }
                ("semverCompare", 0) => {
                    self.chance.pick(&["\">=1.2\"", "\"^1.2.3\"", "\"~1\"", "\"<2-0\""]).to_owned()
                }
                ("seq" | "untilStep", _) => self.chance.pick(&["0", "1", "3", "-2", "9"]).to_owned(),
                ("get" | "set" | "hasKey" | "unset" | "pick" | "omit" | "toToml", 0)
                    if !self.chance.once_in(8) =>
                {
                    self.chance
                        .pick(&[".Values.m", ".Values.d", "(dict \"a\" 1 \"b\" (list))", ".Values.e"])
                        .to_owned()
                }
                ("merge" | "mergeOverwrite", _) if !self.chance.once_in(8) => self
                    .chance
                    .pick(&[
                        "(deepCopy .Values.m)",
                        "(deepCopy .Values.d)",
                        "(dict \"a\" 2 \"c\" (dict \"d\" 9))",
                        "(dict)",
                    ])
                    .to_owned(),
                ("dict", at) if at % 2 == 0 => self.text(),
                _ => self.operand(depth + 1),
            };
            out.push(' ');
            out.push_str(&operand);
        }
        out
    }

    fn pipeline(&mut self, depth: usize) -> String {
        let mut out = if self.chance.once_in(3) { self.operand(depth) } else { self.call(depth, false) };
        while self.chance.once_in(3) {
            let next = self.call(depth + 1, true);
            out = format!("{out} | {next}");
        }
        out
    }

    fn open(&mut self) -> &'static str {
        if self.chance.once_in(4) { "{{- " } else { "{{ " }
    }

    fn close(&mut self) -> &'static str {
        if self.chance.once_in(4) { " -}}" } else { " }}" }
    }

    fn action(&mut self, body: &str) -> String {
        format!("{}{body}{}", self.open(), self.close())
    }

    fn block(&mut self, depth: usize) -> String {
        let known = self.variables.len();
        let mut out = String::new();
        for _ in 0..=self.chance.below(3) {
            out.push_str(&self.piece(depth));
        }
        self.variables.truncate(known);
        out
    }

    fn piece(&mut self, depth: usize) -> String {
        if depth > 3 {
            let pipeline = self.pipeline(1);
            return self.action(&pipeline);
        }
        match self.chance.below(14) {
            0 | 1 => self.chance.pick(&["text\n", "  k: v\n", "\n\n", " ", "# c\n", "<no value>"]).to_owned(),
            2 => {
                let condition = self.pipeline(1);
                let mut out = self.action(&format!("if {condition}")) + &self.block(depth + 1);
                if self.chance.once_in(3) {
                    let other = self.pipeline(1);
                    out += &(self.action(&format!("else if {other}")) + &self.block(depth + 1));
                }
                if self.chance.once_in(2) {
                    out += &(self.action("else") + &self.block(depth + 1));
                }
                out + &self.action("end")
            }
            3 => {
                let value = self.pipeline(1);
                let mut out = self.action(&format!("with {value}")) + &self.block(depth + 1);
                if self.chance.once_in(2) {
                    out += &(self.action("else") + &self.block(depth + 1));
                }
                out + &self.action("end")
            }
            4 | 5 => {
                let over = match self.chance.below(5) {
                    0 => self.pipeline(1),
                    1 => ".Values.m".to_owned(),
                    2 => "3".to_owned(),
                    _ => self
                        .chance
                        .pick(&[".Values.l", ".Values.lm", "(until 2)", ".Values.e", ".Values.n"])
                        .to_owned(),
                };
                let known = self.variables.len();
                let declared = match self.chance.below(3) {
                    0 => String::new(),
                    1 => "$v := ".to_owned(),
                    _ => "$k, $v := ".to_owned(),
                };
                for name in ["$k", "$v"] {
                    if declared.contains(name) {
                        self.variables.push(name.to_owned());
                    }
                }
                let mut out = self.action(&format!("range {declared}{over}")) + &self.block(depth + 1);
                if self.chance.once_in(5) {
                    let word = self.chance.pick(&["break", "continue"]);
                    out += &self.action(word);
                }
                self.variables.truncate(known);
                if self.chance.once_in(4) {
                    out += &(self.action("else") + &self.block(depth + 1));
                }
                out + &self.action("end")
            }
            6 => {
                let name = format!("$x{}", self.variables.len());
                let value = self.pipeline(1);
                let out = self.action(&format!("{name} := {value}"));
                self.variables.push(name);
                out
            }
            7 if !self.variables.is_empty() => {
                let name = self.variables[self.chance.below(self.variables.len())].clone();
                let value = self.pipeline(1);
                self.action(&format!("{name} = {value}"))
            }
            8 => {
                let value = self.operand(1);
                let name = self.chance.pick(&["one", "two"]);
                if self.chance.once_in(3) {
                    self.action(&format!("template \"{name}\" {value}"))
                } else {
                    let then = self.chance.pick(&["quote", "nindent 2", "trim", "toString"]);
                    self.action(&format!("include \"{name}\" {value} | {then}"))
                }
            }
            9 => self.chance.pick(&["{{/* comment */}}", "{{- /* comment */ -}}"]).to_owned(),
            _ => {
                let pipeline = self.pipeline(0);
                self.action(&pipeline)
            }
        }
    }
}

/// A chart with one file of text; its output is written as JSON, so that any bytes are a document.
pub(super) fn chart(chance: &mut Chance) -> Vec<(String, String)> {
    let mut writer = Writer { chance, variables: Vec::new() };
    let mut body = String::new();
    for _ in 0..=writer.chance.below(4) {
        body.push_str(&writer.piece(0));
    }
    writer.variables.clear();
    let one = writer.pipeline(1);
    let helpers = format!(
        "{{{{- define \"one\" }}}}1:{{{{ {one} }}}}{{{{ end -}}}}\n{{{{- define \"two\" -}}}}\n2 {{{{ toJson . }}}}\n{{{{- end }}}}\n"
    );
    let files = [
        ("Chart.yaml", "apiVersion: v2\nname: chance\nversion: 1.2.3\nappVersion: \"4.5\"\n".to_owned()),
        (
            "values.yaml",
            "s: hello\ni: 5\nf: 1.5\nb: false\nt: true\nn: null\nbig: 12345678901234567890\nl: [c, a, b]\n\
             lm: [1, \"a\", null, 1.5, {a: 1}, [x]]\nm: {a: 1, b: two, c: {d: e, f: [1, 2]}}\ne: []\nd: {}\n"
                .to_owned(),
        ),
        (
            "user.yaml",
            writer
                .chance
                .pick(&["", "s: \"a: b\"\n", "i: 7\nm: {a: null, z: 1e21}\n", "l: [1, 2]\nn: {x: 1}\n"])
                .to_owned(),
        ),
        ("templates/_helpers.tpl", format!("{helpers}{{{{- define \"body\" }}}}{body}{{{{ end }}}}")),
        ("templates/out.yaml", "out: {{ include \"body\" . | toJson }}\n".to_owned()),
    ];
    files.into_iter().map(|(path, content)| (path.to_owned(), content)).collect()
}
