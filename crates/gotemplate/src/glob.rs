//! Patterns of file names: those of `.Files.Glob`, and those of `.helmignore` and `--show-only`.

/// A pattern of `.Files.Glob`: `*` stays inside a folder, `**` does not; `{a,b}`, `[a-z]`, `?`.
#[derive(Debug, Clone)]
pub(crate) struct Glob {
    /// Each alternative of the braces, spelled out.
    alternatives: Vec<Vec<Part>>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Char(char),
    /// Any character but a slash.
    One,
    /// Any characters but slashes.
    Some,
    Any,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// Most alternatives that braces may spell out.
const MAX_ALTERNATIVES: usize = 1000;

impl Glob {
    /// A pattern; one that cannot be read matches everything.
    pub(crate) fn new(pattern: &str) -> Self {
        Self::parse(pattern).unwrap_or_else(|| Self { alternatives: vec![vec![Part::Any]] })
    }

    fn parse(pattern: &str) -> Option<Self> {
        let chars: Vec<char> = pattern.chars().collect();
        let mut at = 0;
        let alternatives = sequence(&chars, &mut at, 0)?;
        (at == chars.len()).then_some(Self { alternatives })
    }

    /// Whether a path matches.
    pub(crate) fn matches(&self, path: &str) -> bool {
        let path: Vec<char> = path.chars().collect();
        self.alternatives.iter().any(|parts| matches(parts, &path))
    }
}

fn sequence(chars: &[char], at: &mut usize, depth: usize) -> Option<Vec<Vec<Part>>> {
    let mut all: Vec<Vec<Part>> = vec![Vec::new()];
    let add =
        |all: &mut Vec<Vec<Part>>, part: Part| all.iter_mut().for_each(|parts| parts.push(part.clone()));
    while let Some(&c) = chars.get(*at) {
        *at += 1;
        match c {
            '\\' => {
                let escaped = *chars.get(*at)?;
                *at += 1;
                add(&mut all, Part::Char(escaped));
            }
            '?' => add(&mut all, Part::One),
            '*' if chars.get(*at) == Some(&'*') => {
                while chars.get(*at) == Some(&'*') {
                    *at += 1;
                }
                add(&mut all, Part::Any);
            }
            '*' => add(&mut all, Part::Some),
            '[' => {
                let class = class(chars, at)?;
                add(&mut all, class);
            }
            '{' => {
                if depth > 20 {
                    return None;
                }
                let mut choices = Vec::new();
                loop {
                    choices.extend(sequence(chars, at, depth + 1)?);
                    let closed = *chars.get(*at)? != ',';
                    *at += 1;
                    if closed {
                        break;
                    }
                }
                if all.len() * choices.len() > MAX_ALTERNATIVES {
                    return None;
                }
                all = all
                    .iter()
                    .flat_map(|head| choices.iter().map(move |tail| [head.as_slice(), tail].concat()))
                    .collect();
            }
            ',' | '}' if depth > 0 => {
                *at -= 1;
                return Some(all);
            }
            '}' => return None,
            c => add(&mut all, Part::Char(c)),
        }
    }
    (depth == 0).then_some(all)
}

fn class(chars: &[char], at: &mut usize) -> Option<Part> {
    let negated = matches!(chars.get(*at), Some('!' | '^'));
    *at += usize::from(negated);
    let mut ranges = Vec::new();
    loop {
        let mut low = *chars.get(*at)?;
        *at += 1;
        if low == ']' && !ranges.is_empty() {
            return Some(Part::Class { negated, ranges });
        }
        if low == '\\' {
            low = *chars.get(*at)?;
            *at += 1;
        }
        let mut high = low;
        if chars.get(*at) == Some(&'-') && chars.get(*at + 1).is_some_and(|c| *c != ']') {
            high = chars[*at + 1];
            *at += 2;
            if high == '\\' {
                high = *chars.get(*at)?;
                *at += 1;
            }
        }
        ranges.push((low, high));
    }
}

/// Whether parts match the whole path. Each part is looked at once for each place in the path.
fn matches(parts: &[Part], path: &[char]) -> bool {
    // Places in the path up to which the parts so far match.
    let mut open = vec![false; path.len() + 1];
    open[0] = true;
    for part in parts {
        let mut next = vec![false; path.len() + 1];
        match part {
            Part::Any | Part::Some => {
                let mut reached = false;
                for at in 0..=path.len() {
                    reached |= open[at];
                    next[at] = reached;
                    if *part == Part::Some && path.get(at) == Some(&'/') {
                        reached = false;
                    }
                }
            }
            one => {
                for at in 0..path.len() {
                    next[at + 1] = open[at] && one.takes(path[at]);
                }
            }
        }
        open = next;
    }
    open[path.len()]
}

impl Part {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Char(wanted) => *wanted == c,
            Self::One => c != '/',
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
            Self::Some | Self::Any => false,
        }
    }
}

/// Go's `filepath.Match`; None when the pattern cannot be read.
pub fn path_match(pattern: &str, path: &str) -> Option<bool> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        at += 1;
        parts.push(match c {
            '*' => Part::Some,
            '?' => Part::One,
            '\\' => {
                let escaped = *chars.get(at)?;
                at += 1;
                Part::Char(escaped)
            }
            '[' => match class(&chars, &mut at)? {
                // A slash matches no class.
                Part::Class { negated: true, mut ranges } => {
                    ranges.push(('/', '/'));
                    Part::Class { negated: true, ranges }
                }
                class => class,
            },
            c => Part::Char(c),
        });
    }
    Some(matches(&parts, &path.chars().collect::<Vec<_>>()))
}
