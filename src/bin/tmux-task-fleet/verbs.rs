//! Which commands from elsewhere are executed. Only options that are named here pass: what an option
//! yet unknown would permit is not known either. Pure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tmux_task::model::FarStdin;

/// What may be done on a machine through the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verb {
    Ls,
    Logs,
    Wait,
    Run,
    Send,
    Kill,
}

impl Verb {
    /// Returns its name, which is that of the command.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ls => "ls",
            Self::Logs => "logs",
            Self::Wait => "wait",
            Self::Run => "run",
            Self::Send => "send",
            Self::Kill => "kill",
        }
    }
}

/// What is asked of a machine, as tmux-task passes it on. What is not named here is passed on as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FarCall {
    /// The arguments of tmux-task.
    pub(crate) args: Vec<String>,
    /// The session, unless an argument names it.
    #[serde(default)]
    pub(crate) session: Option<String>,
    /// The conversation that asks.
    #[serde(default)]
    pub(crate) owner: Option<String>,
    pub(crate) stdin: FarStdin,
    /// Who asks, and all the rest.
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

impl FarCall {
    /// Returns the command, as the subject of a request names it, and the session.
    pub(crate) fn subject(&self) -> (String, String) {
        let mut session = self.session.clone().unwrap_or_default();
        if let (FarStdin::Text(request), true) = (&self.stdin, self.args == MCP_CALL) {
            let call = serde_json::from_str::<ToolCall>(request).ok();
            let tool = call.map(|call| call.name).unwrap_or_default();
            return (verb_of_tool(&tool).to_owned(), session);
        }
        let mut verb = None;
        let mut args = self.args.iter().map(String::as_str);
        while let Some(arg) = args.next().filter(|arg| *arg != "--") {
            let (name, attached) = split(arg);
            if !arg.starts_with('-') {
                verb.get_or_insert(arg);
            } else if has(OF_ALL, name) {
                let value = attached.or_else(|| args.next()).unwrap_or_default();
                if matches!(name, "-s" | "--session") {
                    value.clone_into(&mut session);
                }
            }
        }
        let verb = match verb.unwrap_or_default() {
            "ps" => "ls",
            "stop" => "kill",
            verb => verb,
        };
        (verb.to_owned(), session)
    }
}

/// The arguments of a call of an MCP tool.
const MCP_CALL: [&str; 2] = ["mcp", "--call"];

/// The options of all commands: those with a value. `--host` names this machine.
const OF_ALL: &str = "--host --session -s -L";

/// Returns the options of a command that have a value, and those that have none.
fn options_of(verb: Verb) -> (&'static str, &'static str) {
    match verb {
        Verb::Ls => ("", "--wide -w --failed --waiting --running"),
        Verb::Logs => ("-n --lines --since --run", "-f --follow --runs --raw"),
        Verb::Wait => (
            "--text --stop --timeout --since --tail --idle --listen",
            "--any --all --exit --regex --ignore-case -i --change --bell --input --through-prompts \
             --final",
        ),
        Verb::Run => (
            "--cwd --env --restart --backoff --after --kill-after --stop-signal --grace --until --stop \
             --tail --timeout --notify-on --slot --listen",
            "--if-absent --clean-env --parent-only --wait --through-prompts --regex --ignore-case -i",
        ),
        Verb::Send => ("--key --if-prompt", "--no-enter"),
        Verb::Kill => ("--signal --grace", ""),
    }
}

/// The tools of the MCP server, each with its verb and the arguments that pass.
const TOOLS: [(&str, Verb, &str); 7] = [
    ("list_tasks", Verb::Ls, ""),
    ("read_output", Verb::Logs, "task lines cursor run"),
    (
        "search_output",
        Verb::Logs,
        "pattern task regex ignore_case limit",
    ),
    (
        "wait_for",
        Verb::Wait,
        "task tasks any exit text change bell input idle_seconds listen stop regex ignore_case cursor \
         through_prompts final timeout_seconds",
    ),
    (
        "run_task",
        Verb::Run,
        "task name command cwd env only_if_absent wait until stop notify_on regex ignore_case slot \
         timeout_seconds",
    ),
    ("send_input", Verb::Send, "task text keys no_enter prompt"),
    ("kill_task", Verb::Kill, "task tasks"),
];

/// Returns what a call of a tool is called in a subject: its verb, or the tool's name if it has none.
fn verb_of_tool(tool: &str) -> &str {
    let known = TOOLS.iter().find(|(name, ..)| *name == tool);
    known.map_or(tool, |(_, verb, _)| verb.name())
}

