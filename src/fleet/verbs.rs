//! Which commands from elsewhere are executed. Only options that are named here pass: what an option
//! yet unknown would permit is not known either. Pure.

use std::collections::BTreeSet;

use crate::config::Verb;

/// The options of all commands: those with a value. `--host` names this machine.
const OF_ALL: &str = "--host --session -s -L";

/// Returns the options of a command that have a value, and those that have none.
fn options_of(verb: Verb) -> (&'static str, &'static str) {
    match verb {
        Verb::Ls => ("", "--wide -w"),
        Verb::Logs => ("-n --lines --since --run", "-f --follow --runs --raw"),
        Verb::Wait => (
            "--text --stop --timeout --since --tail --idle",
            "--any --all --exit --regex --ignore-case -i --change --bell --input --through-prompts",
        ),
        Verb::Run => (
            "--cwd --env --restart --backoff --after --kill-after --stop-signal --grace --until --stop \
             --tail --timeout --notify-on",
            "--if-absent --clean-env --parent-only --wait --through-prompts --regex --ignore-case -i",
        ),
        Verb::Send => ("--key --if-prompt", "--no-enter"),
        Verb::Kill => ("--signal --grace", ""),
    }
}

fn has(options: &str, name: &str) -> bool {
    options.split(' ').any(|known| known == name)
}

/// Returns the verb if these arguments may be executed here: `named` is the verb that the subject
/// names, and `session` the session.
pub(super) fn check(
    named: &str,
    session: &str,
    allow: &BTreeSet<Verb>,
    args: &[String],
) -> Result<Verb, String> {
    let verb = allow.iter().find(|verb| verb.name() == named);
    let verb = *verb.ok_or_else(|| format!("`{named}` is not allowed through the broker"))?;
    let (with_value, flags) = options_of(verb);
    let mut has_verb = false;
    let mut has_prompt = false;
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        if arg == "--" && has_verb {
            // What follows is the command or the text.
            break;
        }
        if !arg.starts_with('-') || arg == "-" {
            if !has_verb && arg != named {
                return Err(format!("`{arg}` is not `{named}`"));
            }
            has_verb = true;
            continue;
        }
        let (name, attached) = split(arg);
        if name == "--json" || has(flags, name) {
            if attached.is_none() {
                continue;
            }
        } else if has(OF_ALL, name) || has(with_value, name) {
            let value = attached.or_else(|| args.next()).unwrap_or_default();
            if matches!(name, "-s" | "--session") && value != session {
                return Err(format!("`{value}` is not the session `{session}`"));
            }
            has_prompt |= name == "--if-prompt";
            continue;
        }
        return Err(format!(
            "`{named}` does not take `{name}` through the broker"
        ));
    }
    if !has_verb {
        return Err(format!("`{named}` is not among the arguments"));
    }
    if verb == Verb::Send && !has_prompt {
        return Err("`send` through the broker needs `--if-prompt`".to_owned());
    }
    Ok(verb)
}

/// Returns an option's name, and its value if that is attached to it.
fn split(arg: &str) -> (&str, Option<&str>) {
    if arg.starts_with("--") {
        return match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg, None),
        };
    }
    // `-n5`, `-n=5`; several flags in one word are not taken.
    let end = arg.char_indices().nth(2).map_or(arg.len(), |(at, _)| at);
    let (name, value) = arg.split_at(end);
    let value = value.strip_prefix('=').unwrap_or(value);
    (name, (name.len() < arg.len()).then_some(value))
}

/// Whether executing it twice is something else than once.
pub(super) fn changes(verb: Verb) -> bool {
    matches!(verb, Verb::Run | Verb::Send | Verb::Kill)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(named: &str, line: &str) -> Result<Verb, String> {
        let all = Verb::NAMES.map(|(_, verb)| verb);
        let args: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        check(named, "api", &BTreeSet::from(all), &args)
    }

    #[track_caller]
    fn refused(named: &str, line: &str, why: &str) {
        assert_eq!(answer(named, line).unwrap_err(), why);
    }

    #[test]
    fn commands_with_known_options_pass() {
        for (named, line) in [
            ("ls", "--host gpu1 ls --json"),
            ("ls", "-s api ls"),
            ("ls", "ls --session=api -L tmux"),
            ("logs", "logs train -n 5 -f"),
            ("logs", "logs train -n5 --since=1"),
            ("run", "run train --wait -- rm --tmux /x -rf"),
            ("send", "send train --if-prompt Go? y"),
            ("send", "send --if-prompt=Go? train -- --secret"),
            ("kill", "kill train --grace 0"),
            ("wait", "wait train --text done --timeout 5s"),
        ] {
            assert_eq!(answer(named, line).map(Verb::name), Ok(named), "{line}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let nothing = check("ls", "api", &BTreeSet::new(), &["ls".to_owned()]);
        assert_eq!(
            nothing.unwrap_err(),
            "`ls` is not allowed through the broker"
        );
        refused(
            "attach",
            "attach",
            "`attach` is not allowed through the broker",
        );
        refused("ls", "kill-all --yes", "`kill-all` is not `ls`");
        refused("ls", "", "`` is not `ls`");
        refused("ls", "--json", "`ls` is not among the arguments");
        refused("ls", "-- ls", "`ls` does not take `--` through the broker");
        for (line, option) in [
            ("ls --tmux /bin/x", "--tmux"),
            ("--tmux=/bin/x ls", "--tmux"),
            ("ls -S /x", "-S"),
            ("ls -S/x", "-S"),
            ("ls -wS /x", "-w"),
            ("ls --all", "--all"),
            ("ls -a", "-a"),
            ("ls --far-caller {}", "--far-caller"),
            ("ls --json=x", "--json"),
        ] {
            let why = format!("`ls` does not take `{option}` through the broker");
            refused("ls", line, &why);
        }
        refused("ls", "-s other ls", "`other` is not the session `api`");
        refused("ls", "ls -sother", "`other` is not the session `api`");
        refused(
            "send",
            "send train y",
            "`send` through the broker needs `--if-prompt`",
        );
        refused(
            "send",
            "send train -- --if-prompt y",
            "`send` through the broker needs `--if-prompt`",
        );
        refused(
            "send",
            "send train --if-prompt Go? --secret",
            "`send` does not take `--secret` through the broker",
        );
    }
}
