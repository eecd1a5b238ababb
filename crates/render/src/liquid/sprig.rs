//! Sprig's functions as filters: what stands before the bar is the first argument.
//!
//! Where Liquid has a filter of the same name that does the same and more, Liquid's is used; `default`, `slice`,
//! `ternary`, `indent` and `nindent` are those of the original: the value first.

use std::{fmt, sync::Arc};

use liquid_core::{
    Error, Expression, Filter, FilterReflection, ParseFilter, Result, Runtime, Value, ValueView,
    model::{Object, Scalar},
    parser::{FilterArguments, ParameterReflection},
};
use parking_lot::Mutex;
use plural_gotemplate::{
    dates,
    exec::{Engine, Fault, Limits},
    format,
    funcs::{self, Action, Func, Ty, WARN_END, WARN_START},
    objects::{CERTIFICATE, Struct, Time},
    random::Random,
    value::{List, Map, Value as Go},
};

use super::{
    budget::{MAX_VALUE_BYTES, pay_bytes},
    newer,
};

/// What one call may use; the template's own budget counts the steps too.
const LIMITS: Limits = Limits { fuel: 20_000_000, bytes: 96 << 20 };
/// Lists and maps inside each other.
const MAX_DEPTH: usize = 64;

/// Functions that are filters under their own names.
const NAMES: &[&str] = &[
    "abbrev",
    "abbrevboth",
    "add",
    "add1",
    "add1f",
    "addf",
    "adler32sum",
    "ago",
    "all",
    "any",
    "atoi",
    "b32dec",
    "b32enc",
    "b64dec",
    "b64enc",
    "base",
    "bcrypt",
    "biggest",
    "buildCustomCert",
    "camelcase",
    "cat",
    "chunk",
    "clean",
    "coalesce",
    "contains",
    "dateInZone",
    "dateModify",
    "decryptAES",
    "deepCopy",
    "deepEqual",
    "derivePassword",
    "dict",
    "dig",
    "dir",
    "div",
    "divf",
    "duration",
    "durationRound",
    "empty",
    "encryptAES",
    "ext",
    "fail",
    "float64",
    "fromJson",
    "genCA",
    "genCAWithKey",
    "genPrivateKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
    "get",
    "has",
    "hasKey",
    "hasPrefix",
    "hasSuffix",
    "htmlDate",
    "htmlDateInZone",
    "htpasswd",
    "initial",
    "initials",
    "int",
    "int64",
    "isAbs",
    "kebabcase",
    "keys",
    "kindIs",
    "kindOf",
    "list",
    "lower",
    "max",
    "maxf",
    "merge",
    "mergeOverwrite",
    "min",
    "minf",
    "mod",
    "mul",
    "mulf",
    "mustAppend",
    "mustChunk",
    "mustCompact",
    "mustDateModify",
    "mustDeepCopy",
    "mustFirst",
    "mustFromJson",
    "mustHas",
    "mustInitial",
    "mustLast",
    "mustMerge",
    "mustMergeOverwrite",
    "mustPrepend",
    "mustPush",
    "mustRegexFind",
    "mustRegexFindAll",
    "mustRegexMatch",
    "mustRegexReplaceAll",
    "mustRegexReplaceAllLiteral",
    "mustRegexSplit",
    "mustRest",
    "mustReverse",
    "mustSlice",
    "mustToDate",
    "mustToJson",
    "mustToPrettyJson",
    "mustToRawJson",
    "mustUniq",
    "mustWithout",
    "nospace",
    "omit",
    "osBase",
    "osClean",
    "osDir",
    "osExt",
    "osIsAbs",
    "pick",
    "pluck",
    "plural",
    "push",
    "quote",
    "randAlpha",
    "randAlphaNum",
    "randAscii",
    "randBytes",
    "randInt",
    "randNumeric",
    "regexFind",
    "regexFindAll",
    "regexMatch",
    "regexQuoteMeta",
    "regexReplaceAll",
    "regexReplaceAllLiteral",
    "regexSplit",
    "repeat",
    "rest",
    "semver",
    "semverCompare",
    "seq",
    "set",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "shuffle",
    "snakecase",
    "sortAlpha",
    "splitList",
    "splitn",
    "squote",
    "sub",
    "subf",
    "substr",
    "swapcase",
    "title",
    "toDate",
    "toDecimal",
    "toJson",
    "toPrettyJson",
    "toRawJson",
    "toString",
    "toStrings",
    "trim",
    "trimAll",
    "trimPrefix",
    "trimSuffix",
    "trimall",
    "trunc",
    "tuple",
    "typeIs",
    "typeIsLike",
    "typeOf",
    "unixEpoch",
    "unset",
    "until",
    "untilStep",
    "untitle",
    "upper",
    "urlJoin",
    "urlParse",
    "values",
    "without",
    "wrap",
    "wrapWith",
];