/// A call of a tool.
#[derive(Deserialize)]
struct ToolCall {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

fn has(options: &str, name: &str) -> bool {
    options.split(' ').any(|known| known == name)
}

/// Returns the verb if these arguments may be executed here: `named` is the verb that the subject
/// names, and `session` the session.
pub(crate) fn check(
    named: &str,
    session: &str,
    allow: &BTreeSet<Verb>,
    call: &FarCall,
) -> Result<Verb, String> {
    let verb = allow.iter().find(|verb| verb.name() == named);
    let verb = *verb.ok_or_else(|| format!("`{named}` is not allowed through the broker"))?;
    match &call.stdin {
        FarStdin::Text(request) if call.args == MCP_CALL => check_tool(verb, request),
        FarStdin::Nothing => check_args(verb, session, &call.args),
        FarStdin::Text(_) | FarStdin::Follows | FarStdin::Acknowledgements => {
            Err("nothing through the broker reads standard input".to_owned())
        }
    }?;
    Ok(verb)
}

fn check_tool(verb: Verb, request: &str) -> Result<(), String> {
    let call: ToolCall =
        serde_json::from_str(request).map_err(|_| "it is no call of a tool".to_owned())?;
    let ToolCall { name, arguments } = call;
    let known = TOOLS.iter().find(|(tool, ..)| *tool == name);
    let Some((_, _, passing)) = known.filter(|(_, of_tool, _)| *of_tool == verb) else {
        return Err(format!("`{name}` is not `{}`", verb.name()));
    };
    if let Some(other) = arguments.keys().find(|name| !has(passing, name)) {
        return Err(format!(
            "`{name}` does not take `{other}` through the broker"
        ));
    }
    if verb == Verb::Send && !arguments.get("prompt").is_some_and(Value::is_string) {
        return Err("`send_input` through the broker needs `prompt`".to_owned());
    }
    Ok(())
}

fn check_args(verb: Verb, session: &str, args: &[String]) -> Result<(), String> {
    let named = verb.name();
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
            let is_alias = matches!((arg, verb), ("ps", Verb::Ls) | ("stop", Verb::Kill));
            if !has_verb && arg != named && !is_alias {
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
    Ok(())
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
pub(crate) fn changes(verb: Verb) -> bool {
    matches!(verb, Verb::Run | Verb::Send | Verb::Kill)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALL: [Verb; 6] = [
        Verb::Ls,
        Verb::Logs,
        Verb::Wait,
        Verb::Run,
        Verb::Send,
        Verb::Kill,
    ];

    #[test]
    fn a_subject_names_the_command_and_the_session() {
        for (line, verb, session) in [
            ("--host gpu1 ls --json", "ls", "work"),
            ("-s api ps", "ls", "api"),
            ("--session=api -L x stop train", "kill", "api"),
            ("run train -- sleep -s 5", "run", "work"),
            ("kill-all --yes", "kill-all", "work"),
        ] {
            let call = FarCall {
                args: line.split(' ').map(ToOwned::to_owned).collect(),
                session: Some("work".to_owned()),
                ..FarCall::default()
            };
            assert_eq!(
                call.subject(),
                (verb.to_owned(), session.to_owned()),
                "{line}"
            );
        }
    }

    fn answer(named: &str, line: &str) -> Result<Verb, String> {
        let call = FarCall {
            args: line.split(' ').map(ToOwned::to_owned).collect(),
            ..FarCall::default()
        };
        check(named, "api", &BTreeSet::from(ALL), &call)
    }

    fn tool(named: &str, request: &Value) -> Result<Verb, String> {
        let call = FarCall {
            args: vec!["mcp".to_owned(), "--call".to_owned()],
            stdin: FarStdin::Text(request.to_string()),
            ..FarCall::default()
        };
        check(named, "api", &BTreeSet::from(ALL), &call)
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
            ("ls", "ps --json"),
            ("kill", "stop train"),
        ] {
            assert_eq!(answer(named, line).map(Verb::name), Ok(named), "{line}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let nothing = check("ls", "api", &BTreeSet::new(), &FarCall::default());
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

    #[test]
    fn calls_of_tools_pass_by_their_verbs() {
        for (name, arguments) in [
            ("list_tasks", json!({})),
            ("read_output", json!({"task": "a", "lines": 5})),
            ("search_output", json!({"pattern": "x"})),
            ("wait_for", json!({"task": ["a"], "input": true})),
            (
                "run_task",
                json!({"task": "a", "command": "make", "slot": "build"}),
            ),
            (
                "send_input",
                json!({"task": "a", "text": "y", "prompt": "Go?"}),
            ),
            ("kill_task", json!({"tasks": ["a"]})),
        ] {
            let request = json!({"name": name, "arguments": arguments, "_meta": {"threadId": "1"}});
            let verb = verb_of_tool(name);
            assert_eq!(tool(verb, &request).map(Verb::name), Ok(verb), "{name}");
        }
        assert_eq!(verb_of_tool("prune_tasks"), "prune_tasks");
        for (named, request, why) in [
            (
                "ls",
                json!({"name": "kill_task"}),
                "`kill_task` is not `ls`",
            ),
            (
                "ls",
                json!({"name": "prune_tasks"}),
                "`prune_tasks` is not `ls`",
            ),
            (
                "wait",
                json!({"name": "wait_for", "arguments": {"channel": "x"}}),
                "`wait_for` does not take `channel` through the broker",
            ),
            (
                "send",
                json!({"name": "send_input", "arguments": {"task": "a", "text": "y", "prompt": null}}),
                "`send_input` through the broker needs `prompt`",
            ),
            ("ls", json!("list_tasks"), "it is no call of a tool"),
        ] {
            assert_eq!(tool(named, &request).unwrap_err(), why);
        }
        let call = FarCall {
            args: vec!["ls".to_owned()],
            stdin: FarStdin::Text("x".to_owned()),
            ..FarCall::default()
        };
        let all = BTreeSet::from([Verb::Ls]);
        let why = "nothing through the broker reads standard input";
        assert_eq!(check("ls", "api", &all, &call).unwrap_err(), why);
    }
}
