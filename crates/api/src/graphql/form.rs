//! Forms: what somebody is asked before something begins.

use async_graphql::{Enum, InputObject, SimpleObject};
use plural_core::form::{FormQuestion, QuestionCondition, QuestionType, QuestionValidation};
use plural_core::{Error, Result};

use super::error::{List, items, list, unsupported};

/// What an answer has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum ConfigurationType {
    /// A text.
    String,
    /// A whole number.
    Int,
    /// `true` or `false`.
    Bool,
    /// Not asked here.
    Domain,
    /// Not asked here.
    Bucket,
    /// Not asked here.
    File,
    /// Not asked here.
    Function,
    /// A text that is secret.
    Password,
    /// One of the question's values.
    Enum,
    /// The handle of a cluster.
    Cluster,
    /// The name of a project.
    Project,
    /// The name of a group.
    Group,
    /// The e-mail of a user.
    User,
    /// Not asked here.
    Flow,
    /// A JSON document.
    Json,
}

impl TryFrom<ConfigurationType> for QuestionType {
    type Error = Error;

    fn try_from(kind: ConfigurationType) -> Result<Self> {
        Ok(match kind {
            ConfigurationType::String => Self::String,
            ConfigurationType::Int => Self::Int,
            ConfigurationType::Bool => Self::Bool,
            ConfigurationType::Password => Self::Password,
            ConfigurationType::Enum => Self::Enum,
            ConfigurationType::Cluster => Self::Cluster,
            ConfigurationType::Project => Self::Project,
            ConfigurationType::Group => Self::Group,
            ConfigurationType::User => Self::User,
            ConfigurationType::Json => Self::Json,
            ConfigurationType::Domain
            | ConfigurationType::Bucket
            | ConfigurationType::File
            | ConfigurationType::Function
            | ConfigurationType::Flow => {
                return Err(Error::invalid(
                    "attributes.configuration.type",
                    "DOMAIN, BUCKET, FILE, FUNCTION and FLOW are not asked here: use STRING",
                ));
            }
        })
    }
}

impl From<QuestionType> for ConfigurationType {
    fn from(kind: QuestionType) -> Self {
        match kind {
            QuestionType::String => Self::String,
            QuestionType::Int => Self::Int,
            QuestionType::Bool => Self::Bool,
            QuestionType::Json => Self::Json,
            QuestionType::Password => Self::Password,
            QuestionType::Enum => Self::Enum,
            QuestionType::Cluster => Self::Cluster,
            QuestionType::Project => Self::Project,
            QuestionType::Group => Self::Group,
            QuestionType::User => Self::User,
        }
    }
}

/// How a condition compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::form::Comparison")]
pub(crate) enum Operation {
    /// The answer is another one. Without a value: there is none, or it is `false`.
    Not,
    /// The answer is a greater number.
    Gt,
    /// The answer is a smaller number.
    Lt,
    /// The answer is this one. Without a value: there is one, and it is not `false`.
    Eq,
    /// The answer is this number, or a greater one.
    Gte,
    /// The answer is this number, or a smaller one.
    Lte,
    /// The answer begins with this.
    Prefix,
    /// The answer ends with this.
    Suffix,
}

/// Among what a name has to be new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum ValidationUniqScope {
    /// Projects.
    Project,
    /// Clusters.
    Cluster,
}

/// When a question is asked.
#[derive(Debug, InputObject)]
pub(crate) struct ConditionAttributes {
    /// How the answer is compared.
    operation: Operation,
    /// Name of a question before this one.
    field: String,
    /// With what.
    value: Option<String>,
}

/// Among what an answer has to be new.
#[derive(Debug, InputObject)]
pub(crate) struct UniqByAttributes {
    /// Among these.
    scope: ValidationUniqScope,
}

/// What an answer has to look like, besides its type.
#[derive(Debug, InputObject)]
pub(crate) struct ConfigurationValidationAttributes {
    /// A regular expression that is found in it; anchors say that it has to be all of it.
    regex: Option<String>,
    /// It is a JSON document.
    json: Option<bool>,
    /// Refused: commands of stacks make no names.
    uniq_by: Option<UniqByAttributes>,
}

