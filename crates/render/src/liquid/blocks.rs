//! Tags and blocks: the standard ones that cannot grow, and our own `for` and `capture`.

use std::{collections::HashMap, io::Write};

use liquid::{ParserBuilder, partials};
use liquid_core::{
    BlockReflection, Error, Expression, Language, ParseBlock, Renderable, Result, Runtime, TagBlock,
    TagTokenIter, Template, Value, ValueView,
    model::{KString, KStringRef, Object},
    parser::{BlockElement, TryMatchToken},
    runtime::{Interrupt, InterruptRegister, StackFrame},
};
use liquid_lib::stdlib;

use super::budget::{MAX_VALUE_BYTES, Output, can_pass, pay_bytes, pay_pass};

type Builder = ParserBuilder<partials::EagerCompiler<partials::InMemorySource>>;

/// Adds what templates may use. There is no `include` and no `render`: a manifest stands alone.
pub(super) fn register(builder: Builder) -> Builder {
    builder
        .tag(stdlib::AssignTag)
        .tag(stdlib::BreakTag)
        .tag(stdlib::ContinueTag)
        .tag(stdlib::CycleTag)
        .tag(stdlib::IncrementTag)
        .tag(stdlib::DecrementTag)
        .block(stdlib::RawBlock)
        .block(stdlib::IfBlock)
        .block(stdlib::UnlessBlock)
        .block(stdlib::CommentBlock)
        .block(stdlib::CaseBlock)
        .block(ForBlock)
        .block(CaptureBlock)
}

#[derive(Copy, Clone)]
struct ForBlock;

impl BlockReflection for ForBlock {
    fn start_tag(&self) -> &'static str {
        "for"
    }
    fn end_tag(&self) -> &'static str {
        "endfor"
    }
    fn description(&self) -> &'static str {
        "repeats its content for each value of an array or range"
    }
}

impl ParseBlock for ForBlock {
    fn parse(
        &self,
        mut arguments: TagTokenIter<'_>,
        mut tokens: TagBlock<'_, '_>,
        options: &Language,
    ) -> Result<Box<dyn Renderable>> {
        let variable = arguments.expect_next("a variable name is expected")?;
        let variable = KString::from_ref(variable.expect_identifier().into_result()?);
        let word = arguments.expect_next("\"in\" is expected")?;
        word.expect_str("in").into_result_custom_msg("\"in\" is expected")?;
        let over = arguments.expect_next("an array or range is expected")?;
        let over = match over.expect_value() {
            TryMatchToken::Matches(values) => Over::Values(values),
            TryMatchToken::Fails(token) => match token.expect_range() {
                TryMatchToken::Matches((first, last)) => Over::Range(first, last),
                TryMatchToken::Fails(token) => return Err(token.raise_error()),
            },
        };
        let (mut limit, mut offset, mut reversed) = (None, None, false);
        while let Some(token) = arguments.next() {
            match token.as_str() {
                "limit" => limit = Some(attribute(&mut arguments)?),
                "offset" => offset = Some(attribute(&mut arguments)?),
                "reversed" => reversed = true,
                _ => {
                    let expected = "\"limit\", \"offset\" or \"reversed\" is expected";
                    return Err(token.raise_custom_error(expected));
                }
            }
        }
        let (mut body, mut otherwise) = (Vec::new(), None);
        while let Some(element) = tokens.next()? {
            match element {
                BlockElement::Tag(mut tag) if tag.name() == "else" => {
                    tag.tokens().expect_nothing()?;
                    otherwise = Some(Template::new(tokens.parse_all(options)?));
                    break;
                }
                element => body.push(element.parse(&mut tokens, options)?),
            }
        }
        tokens.assert_empty();
        let body = Template::new(body);
        Ok(Box::new(For { variable, over, limit, offset, reversed, body, otherwise }))
    }

    fn reflection(&self) -> &dyn BlockReflection {
        self
    }
}

fn attribute(arguments: &mut TagTokenIter<'_>) -> Result<Expression> {
    let colon = arguments.expect_next("\":\" is expected")?;
    colon.expect_str(":").into_result_custom_msg("\":\" is expected")?;
    arguments.expect_next("a value is expected")?.expect_value().into_result()
}

#[derive(Debug)]
enum Over {
    Values(Expression),
    Range(Expression, Expression),
}

#[derive(Debug)]
struct For {
    variable: KString,
    over: Over,
    limit: Option<Expression>,
    offset: Option<Expression>,
    reversed: bool,
    body: Template,
    otherwise: Option<Template>,
}

