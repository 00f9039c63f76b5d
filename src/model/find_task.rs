//! Which task a user means by a name or a window's id.

use std::sync::Arc;

use super::{Error, Snapshot, Task, WindowId};

impl Snapshot {
    /// Returns the one task of this name or window id.
    ///
    /// # Errors
    ///
    /// When there is none, or more than one.
    pub fn find_task(&self, name: &str) -> Result<&Arc<Task>, Error> {
        let missing = || {
            let session = &self.session;
            Error::missing(format!("no task `{name}` in session `{session}`"))
                .with_hint("`tmux-task ls` lists them")
        };
        // An id never means a window that has it as its name: that of a window that is gone would.
        if let Ok(id) = name.parse::<WindowId>() {
            return self.tasks.get(&id).ok_or_else(missing);
        }
        let named = || self.tasks.values().filter(|task| task.name == name);
        // A name means a task: tmux names a user's window after what runs in it, and a user can link
        // one of another session.
        let rank = |task: &Task| (task.shell, task.is_named_by_tmux, task.is_linked);
        let first = named().map(|task| rank(task)).min();
        let is_meant = |task: &&Arc<Task>| Some(rank(task)) == first;
        let meant: Vec<&Arc<Task>> = named().filter(is_meant).collect();
        match meant.as_slice() {
            [] => Err(missing()),
            [task] => Ok(task),
            several => {
                let ids: Vec<String> = several.iter().map(|task| task.window.to_string()).collect();
                let (n, ids) = (ids.len(), ids.join(", "));
                Err(
                    Error::failed(format!("{n} tasks are named `{name}`: {ids}"))
                        .with_hint("name one by its id"),
                )
            }
        }
    }

    /// Returns the one task of this name or window id, to end it: a name does not mean a shell, or a
    /// window that tmux has named or that is another session's, which are a person's. The task of that
    /// name may be gone, and such a window remain.
    ///
    /// # Errors
    ///
    /// As [`Snapshot::find_task`], and for the name of such a window.
    pub fn find_task_to_end(&self, name: &str) -> Result<&Arc<Task>, Error> {
        let task = self.find_task(name)?;
        let window = task.window;
        if name.parse() == Ok(window) {
            return Ok(task);
        }
        let what = match (task.shell, task.is_named_by_tmux, task.is_linked) {
            (true, _, _) => "is a shell, not a task",
            (false, true, _) => "was named by tmux and is not a task",
            (false, false, true) => "is a window of another session, not a task",
            (false, false, false) => return Ok(task),
        };
        Err(Error::failed(format!("`{name}` ({window}) {what}"))
            .with_hint(format!("`tmux-task kill {window}` ends it by its id")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::task;

    fn look(tasks: &[&str], shells: &[&str]) -> Snapshot {
        let tasks = tasks.iter().map(|line| task(line));
        let shells = shells.iter().map(|line| Task {
            shell: true,
            ..task(line)
        });
        let all = tasks.chain(shells);
        Snapshot {
            tasks: all.map(|task| (task.window, Arc::new(task))).collect(),
            ..Snapshot::missing("S", 1)
        }
    }

    #[track_caller]
    fn check(look: &Snapshot, name: &str, expected: Result<u32, &str>) {
        let found = look.find_task(name).map(|task| task.window.0);
        assert_eq!(
            found.map_err(|error| error.to_string()),
            expected.map_err(str::to_owned)
        );
    }

    #[test]
    fn a_task_is_found_by_its_name_or_id() {
        let look = look(
            &[
                "@1 api running",
                "@2 web running",
                "@3 @1 running",
                "@4 @9 running",
            ],
            &[],
        );
        check(&look, "web", Ok(2));
        check(&look, "@2", Ok(2));
        check(&look, "@1", Ok(1));
        check(&look, "we", Err("no task `we` in session `S`"));
        check(&look, "@9", Err("no task `@9` in session `S`"));
    }

    #[test]
    fn a_name_means_a_task_before_a_shell() {
        let both = look(&["@2 node running"], &["@1 node running", "@3 vim running"]);
        check(&both, "node", Ok(2));
        check(&both, "vim", Ok(3));
        let several = look(&["@1 a running", "@4 a running"], &["@2 a running"]);
        check(&several, "a", Err("2 tasks are named `a`: @1, @4"));
    }

    #[test]
    fn a_name_that_somebody_gave_goes_before_one_that_tmux_gave() {
        let look = look(
            &["@1 a running", "@2 a running", "@3 b running"],
            &["@4 b running"],
        );
        let tasks = look.tasks.into_iter().map(|(window, task)| {
            let is_named_by_tmux = [1, 3].contains(&window.0);
            let task = Task {
                is_named_by_tmux,
                ..Task::clone(&task)
            };
            (window, Arc::new(task))
        });
        let look = Snapshot {
            tasks: tasks.collect(),
            ..Snapshot::missing("S", 1)
        };
        check(&look, "a", Ok(2));
        check(&look, "b", Ok(3));
    }

    #[test]
    fn what_is_no_task_is_ended_only_by_its_id() {
        let look = look(&["@2 node running"], &["@1 node running", "@3 vim running"]);
        let end = |name| {
            let found = look.find_task_to_end(name).map(|task| task.window.0);
            found.map_err(|error| error.to_string())
        };
        assert_eq!(end("node"), Ok(2));
        assert_eq!(end("@3"), Ok(3));
        assert_eq!(end("@1"), Ok(1));
        assert_eq!(
            end("vim"),
            Err("`vim` (@3) is a shell, not a task".to_owned())
        );
        assert_eq!(end("nano"), Err("no task `nano` in session `S`".to_owned()));
        let named = Task {
            is_named_by_tmux: true,
            ..task("@5 top running")
        };
        let linked = Task {
            is_linked: true,
            ..task("@6 tests running")
        };
        let look = Snapshot {
            tasks: [named, linked]
                .map(|task| (task.window, Arc::new(task)))
                .into(),
            ..Snapshot::missing("S", 1)
        };
        let tests = look.find_task_to_end("tests");
        assert_eq!(
            tests.map_err(|error| error.to_string()),
            Err("`tests` (@6) is a window of another session, not a task".to_owned())
        );
        assert!(look.find_task_to_end("@6").is_ok());
        let refused = look
            .find_task_to_end("top")
            .map_err(|error| error.to_string());
        assert_eq!(
            refused,
            Err("`top` (@5) was named by tmux and is not a task".to_owned())
        );
        assert!(look.find_task_to_end("@5").is_ok());
    }
}
