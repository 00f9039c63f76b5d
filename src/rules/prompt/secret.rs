//! Whether a line asks for a secret.

use std::sync::LazyLock;

use regex::Regex;

use super::words::pattern;

/// What programs show in place of typed characters.
const MASKS: &[char] = &['*', '•', '●', '▪', '∗', '⁎', '▮', '■'];

const NOUN: &str = concat!(
    r"(?:\bpass(?:word|phrase|code|wd)?\b|\bpass phrase\b|\bpin\b|\bsecret(?: key)?\b|\btoken\b|\botp\b|\bone-time (?:code|password)\b|\bmfa code\b",
    r"|\bmot de passe\b|\bphrase (?:de passe|secrète)\b|passwort|kennwort|passphrase|contraseña|\bclave\b|\bsenha\b|\bhasło\b|wachtwoord|lösenord|adgangskode|salasana|parola|jelszó|heslo|şifre|пароль|密码|密碼|パスワード|암호|비밀번호|รหัสผ่าน|पासवर्ड|পাসওয়ার্ড|கடவுச்சொல்|ពាក្យសម្ងាត់|စကားဝှက်|mật khẩu|гасло|סיסמה|كلمة المرور|رمز عبور)",
);

/// Whether the line ends with a label that names a secret, or says that input is hidden.
pub(super) fn is_label(text: &str) -> bool {
    /// The longest text between the noun and the colon.
    const BETWEEN: usize = 80;
    static LABEL: LazyLock<Regex> = LazyLock::new(|| {
        let end = r"(?P<between>(?:[^?:]|:\S)*?)[:：៖]\s*(?:\[[^\]]*hidden[^\]]*\])?$";
        pattern(&format!("{NOUN}{end}"))
    });
    static HIDDEN: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"[\[(](?:(?:input|output|typing|text)\s+(?:is|will be)\s+)?(?:hidden|masked|invisible|not shown)[\])]\s*[:：]?$",
            r"|\bapi[ -]key\s*[:：]$|will (?:be hidden|not be (?:shown|echoed))\)?\s*:?$",
        ))
    });
    HIDDEN.is_match(text) || {
        let mut from = 0;
        let mut betweens = std::iter::from_fn(|| {
            let between = LABEL.captures_at(text, from)?.name("between")?;
            from = between.start();
            Some(between.as_str())
        });
        LABEL.is_match(text) && betweens.any(|between| units(between) <= BETWEEN)
    }
}

/// Counts the characters, a colon with the one behind it as one.
fn units(text: &str) -> usize {
    let mut chars = text.chars();
    std::iter::from_fn(|| (chars.next()? != ':' || chars.next().is_some()).then_some(())).count()
}

/// Whether the question of a prompt library, which needs no colon, asks for a secret: it ends with
/// a word for one, and does not ask for its name, its location, or whether to use it.
pub(super) fn is_question(text: &str) -> bool {
    static QUESTION: LazyLock<Regex> = LazyLock::new(|| {
        pattern(&format!(
            r"(?:{NOUN}|\bapi[ -]key\b)\s*(?:\([^()]*\))?\s*[?？:：]?$"
        ))
    });
    static ABOUT: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"\b(?:name|names|path|file|folder|id|length|number|type|kind|which|where|how|store|manager|lifetime)\b",
            r"|^(?:use|do|does|did|is|are|should|shall|would|will|can|has|have|save|keep|remember|show|change|reset|create|generate|want)\b",
        ))
    });
    is_label(text) || (QUESTION.is_match(text) && !ABOUT.is_match(text))
}

/// Returns the text before what was typed, if that is masked.
pub(super) fn unmasked(text: &str) -> Option<&str> {
    let before = text.trim_end().trim_end_matches(MASKS);
    let masks = text.trim_end()[before.len()..].chars().count();
    (masks >= 2 && before.ends_with(char::is_whitespace)).then(|| before.trim_end())
}

/// Whether the text is only what a masked field shows.
pub(super) fn is_masked(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| MASKS.contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_questions_name_secrets() {
        for text in [
            "Password:",
            "API key (output is hidden):",
            "Token [hidden]",
            "PIN for card 3:",
        ] {
            assert!(is_label(text), "{text}");
        }
        for text in [
            "Registry password",
            "Tell me a secret",
            "What is your password?",
            "Enter your token",
            "API key",
        ] {
            assert!(is_question(text), "{text}");
            assert!(!is_label(text), "{text}");
        }
        for text in [
            "What is the name of the secret?",
            "Path of the private key",
            "Use a token?",
            "Which token",
            "Project name",
        ] {
            assert!(!is_question(text), "{text}");
        }
    }

    #[test]
    fn masked_input_is_not_part_of_the_question() {
        assert_eq!(unmasked("Password: ****"), Some("Password:"));
        assert_eq!(unmasked("Enter your token •••"), Some("Enter your token"));
        for text in ["a ** b", "Press *", "TASK [x] x****", "****"] {
            assert_eq!(unmasked(text), None, "{text}");
        }
    }
}