/// A question of a form.
#[derive(Debug, InputObject)]
pub(crate) struct PrConfigurationAttributes {
    /// What an answer has to be.
    #[graphql(name = "type")]
    kind: ConfigurationType,
    /// Name, by which its answer is known.
    name: String,
    /// Taken where there is no answer; a PASSWORD has none.
    default: Option<String>,
    /// What it is about, in one line.
    documentation: Option<String>,
    /// What it is about, at length.
    longform: Option<String>,
    /// What people see instead of the name.
    display_name: Option<String>,
    /// An example.
    placeholder: Option<String>,
    /// The page of the form that it is on.
    page: Option<i32>,
    /// It needs no answer.
    optional: Option<bool>,
    /// When it is asked; absent: always.
    condition: Option<ConditionAttributes>,
    /// What an answer has to look like.
    validation: Option<ConfigurationValidationAttributes>,
    /// The choices of an ENUM.
    values: List<String>,
}

/// The questions that are given; none where they are absent.
pub(super) fn questions(list: List<PrConfigurationAttributes>) -> Result<Option<Vec<FormQuestion>>> {
    items(list).map(|all| all.into_iter().map(FormQuestion::try_from).collect::<Result<Vec<_>>>()).transpose()
}

impl TryFrom<PrConfigurationAttributes> for FormQuestion {
    type Error = Error;

    fn try_from(attributes: PrConfigurationAttributes) -> Result<Self> {
        let PrConfigurationAttributes {
            kind,
            name,
            default,
            documentation,
            longform,
            display_name,
            placeholder,
            page,
            optional,
            condition,
            validation,
            values,
        } = attributes;
        let page = page.map(u32::try_from).transpose();
        let page =
            page.map_err(|_| Error::invalid("attributes.configuration.page", "must not be negative"))?;
        let validation = match validation {
            Some(ConfigurationValidationAttributes { regex, json, uniq_by }) => {
                let why = "is not checked here: nothing is made by these names, so leave it out";
                unsupported("attributes.configuration.validation.uniqBy", uniq_by.is_some(), why)?;
                Some(QuestionValidation { regex, json: json.unwrap_or_default() })
            }
            None => None,
        };
        let condition = condition.map(|ConditionAttributes { operation, field, value }| QuestionCondition {
            field,
            operation: operation.into(),
            value,
        });
        Ok(Self {
            name,
            kind: kind.try_into()?,
            // An empty text in a form is none.
            default: default.filter(|default| !default.is_empty()),
            documentation,
            longform,
            display_name,
            placeholder,
            page,
            optional: optional.unwrap_or_default(),
            values: items(values).unwrap_or_default(),
            condition,
            validation,
        })
    }
}

/// A question of a form.
#[derive(Debug, SimpleObject)]
pub(crate) struct PrConfiguration {
    /// What an answer has to be.
    #[graphql(name = "type")]
    kind: ConfigurationType,
    /// Name, by which its answer is known.
    name: String,
    /// Taken where there is no answer.
    default: Option<String>,
    /// What it is about, in one line.
    documentation: Option<String>,
    /// What it is about, at length.
    longform: Option<String>,
    /// What people see instead of the name.
    display_name: Option<String>,
    /// An example.
    placeholder: Option<String>,
    /// The page of the form that it is on.
    page: Option<i32>,
    /// It needs no answer.
    optional: Option<bool>,
    /// When it is asked; absent: always.
    condition: Option<PrConfigurationCondition>,
    /// What an answer has to look like.
    validation: Option<PrConfigurationValidation>,
    /// The choices of an ENUM.
    values: List<String>,
}

/// When a question is asked.
#[derive(Debug, SimpleObject)]
pub(crate) struct PrConfigurationCondition {
    /// How the answer is compared.
    operation: Operation,
    /// Name of a question before this one.
    field: String,
    /// With what.
    value: Option<String>,
}

/// What an answer has to look like, besides its type.
#[derive(Debug, SimpleObject)]
pub(crate) struct PrConfigurationValidation {
    /// A regular expression that is found in it; anchors say that it has to be all of it.
    regex: Option<String>,
    /// It is a JSON document.
    json: Option<bool>,
}

impl From<FormQuestion> for PrConfiguration {
    fn from(question: FormQuestion) -> Self {
        let FormQuestion {
            name,
            kind,
            default,
            documentation,
            longform,
            display_name,
            placeholder,
            page,
            optional,
            values,
            condition,
            validation,
        } = question;
        Self {
            kind: kind.into(),
            name,
            default,
            documentation,
            longform,
            display_name,
            placeholder,
            page: page.and_then(|page| i32::try_from(page).ok()),
            optional: Some(optional),
            condition: condition.map(|QuestionCondition { field, operation, value }| {
                PrConfigurationCondition { operation: Operation::from(operation), field, value }
            }),
            validation: validation.map(|QuestionValidation { regex, json }| PrConfigurationValidation {
                regex,
                json: Some(json),
            }),
            values: list(values),
        }
    }
}