/// Other names of functions; the one without a 5 is a slip of the original that templates rely on.
const ALIASES: &[(&str, &str)] = &[
    ("date_in_zone", "dateInZone"),
    ("date_modify", "dateModify"),
    ("from_json", "fromJson"),
    ("must_date_modify", "mustDateModify"),
    ("semver_compare", "semverCompare"),
    ("sha26sum", "sha256sum"),
    ("to_json", "toJson"),
];

/// Functions whose arguments of any type may be points in time.
const DATES: &[&str] = &["ago", "date", "dateInZone", "htmlDate", "htmlDateInZone"];

/// What filters of the original would read from the machine that renders.
const REFUSED: &[(&str, &str)] =
    &[("env", "the environment"), ("expandenv", "the environment"), ("getHostByName", "the network")];

/// Where chance comes from while one template runs.
pub(super) type Chance = Arc<Mutex<Random>>;

/// All filters that are functions.
pub(super) fn filters(clock_ms: i64, chance: &Chance) -> Vec<Box<dyn ParseFilter>> {
    let own = NAMES.iter().map(|name| (*name, *name));
    let functions = own.chain(ALIASES.iter().copied()).filter_map(|(name, function)| {
        let run = Run::Function(funcs::lookup(function)?);
        Some(boxed(name, run, clock_ms, chance))
    });
    let values: [(&'static str, Plain); 5] = [
        ("default", |args| Ok(default(args))),
        ("indent", indent),
        ("nindent", |args| Ok(Go::from(format!("\n{}", text(&indent(args)?))))),
        ("slice", slice),
        ("ternary", |args| Ok(arg(args, if arg(args, 0).truth() { 1 } else { 2 }))),
    ];
    let values = values
        .into_iter()
        .chain(newer::FILTERS)
        .map(|(name, run)| boxed(name, Run::Value(run), clock_ms, chance));
    let refused = REFUSED.iter().map(|(name, what)| boxed(name, Run::Refused(what), clock_ms, chance));
    functions.chain(values).chain(refused).collect()
}

/// Sprig's `date`, whose layout stands before the bar.
pub(super) fn go_date(
    layout: &dyn ValueView,
    date: &dyn ValueView,
    clock_ms: i64,
    chance: &Chance,
    runtime: &dyn Runtime,
) -> Result<Value> {
    let Some(function) = funcs::lookup("date") else { return Ok(Value::Nil) };
    let args = vec![from_liquid(layout, 0)?, from_liquid(date, 0)?];
    call(function, args, clock_ms, chance, runtime)
}

fn boxed(name: &'static str, run: Run, clock_ms: i64, chance: &Chance) -> Box<dyn ParseFilter> {
    Box::new(Sprig { name, run, clock_ms, chance: Arc::clone(chance) })
}

pub(super) type Plain = fn(&[Go]) -> Result<Go>;

#[derive(Clone, Copy)]
enum Run {
    Function(&'static Func),
    /// Depends on its values alone.
    Value(Plain),
    /// What it would read.
    Refused(&'static str),
}

#[derive(Clone)]
struct Sprig {
    name: &'static str,
    run: Run,
    clock_ms: i64,
    chance: Chance,
}

impl ParseFilter for Sprig {
    fn parse(&self, arguments: FilterArguments<'_>) -> Result<Box<dyn Filter>> {
        let FilterArguments { positional, mut keyword } = arguments;
        if let Run::Refused(what) = self.run {
            return Err(Error::with_msg(format!(
                "the filter {} is refused: templates have no access to {what}; put the value into the service's \
                 configuration",
                self.name
            )));
        }
        if let Some((name, _)) = keyword.next() {
            return Err(Error::with_msg(format!("the filter {} has no argument named {name}", self.name)));
        }
        Ok(Box::new(Call { filter: self.clone(), args: positional.collect() }))
    }

    fn reflection(&self) -> &dyn FilterReflection {
        self
    }
}

impl FilterReflection for Sprig {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &'static str {
        "a function of Sprig"
    }

    fn positional_parameters(&self) -> &'static [ParameterReflection] {
        &[]
    }

    fn keyword_parameters(&self) -> &'static [ParameterReflection] {
        &[]
    }
}