impl For {
    fn values(&self, runtime: &dyn Runtime) -> Result<Vec<Value>> {
        match &self.over {
            Over::Range(first, last) => {
                let (first, last) = (whole(first, runtime)?, whole(last, runtime)?);
                let passes = last.saturating_sub(first).saturating_add(1).max(0);
                can_pass(runtime, passes as usize)?;
                Ok((first..=last).map(Value::scalar).collect())
            }
            Over::Values(expression) => {
                let value = expression.evaluate(runtime)?;
                if let Some(array) = value.as_array() {
                    can_pass(runtime, array.size() as usize)?;
                    Ok(array.values().map(ValueView::to_value).collect())
                } else if let Some(object) = value.as_object() {
                    let pair = |(key, value): (liquid_core::model::KStringCow<'_>, &dyn ValueView)| {
                        Value::Array(vec![Value::scalar(key.into_owned()), value.to_value()])
                    };
                    Ok(object.iter().map(pair).collect())
                } else if value.is_nil() {
                    Ok(Vec::new())
                } else {
                    Err(Error::with_msg("for needs an array, an object or a range")
                        .context("variable", expression.to_string()))
                }
            }
        }
    }
}

fn whole(expression: &Expression, runtime: &dyn Runtime) -> Result<i64> {
    let value = expression.evaluate(runtime)?;
    value.as_scalar().and_then(|scalar| scalar.to_integer()).ok_or_else(|| {
        Error::with_msg("a whole number is expected").context("variable", expression.to_string())
    })
}

impl Renderable for For {
    fn render_to(&self, writer: &mut dyn Write, runtime: &dyn Runtime) -> Result<()> {
        let values = self.values(runtime)?;
        let bound = |expression: &Option<Expression>| -> Result<Option<usize>> {
            let Some(expression) = expression else { return Ok(None) };
            Ok(Some(usize::try_from(whole(expression, runtime)?).unwrap_or(0)))
        };
        let offset = bound(&self.offset)?.unwrap_or(0);
        let limit = bound(&self.limit)?.unwrap_or(usize::MAX);
        let mut values: Vec<Value> = values.into_iter().skip(offset).take(limit).collect();
        if self.reversed {
            values.reverse();
        }
        if values.is_empty() {
            return match &self.otherwise {
                Some(otherwise) => otherwise.render_to(writer, runtime),
                None => Ok(()),
            };
        }
        let length = values.len() as i64;
        let parent = runtime
            .try_get(&[liquid_core::model::Scalar::new("forloop")])
            .map_or(Value::Nil, liquid_core::ValueCow::into_owned);
        for (index, value) in (0i64..).zip(&values) {
            pay_pass(runtime)?;
            let mut forloop = Object::new();
            for (name, number) in [
                ("length", length),
                ("index0", index),
                ("index", index + 1),
                ("rindex0", length - index - 1),
                ("rindex", length - index),
            ] {
                forloop.insert(name.into(), Value::scalar(number));
            }
            forloop.insert("first".into(), Value::scalar(index == 0));
            forloop.insert("last".into(), Value::scalar(index == length - 1));
            forloop.insert("parentloop".into(), parent.clone());
            let forloop = Value::Object(forloop);
            let mut scope: HashMap<KStringRef<'_>, &dyn ValueView> = HashMap::new();
            scope.insert("forloop".into(), &forloop);
            scope.insert(self.variable.as_ref(), value);
            let frame = StackFrame::new(runtime, &scope);
            self.body.render_to(writer, &frame)?;
            // `continue` ends a pass, which is where we are; only `break` ends the loop.
            let interrupt = frame.registers().get_mut::<InterruptRegister>().reset();
            if let Some(Interrupt::Break) = interrupt {
                break;
            }
        }
        Ok(())
    }
}

#[derive(Copy, Clone)]
struct CaptureBlock;

impl BlockReflection for CaptureBlock {
    fn start_tag(&self) -> &'static str {
        "capture"
    }
    fn end_tag(&self) -> &'static str {
        "endcapture"
    }
    fn description(&self) -> &'static str {
        "keeps its content in a variable"
    }
}

impl ParseBlock for CaptureBlock {
    fn parse(
        &self,
        mut arguments: TagTokenIter<'_>,
        mut tokens: TagBlock<'_, '_>,
        options: &Language,
    ) -> Result<Box<dyn Renderable>> {
        let variable = arguments.expect_next("a variable name is expected")?;
        let variable = KString::from_ref(variable.expect_identifier().into_result()?);
        arguments.expect_nothing()?;
        let body = Template::new(tokens.parse_all(options)?);
        tokens.assert_empty();
        Ok(Box::new(Capture { variable, body }))
    }

    fn reflection(&self) -> &dyn BlockReflection {
        self
    }
}

#[derive(Debug)]
struct Capture {
    variable: KString,
    body: Template,
}

impl Renderable for Capture {
    fn render_to(&self, _writer: &mut dyn Write, runtime: &dyn Runtime) -> Result<()> {
        let mut output = Output::new(MAX_VALUE_BYTES);
        self.body.render_to(&mut output, runtime)?;
        let bytes = output.into_bytes();
        pay_bytes(runtime, bytes.len())?;
        let text = String::from_utf8(bytes).map_err(|_| Error::with_msg("captured text is not UTF-8"))?;
        runtime.set_global(self.variable.clone(), Value::scalar(text));
        Ok(())
    }
}
