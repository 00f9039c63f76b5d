//! What does not depend on a session: the program, the locale, the configuration, the folders, the
//! desktop and the kernel.

use std::env;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use super::time_limit::{LIMIT, on_disk, within};
use super::{Check, Finding, OnPath, Subject, folders};
use crate::config::{self, ConfigFile};
use crate::model::with_causes;
use crate::ops::lookup;
use crate::paths::{self, Env};

/// What Yama allows processes to see of others; missing where the kernel has no Yama.
const PTRACE_SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// From this value on, only an administrator may see what another process does.
const HIDDEN: u32 = 2;

/// A daemon uses a descriptor for each task and up to two for each connection.
const FEW_DESCRIPTORS: u64 = 1024;

/// The program's name, as a shell looks for it.
const PROGRAM: &str = "tmux-task";

/// The checks, in the order in which they are shown.
pub(super) struct MachineChecks {
    /// Before those of tmux.
    pub(super) before_tmux: Vec<Check>,
    /// After those of tmux.
    pub(super) after_tmux: Vec<Check>,
}

/// Checks this machine and this environment.
pub(super) async fn examine() -> MachineChecks {
    let (program, configuration, state, runtime, desktop, ptrace) = tokio::join!(
        on_disk(examine_program),
        on_disk(examine_configuration),
        on_disk(|| folders::examine(paths::state_root(&lookup), || paths::check_state(&lookup))),
        on_disk(|| folders::examine(paths::runtime_root(&lookup), || {
            paths::check_runtime(&lookup)
        })),
        examine_desktop(),
        on_disk(|| judge_ptrace(std::fs::read_to_string(PTRACE_SCOPE).ok().as_deref())),
    );
    let limits = getrlimit(Resource::Nofile);
    MachineChecks {
        before_tmux: vec![program.of(Subject::Program)],
        after_tmux: vec![
            judge_locale(&lookup).of(Subject::Locale),
            configuration.of(Subject::Configuration),
            state.of(Subject::State),
            runtime.of(Subject::Runtime),
            desktop.of(Subject::Desktop),
            ptrace.of(Subject::Ptrace),
            judge_limits(limits.current, limits.maximum).of(Subject::Descriptors),
        ],
    }
}

fn examine_program() -> Finding {
    let path = match env::current_exe() {
        Ok(path) => path,
        Err(error) => {
            return Finding::BadFolder {
                why: with_causes(&error),
            };
        }
    };
    let found = lookup("PATH").and_then(|folders| {
        let mut candidates = env::split_paths(&folders).map(|folder| folder.join(PROGRAM));
        candidates.find(|candidate| is_executable(candidate))
    });
    let on_path = match found {
        None => OnPath::None,
        Some(found) if is_same(&found, &path) => OnPath::This,
        Some(found) => OnPath::Other(found),
    };
    Finding::Program { path, on_path }
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
    real(one) == real(other)
}

fn judge_locale(env: Env<'_>) -> Finding {
    let variables = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let mut set = variables.filter_map(|name| {
        let value = env(name)?.to_string_lossy().into_owned();
        (!value.is_empty()).then_some((name, value))
    });
    let Some((variable, value)) = set.next() else {
        return Finding::OtherLocale(None);
    };
    let upper = value.to_ascii_uppercase();
    if upper.contains("UTF-8") || upper.contains("UTF8") {
        return Finding::Utf8Locale { variable, value };
    }
    Finding::OtherLocale(Some((variable, value)))
}

fn examine_configuration() -> Finding {
    let file = config::find(&lookup);
    match config::load(&lookup) {
        Ok(_) => {
            let path = file.as_ref().map(ConfigFile::path);
            let path = path.filter(|path| path.exists());
            Finding::Configuration(path.map(ToOwned::to_owned))
        }
        Err(error) => Finding::BadConfiguration {
            why: with_causes(&error),
        },
    }
}

async fn examine_desktop() -> Finding {
    // A configuration that cannot be read is another check's finding.
    let load = tokio::task::spawn_blocking(|| config::load(&lookup));
    if let Ok(Ok(Ok(config))) = within(LIMIT, load).await
        && config.notices.desktop.is_empty()
    {
        return Finding::DesktopOff;
    }
    examine_notifier().await
}

#[cfg(all(feature = "notice", not(target_os = "macos")))]
async fn examine_notifier() -> Finding {
    match crate::notice::notifier().await {
        Ok(service) => Finding::Desktop { service },
        Err(error) => Finding::NoDesktop {
            why: with_causes(&error),
        },
    }
}

#[cfg(not(all(feature = "notice", not(target_os = "macos"))))]
async fn examine_notifier() -> Finding {
    Finding::NoDesktop {
        why: "this program was built without desktop notices".to_owned(),
    }
}

fn judge_ptrace(text: Option<&str>) -> Finding {
    let value = text.and_then(|text| text.trim().parse().ok());
    let is_root = rustix::process::geteuid().is_root();
    match value {
        Some(value) if value >= HIDDEN && !is_root => Finding::PtraceHidden(value),
        value => Finding::Ptrace(value),
    }
}

fn judge_limits(soft: Option<u64>, hard: Option<u64>) -> Finding {
    match hard {
        Some(hard) if hard < FEW_DESCRIPTORS => Finding::FewDescriptors { hard },
        hard => Finding::Descriptors { soft, hard },
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[track_caller]
    fn check_locale(variables: &[(&str, &str)], expected: Finding) {
        let env = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        assert_eq!(judge_locale(&env), expected);
    }

    #[test]
    fn the_first_variable_that_is_set_decides_on_the_locale() {
        let utf8 = |variable, value: &str| Finding::Utf8Locale {
            variable,
            value: value.to_owned(),
        };
        let other =
            |variable, value: &str| Finding::OtherLocale(Some((variable, value.to_owned())));
        let lang = ("LANG", "de_DE.utf8");
        check_locale(&[lang], utf8("LANG", "de_DE.utf8"));
        check_locale(&[lang, ("LC_ALL", "")], utf8("LANG", "de_DE.utf8"));
        check_locale(&[lang, ("LC_ALL", "C")], other("LC_ALL", "C"));
        let all = [lang, ("LC_ALL", "C"), ("LC_CTYPE", "C.UTF-8")];
        check_locale(&all, other("LC_ALL", "C"));
        check_locale(&all[..1], utf8("LANG", "de_DE.utf8"));
        check_locale(&[], Finding::OtherLocale(None));
    }

    #[test]
    fn few_descriptors_are_few_for_a_daemon_that_raises_its_limit() {
        let expected = Finding::FewDescriptors { hard: 256 };
        assert_eq!(judge_limits(Some(256), Some(256)), expected);
        let plenty = Finding::Descriptors {
            soft: Some(256),
            hard: Some(4096),
        };
        assert_eq!(judge_limits(Some(256), Some(4096)), plenty);
        let unlimited = Finding::Descriptors {
            soft: None,
            hard: None,
        };
        assert_eq!(judge_limits(None, None), unlimited);
    }

    #[test]
    fn a_kernel_that_hides_nothing_is_fine() {
        assert_eq!(judge_ptrace(None), Finding::Ptrace(None));
        assert_eq!(judge_ptrace(Some("1\n")), Finding::Ptrace(Some(1)));
    }
}