struct Call {
    filter: Sprig,
    args: Vec<Expression>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.filter.name)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.filter.name)
    }
}

impl Filter for Call {
    fn evaluate(&self, input: &dyn ValueView, runtime: &dyn Runtime) -> Result<Value> {
        let mut args = vec![from_liquid(input, 0)?];
        for expression in &self.args {
            let value = expression.evaluate(runtime)?;
            pay_bytes(runtime, super::filters::size(value.as_view())?)?;
            args.push(from_liquid(value.as_view(), 0)?);
        }
        let Sprig { name, run, clock_ms, chance } = &self.filter;
        let done = match run {
            Run::Function(function) => call(function, args, *clock_ms, chance, runtime),
            Run::Value(run) => run(&args).and_then(|value| to_liquid(&value, 0)),
            Run::Refused(_) => Ok(Value::Nil),
        };
        done.map_err(|error| {
            let text = error.to_string();
            let reason = text.lines().next().unwrap_or_default().trim_start_matches("liquid: ");
            Error::with_msg(format!("the filter {name}: {reason}"))
        })
    }
}

fn call(
    function: &'static Func,
    args: Vec<Go>,
    clock_ms: i64,
    chance: &Chance,
    runtime: &dyn Runtime,
) -> Result<Value> {
    let mut args = typed(function, args)?;
    let mut random = chance.lock();
    let mut engine = Engine::new(random.clone(), clock_ms, None, LIMITS);
    let done = match function.action {
        Action::Pure(run) => run(&mut args),
        Action::Engine(run) => run(&mut engine, &mut args),
        Action::Either(_) | Action::Call => Err("it is no filter".into()),
    };
    *random = engine.random.clone();
    drop(random);
    pay_bytes(runtime, usize::try_from(engine.spent()).unwrap_or(usize::MAX))?;
    match done {
        Ok(value) => to_liquid(&value, 0),
        Err(Fault::Text(text) | Fault::Exec(text) | Fault::Limit(text)) => {
            Err(Error::with_msg(text.replace(WARN_START, "").replace(WARN_END, "")))
        }
    }
}

/// The arguments with the types that the function asks for; those that are left out are empty, as in the original.
fn typed(function: &Func, args: Vec<Go>) -> Result<Vec<Go>> {
    let fixed = function.params.len();
    if args.len() > fixed && function.variadic.is_none() {
        return Err(Error::with_msg(format!("{} arguments are too many: it takes {fixed}", args.len())));
    }
    let missing = function.params.iter().skip(args.len()).map(|ty| zero(*ty));
    let mut all = Vec::with_capacity(fixed.max(args.len()));
    for (at, value) in args.into_iter().enumerate() {
        let ty = function.params.get(at).copied().or(function.variadic).unwrap_or(Ty::Any);
        let ty = if DATES.contains(&function.name) && ty == Ty::Any { Ty::Time } else { ty };
        all.push(convert(value, ty)?);
    }
    all.extend(missing);
    Ok(all)
}

