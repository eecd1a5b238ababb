//! `-l`: clusters by their tags, as kubectl selects by labels, and services by the tags of their clusters.

use std::{
    collections::{BTreeMap, HashSet},
    str::FromStr,
};

use plural_wire::{
    Client, ClientError, Cluster, Conjunction, ListClusters, PAGE_SIZE, ServiceDeployment, Tag, TagQuery,
    all_pages,
};

/// `stage=prod,region in (eu,us),!legacy`: all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TagSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    tag: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    /// One of these values.
    In(Vec<String>),
    /// None of these values, or no such tag.
    NotIn(Vec<String>),
    Present,
    Absent,
}

impl FromStr for TagSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut depth = 0_usize;
        let parts = text.split(|letter| {
            match letter {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            letter == ',' && depth == 0
        });
        parts.map(|part| requirement(part.trim())).collect::<Result<_, _>>().map(Self)
    }
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let wrong =
        || format!("{text:?} is none of TAG=VALUE, TAG!=VALUE, TAG in (A,B), TAG notin (A,B), TAG and !TAG");
    let named = |tag: &str, test: Test| {
        let tag = tag.trim();
        let fits = !tag.is_empty()
            && !tag.contains(|letter: char| letter.is_whitespace() || "=!(),<>".contains(letter));
        if fits { Ok(Requirement { tag: tag.to_owned(), test }) } else { Err(wrong()) }
    };
    if let Some((before, values)) = text.split_once('(') {
        let values = values.strip_suffix(')').ok_or_else(wrong)?;
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        return match before.trim_end().rsplit_once(char::is_whitespace) {
            Some((tag, "in")) => named(tag, Test::In(values)),
            Some((tag, "notin")) => named(tag, Test::NotIn(values)),
            _ => Err(wrong()),
        };
    }
    if let Some((tag, value)) = text.split_once("!=") {
        return named(tag, Test::NotIn(vec![value.trim().to_owned()]));
    }
    if let Some((tag, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return named(tag, Test::In(vec![value.trim().to_owned()]));
    }
    match text.strip_prefix('!') {
        Some(tag) => named(tag, Test::Absent),
        None => named(text, Test::Present),
    }
}

impl Requirement {
    fn takes(&self, tags: &BTreeMap<&str, &str>) -> bool {
        let value = tags.get(self.tag.as_str());
        let is_one = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
        match &self.test {
            Test::In(values) => is_one(values),
            Test::NotIn(values) => !is_one(values),
            Test::Present => value.is_some(),
            Test::Absent => value.is_none(),
        }
    }
}

impl TagSelector {
    /// Whether a cluster has these tags.
    pub(crate) fn takes(&self, cluster: &Cluster) -> bool {
        let tags = cluster.tags.iter().map(|tag| (tag.name.as_str(), tag.value.as_str())).collect();
        self.0.iter().all(|requirement| requirement.takes(&tags))
    }

    /// The tags that the console itself can look for: those with one value.
    pub(crate) fn exact(&self) -> Vec<Tag> {
        let exact = |requirement: &Requirement| match &requirement.test {
            Test::In(values) => match values.as_slice() {
                [value] => Some(Tag { name: requirement.tag.clone(), value: value.clone() }),
                _ => None,
            },
            _ => None,
        };
        self.0.iter().filter_map(exact).collect()
    }

    /// The ids of the clusters that have these tags. The console looks for tags with one value; what else is asked for is
    /// looked for here, in all pages of its answer.
    pub(crate) async fn clusters(&self, client: &Client) -> Result<HashSet<String>, ClientError> {
        let tag_query = query(self.exact());
        let all = all_pages(client, |after| ListClusters {
            after,
            first: PAGE_SIZE,
            project_id: None,
            tag_query: tag_query.clone(),
        })
        .await?;
        Ok(all.into_iter().filter(|cluster| self.takes(cluster)).map(|cluster| cluster.id).collect())
    }

    /// Of these services, the ones on clusters with these tags. A service whose cluster the caller may not see is on none.
    pub(crate) async fn services(
        &self,
        mut services: Vec<ServiceDeployment>,
        client: &Client,
    ) -> Result<Vec<ServiceDeployment>, ClientError> {
        let clusters = self.clusters(client).await?;
        services
            .retain(|service| service.cluster.as_ref().is_some_and(|cluster| clusters.contains(&cluster.id)));
        Ok(services)
    }
}

/// All of these tags; nothing where there are none.
pub(crate) fn query(tags: Vec<Tag>) -> Option<TagQuery> {
    (!tags.is_empty()).then_some(TagQuery { op: Conjunction::And, tags: Some(tags) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(selector: &str, tags: &[(&str, &str)]) -> bool {
        let selector: TagSelector = selector.parse().unwrap_or_else(|error| panic!("{selector}: {error}"));
        let tags = tags.iter().copied().collect();
        selector.0.iter().all(|requirement| requirement.takes(&tags))
    }

    #[test]
    fn selectors_are_those_of_kubectl() {
        let tags = [("stage", "prod"), ("region", "eu"), ("team.io/name", "a b")];
        for yes in [
            "stage=prod",
            "stage==prod",
            "stage = prod , region=eu",
            "stage!=dev",
            "none!=x",
            "stage in (dev, prod),region",
            "stage in(prod)",
            "stage notin (dev,test)",
            "none notin (x)",
            "region",
            "!none",
            "team.io/name=a b",
        ] {
            assert!(takes(yes, &tags), "{yes}");
        }
        for no in
            ["stage=dev", "stage!=prod", "stage in (dev)", "stage notin (prod)", "none", "!stage", "none="]
        {
            assert!(!takes(no, &tags), "{no}");
        }
        for wrong in ["", "a,", "=a", "a in", "a in (x", "a on (x)", "!", "a b", "!a=b", "a>1", "in (x)"] {
            assert!(wrong.parse::<TagSelector>().is_err(), "{wrong}");
        }
    }
}
