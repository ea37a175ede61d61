//! Fields: what a form or a query says, by name. What a value means is for its reader to know.

use std::collections::BTreeMap;

/// Fields of a form at most: a plan of many steps, generously.
const FIELDS_MAX: usize = 10_000;

/// Fields of a form or a query, in order; a name may come more than once.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pairs: Vec<(String, String)>,
    index: BTreeMap<String, Vec<usize>>,
}

impl Fields {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let mut fields = Self::default();
        for (name, value) in url::form_urlencoded::parse(bytes).take(FIELDS_MAX) {
            // Browsers send line ends as carriage return and line feed, whatever was there.
            let value = value.replace("\r\n", "\n");
            fields.index.entry(name.to_string()).or_default().push(fields.pairs.len());
            fields.pairs.push((name.into_owned(), value));
        }
        fields
    }

    /// The first value of that name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The first value of that name, trimmed; nothing where it is empty.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        self.get(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// The value of that name, where there is one: of two that differ none is meant (K7).
    pub(super) fn only(&self, name: &str) -> Option<&str> {
        let mut all = self.all(name);
        let first = all.next().map(str::trim).filter(|value| !value.is_empty())?;
        all.all(|other| other.trim() == first).then_some(first)
    }

    /// All values of that name.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let places = self.index.get(name).into_iter().flatten();
        places.map(|place| self.pairs[*place].1.as_str())
    }

    /// Names that begin with `prefix`, with what follows it.
    pub(super) fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        let from = self.index.range(prefix.to_owned()..);
        from.map_while(move |(name, _)| name.strip_prefix(prefix))
    }

    #[cfg(test)]
    pub(super) fn of(pairs: &[(&str, &str)]) -> Self {
        let text =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        Self::parse(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_their_repeats() {
        let fields = Fields::of(&[("b", "1"), ("a/0", "x\r\ny"), ("b", "2"), ("a/1", " ")]);
        assert_eq!(fields.all("b").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(fields.below("a/").collect::<Vec<_>>(), ["0", "1"]);
        assert_eq!((fields.get("a/0"), fields.given("a/1")), (Some("x\ny"), None));
    }
}