fn zero(ty: Ty) -> Go {
    match ty {
        Ty::Str => Go::from(""),
        Ty::Int => Go::Int(0),
        Ty::Float => Go::Float(0.0),
        Ty::Bool => Go::Bool(false),
        Ty::Map => Go::Map(Map::new()),
        Ty::List => Go::List(List::new(Vec::new())),
        Ty::Time => Go::time(Time::zero()),
        Ty::Any | Ty::Reflect | Ty::Certificate | Ty::Version => Go::Nil,
    }
}

fn convert(value: Go, ty: Ty) -> Result<Go> {
    let wrong = || {
        Err(Error::with_msg(format!(
            "a value of type {} is expected, this one is {}",
            ty.name(),
            value.kind()
        )))
    };
    match (ty, &value) {
        (Ty::Str, Go::Nil) => Ok(Go::from("")),
        (Ty::Str, Go::Bool(_) | Go::Int(_) | Go::Int64(_) | Go::Float(_)) => Ok(Go::from(text(&value))),
        (Ty::Int, Go::Float(number)) => Ok(Go::Int(*number as i64)),
        (Ty::Int, Go::Str(text)) => match text.trim().parse() {
            Ok(number) => Ok(Go::Int(number)),
            Err(_) => wrong(),
        },
        (Ty::Float, Go::Int(number)) => Ok(Go::Float(*number as f64)),
        (Ty::Float, Go::Str(text)) => match text.trim().parse() {
            Ok(number) => Ok(Go::Float(number)),
            Err(_) => wrong(),
        },
        (Ty::Bool, _) => Ok(Go::Bool(value.truth())),
        (Ty::Time, Go::Str(text)) => Ok(time(text).map_or(value.clone(), Go::time)),
        (Ty::Time, _) => Ok(value),
        (Ty::Certificate, Go::Map(map)) => match (map.get("Cert"), map.get("Key")) {
            (Some(cert), Some(key)) => {
                Ok(Go::Struct(std::rc::Rc::new(Struct::new(&CERTIFICATE, vec![cert, key]))))
            }
            _ => wrong(),
        },
        _ if ty.takes(&value) || (value.is_nil() && ty.nilable()) => Ok(value),
        _ => wrong(),
    }
}

/// How points in time are written in Liquid.
const TIME_LAYOUT: &str = "2006-01-02 15:04:05 -0700";

fn time(text: &str) -> Option<Time> {
    [TIME_LAYOUT, "2006-01-02T15:04:05Z07:00", "2006-01-02"]
        .iter()
        .find_map(|layout| dates::parse(layout, text).ok())
}

fn default(args: &[Go]) -> Go {
    let value = arg(args, 0);
    if value.truth() { value } else { arg(args, 1) }
}

fn indent(args: &[Go]) -> Result<Go> {
    let value = text(&arg(args, 0));
    let spaces = match convert(arg(args, 1), Ty::Int) {
        Ok(Go::Int(spaces)) => usize::try_from(spaces).unwrap_or(0),
        _ => 0,
    };
    let lines = value.matches('\n').count() + 1;
    if lines.saturating_mul(spaces) > MAX_VALUE_BYTES {
        return Err(Error::with_msg("a value of the template would grow larger than 4 MiB"));
    }
    let pad = " ".repeat(spaces);
    Ok(Go::from(format!("{pad}{}", value.replace('\n', &format!("\n{pad}")))))
}

/// From the first index up to, and without, the second.
fn slice(args: &[Go]) -> Result<Go> {
    let value = arg(args, 0);
    let length = match &value {
        Go::List(list) => list.len(),
        Go::Str(text) => text.len(),
        other => return Err(Error::with_msg(format!("a {} cannot be sliced", other.kind()))),
    };
    let index = |at: usize, otherwise: usize| match args.get(at) {
        None => Ok(otherwise),
        Some(given) => match convert(given.clone(), Ty::Int)? {
            Go::Int(index) => Ok(usize::try_from(index).unwrap_or(0).min(length)),
            _ => Ok(otherwise),
        },
    };
    let end = index(2, length)?;
    let start = index(1, 0)?.min(end);
    Ok(match &value {
        Go::List(list) => Go::List(List::new(list.items().get(start..end).unwrap_or_default().to_vec())),
        Go::Str(text) => {
            let bytes = text.as_bytes().get(start..end).unwrap_or_default();
            Go::from(String::from_utf8_lossy(bytes).into_owned())
        }
        _ => Go::Nil,
    })
}

