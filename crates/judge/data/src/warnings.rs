//! Settings of the data that are allowed but have no effect.

use crate::{Columns, DataSettings, Template};

impl DataSettings {
    /// Warns of keys that are set but have no effect. `has_template`: the model has a chat
    /// template. `evaluates_files`: evaluations read files, which use some of these settings.
    pub fn warnings(
        &self,
        has_template: bool,
        evaluates_files: bool,
    ) -> impl Iterator<Item = String> {
        let Self { task, columns, template, .. } = self;
        let its = Self::default();
        let Columns { prompt, answer, hint } = columns;
        let (is_task, reads_rows) = (task.is_some(), task.is_none() || evaluates_files);
        let templated = has_template && *template != Template::None;
        let of_files = "data.task is set, and only rows of files are read by it";
        let others = "it is of another task than data.task";
        let no_template = if has_template {
            "data.template is \"none\""
        } else {
            "the model has no chat template"
        };
        let tables = self
            .changed_tables()
            .map(move |table| (table.name(), true, *task == Some(table), others));
        // Each key, whether it is set, whether it is read, and the reason if not.
        let before = [
            ("limit", self.limit.is_some(), !is_task, of_files),
            ("columns.prompt", prompt.is_some(), reads_rows, of_files),
            ("columns.answer", answer.is_some(), reads_rows, of_files),
            ("columns.hint", hint.is_some(), !is_task, of_files),
            ("shuffle", self.shuffle != its.shuffle, !is_task, of_files),
            ("deduplicate", self.deduplicate != its.deduplicate, reads_rows, of_files),
        ];
        let behind = [
            ("system", self.system.is_some(), templated, no_template),
            ("template_variables", !self.template_variables.is_empty(), templated, no_template),
        ];
        let keys = before.into_iter().chain(tables).chain(behind);
        keys.filter(|(_, is_set, is_read, _)| *is_set && !is_read)
            .map(|(key, _, _, why)| format!("data.{key} has no effect: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CountdownSettings, ProgramsSettings, TaskName};

    /// Settings with every key set.
    fn settings(files: &[&str], task: Option<TaskName>) -> DataSettings {
        let programs = ProgramsSettings { tests: 9, ..ProgramsSettings::default() };
        let countdown = CountdownSettings { numbers: vec![3], ..CountdownSettings::default() };
        DataSettings {
            task,
            files: files.iter().map(Into::into).collect(),
            columns: Columns {
                prompt: Some("x".into()),
                answer: Some("y".into()),
                hint: Some("z".into()),
            },
            template_variables: [("x".into(), crate::TemplateVariable::Boolean(true))].into(),
            system: Some("x".into()),
            deduplicate: false,
            shuffle: false,
            limit: Some(1),
            countdown,
            programs,
            ..DataSettings::default()
        }
    }

    #[test]
    fn keys_without_effect_are_named() {
        let (files, task) =
            (settings(&["a.jsonl"], None), settings(&[], Some(TaskName::Countdown)));
        let plain = DataSettings { template: Template::None, ..files.clone() };
        let rows =
            ["limit", "columns.prompt", "columns.answer", "columns.hint", "shuffle", "deduplicate"];
        let (texts, tasks) = (["system", "template_variables"], ["countdown", "programs"]);
        for (settings, has_template, evaluates_files, keys) in [
            (&files, true, false, tasks.to_vec()),
            (&files, false, false, [tasks, texts].concat()),
            (&plain, true, false, [tasks, texts].concat()),
            (&task, true, false, [&rows[..], &["programs"]].concat()),
            (&task, true, true, vec!["limit", "columns.hint", "shuffle", "programs"]),
            (&DataSettings::default(), false, false, vec![]),
        ] {
            let said: Vec<String> = settings.warnings(has_template, evaluates_files).collect();
            assert_eq!(said.len(), keys.len(), "{said:?}");
            for (said, key) in said.iter().zip(keys) {
                assert!(said.starts_with(&format!("data.{key} has no effect: ")), "{said}");
            }
        }
    }
}
