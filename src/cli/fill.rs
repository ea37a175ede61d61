//! Fill: asks a form field by field, tells all that is wrong at once, and shows what will be sent before it is.
//! What a field is, and what is wrong with it, is said in `form`.

use serde_json::Value;

use crate::cli::exit::Trouble;
use crate::cli::form::Form;
use crate::cli::talk::{EXIT, Talk};
use crate::cli::term::line;
use crate::kernel::strict;

/// A field on one line; the file's own words may be many.
const CHARS_MAX: usize = 300;
/// How what is filled in is told.
const BRIEF_CHARS_MAX: usize = 120;

impl Talk<'_> {
    /// Asks for every field; nothing if the person leaves. Whoever writes the whole answer as JSON at the first
    /// field is asked for no other.
    pub(super) async fn fill(&mut self, mut form: Form) -> Result<Option<Value>, Trouble> {
        let mut open = form.asked();
        let mut is_first = true;
        loop {
            for place in open {
                let Some(typed) = self.field(&form, place).await? else { return Ok(None) };
                let whole = strict::read(typed.trim().as_bytes()).ok();
                if let Some(whole) = whole.filter(|whole| is_first && whole.is_object()) {
                    return Ok(Some(whole));
                }
                is_first = false;
                form.fields[place].fill(&typed);
            }
            let wrong = form.complaints();
            if wrong.is_empty() {
                match self.confirmed(&form).await? {
                    Confirmed::Sent => return Ok(Some(form.value())),
                    Confirmed::Left => return Ok(None),
                    Confirmed::Change(place) => open = vec![place],
                }
                continue;
            }
            for (place, why) in &wrong {
                let name = place.map_or("the answer", |place| form.fields[place].name.as_str());
                self.refuse(&line(&format!("{name}: {why}"), CHARS_MAX));
            }
            open = wrong.iter().filter_map(|(place, _)| *place).collect();
            open.dedup();
            if open.is_empty() {
                open = form.asked();
            }
            // What did not fit is typed anew, and not kept by pressing Enter.
            for place in &open {
                form.fields[*place].given = None;
            }
        }
    }

    /// Asks for one field.
    async fn field(&mut self, form: &Form, place: usize) -> Result<Option<String>, Trouble> {
        let field = &form.fields[place];
        let about = if field.about.is_empty() { "" } else { " · " };
        let told = format!("{}{about}{}", field.takes, field.about);
        let (name, told) = (line(&field.name, 64), line(&told, CHARS_MAX));
        let paint = self.ctx.term.paint;
        self.ctx.term.line(&format!("  {}  {}", paint.bold(&name), paint.dim(&told)))?;
        let usage = line(&field.on_enter(), BRIEF_CHARS_MAX);
        let typed = self.prompt(&format!("{usage}; {EXIT} leaves the run waiting")).await?;
        Ok(typed.filter(|typed| typed.trim() != EXIT))
    }

    /// Shows the answer as it will be sent, and asks.
    async fn confirmed(&mut self, form: &Form) -> Result<Confirmed, Trouble> {
        let asked = form.asked();
        for (number, place) in (1..).zip(&asked) {
            let field = &form.fields[*place];
            let told = format!("  {number}. {}  {}", field.name, field.told());
            self.ctx.term.line(&line(&told, CHARS_MAX))?;
        }
        loop {
            let usage = "Enter sends this, a number changes a field, exit leaves the run waiting";
            let Some(typed) = self.prompt(usage).await? else { return Ok(Confirmed::Left) };
            match typed.trim().to_lowercase().as_str() {
                "" | "y" | "yes" | "send" => return Ok(Confirmed::Sent),
                EXIT => return Ok(Confirmed::Left),
                other => {
                    let number = other.parse::<usize>().ok().and_then(|one| one.checked_sub(1));
                    match number.and_then(|number| asked.get(number)) {
                        Some(place) => return Ok(Confirmed::Change(*place)),
                        None => self.refuse(&format!("type Enter, or 1 to {}", asked.len())),
                    }
                }
            }
        }
    }
}

/// What became of the question whether to send it.
enum Confirmed {
    Sent,
    Left,
    Change(usize),
}