pub(super) fn arg(args: &[Go], at: usize) -> Go {
    args.get(at).cloned().unwrap_or_default()
}

pub(super) fn text(value: &Go) -> String {
    match value {
        Go::Nil | Go::NilField => String::new(),
        other => format::display(other),
    }
}

fn too_deep() -> Error {
    Error::with_msg(format!("lists and maps inside each other nest deeper than {MAX_DEPTH}"))
}

fn from_liquid(value: &dyn ValueView, depth: usize) -> Result<Go> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    if let Some(scalar) = value.as_scalar() {
        return Ok(match (value.type_name(), scalar.to_integer(), scalar.to_float(), scalar.to_bool()) {
            ("whole number", Some(number), ..) => Go::Int(number),
            ("fractional number", _, Some(number), _) => Go::Float(number),
            ("boolean", _, _, Some(value)) => Go::Bool(value),
            _ => Go::from(scalar.into_string().as_str()),
        });
    }
    if let Some(array) = value.as_array() {
        let items = array.values().map(|item| from_liquid(item, depth + 1)).collect::<Result<_>>()?;
        return Ok(Go::List(List::new(items)));
    }
    if let Some(object) = value.as_object() {
        let entries = object
            .iter()
            .map(|(key, item)| Ok((key.as_str().into(), from_liquid(item, depth + 1)?)))
            .collect::<Result<_>>()?;
        return Ok(Go::Map(Map::of(entries)));
    }
    Ok(Go::Nil)
}

fn to_liquid(value: &Go, depth: usize) -> Result<Value> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let object = |entries: Vec<(&str, &Go)>| {
        let mut object = Object::new();
        for (key, item) in entries {
            object.insert(key.to_owned().into(), to_liquid(item, depth + 1)?);
        }
        Ok(Value::Object(object))
    };
    Ok(match value {
        Go::Nil | Go::NilField => Value::Nil,
        Go::Bool(value) => Value::scalar(*value),
        Go::Int(number) | Go::Int64(number) => Value::scalar(*number),
        Go::Uint64(number) => i64::try_from(*number).map_or(Value::scalar(*number as f64), Value::scalar),
        // Go prints a whole float without a fraction.
        Go::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => Value::scalar(*number as i64),
        Go::Float(number) => Value::scalar(*number),
        Go::Time(time) => Value::scalar(dates::format(time, TIME_LAYOUT)),
        Go::List(list) => {
            let items = list.items().iter().map(|item| to_liquid(item, depth + 1)).collect::<Result<_>>()?;
            Value::Array(items)
        }
        Go::Map(map) => {
            let entries = map.entries();
            object(entries.iter().map(|(key, item)| (&**key, item)).collect())?
        }
        Go::Struct(found) => {
            object(found.ty.fields.iter().map(|field| field.name).zip(found.fields()).collect())?
        }
        Go::Version(version) => {
            let mut object = Object::new();
            let number = |part: u64| Scalar::new(i64::try_from(part).unwrap_or(i64::MAX));
            for (name, part) in [
                ("Major", number(version.major)),
                ("Minor", number(version.minor)),
                ("Patch", number(version.patch)),
                ("Prerelease", Scalar::new(version.pre.clone())),
                ("Metadata", Scalar::new(version.metadata.clone())),
                ("Original", Scalar::new(version.original.clone())),
            ] {
                object.insert(name.into(), Value::Scalar(part));
            }
            Value::Object(object)
        }
        other => Value::scalar(format::display(other)),
    })
}
