package permits

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"drawbridge/relay/runner/settings"
)

// maxCommand bounds a command that a rule can match, in bytes. Longer ones wait for a person.
const maxCommand = 8 << 10

// Matches reports whether a rule of relay.yaml allows exactly these words.
func Matches(rule settings.Command, words []string) bool {
	if len(words) == 0 || words[0] != rule.Program {
		return false
	}
	rest := words[1:]
	if len(rest) < len(rule.Args) || !slices.Equal(rest[:len(rule.Args)], rule.Args) {
		return false
	}
	rest = rest[len(rule.Args):]
	if rule.Exact {
		return len(rest) == 0
	}
	return !slices.ContainsFunc(rest, settings.StartsAnother)
}

// commandOf returns the words of the one simple command that a question of kind execute is about. An error says why it is not one.
func commandOf(s Subject, args map[string]any) (words []string, err error) {
	for key, value := range args {
		switch key {
		case "command", "cmd":
			if words != nil {
				return nil, errors.New("the question names two commands")
			}
			if words, err = wordsOf(value); err != nil {
				return nil, err
			}
		case "description", "timeout":
			// The first is the agent's words for people; the second ends the command.
			if _, nested := value.(map[string]any); nested {
				return nil, fmt.Errorf("the relay does not understand the argument %q", key)
			}
		case "cwd", "workdir":
			dir, is := value.(string)
			if !is {
				return nil, fmt.Errorf("the relay does not understand the argument %q", key)
			}
			if err := insideDir(s.Dir, dir); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("the relay does not understand the argument %+.40q", key)
		}
	}
	if len(words) == 0 {
		return nil, errors.New("the question names no command")
	}
	return words, nil
}

func wordsOf(value any) ([]string, error) {
	switch command := value.(type) {
	case string:
		return Words(command)
	case []any:
		// Some agents join such a list and give it to a shell, so each word must be one there, too.
		list := make([]string, 0, len(command))
		for _, each := range command {
			text, is := each.(string)
			words, err := Words(text)
			if !is || err != nil || len(words) != 1 || words[0] != text {
				return nil, errors.New("the command has a word that a shell may read in another way")
			}
			list = append(list, text)
		}
		if len(list) == 0 || len(strings.Join(list, " ")) > maxCommand {
			return nil, errors.New("the command is empty or too long")
		}
		return list, plainStart(list[0])
	default:
		return nil, errors.New("the command is not text")
	}
}

// Words splits one simple command as each shell does: words of plain characters, apart by blanks, and whole words in quotes that hold plain
// characters and blanks. Everything else is an error: operators, substitutions, redirections, assignments, patterns, line ends, comments,
// escapes, tildes, history, characters beyond ASCII.
func Words(command string) (words []string, err error) {
	if len(command) > maxCommand {
		return nil, errors.New("the command is too long for a rule")
	}
	for i := 0; i < len(command); {
		switch c := command[i]; {
		case c == ' ':
			i++
			continue
		case c == '\'' || c == '"':
			word, after, err := quoted(command, i)
			if err != nil {
				return nil, err
			}
			words, i = append(words, word), after
		default:
			end := i
			for end < len(command) && plain(command[end]) {
				end++
			}
			if end == i || end < len(command) && command[end] != ' ' {
				return nil, fmt.Errorf("the command is not one simple command: it has %+q", command[end:min(end+1, len(command))])
			}
			words, i = append(words, command[i:end]), end
		}
	}
	if len(words) == 0 {
		return nil, errors.New("the command is empty")
	}
	for _, word := range words {
		if strings.HasPrefix(word, "=") {
			return nil, errors.New("the command has a word that zsh replaces")
		}
	}
	// A quoted first word is still read as a program, and a quoted reserved word is not reserved. Rules hold plain programs, so it must be one.
	if command[strings.IndexFunc(command, func(r rune) bool { return r != ' ' })] != words[0][0] {
		return nil, errors.New("the name of the program is in quotes")
	}
	return words, plainStart(words[0])
}

// plainStart refuses a first word that is not a program's name.
func plainStart(word string) error {
	if strings.ContainsAny(word, "=,:%@") || strings.HasPrefix(word, "-") || strings.HasPrefix(word, "+") {
		return errors.New("the command does not begin with the plain name of a program")
	}
	return nil
}

// quoted reads a word in quotes that ends before a blank or the end.
func quoted(command string, from int) (word string, after int, err error) {
	end := strings.IndexByte(command[from+1:], command[from])
	if end < 0 {
		return "", 0, errors.New("the command has a quote without an end")
	}
	word, after = command[from+1:from+1+end], from+end+2
	for i := range len(word) {
		if !plain(word[i]) && word[i] != ' ' {
			return "", 0, fmt.Errorf("the command has %+q in quotes", word[i:i+1])
		}
	}
	if word == "" || after < len(command) && command[after] != ' ' {
		return "", 0, errors.New("the command joins quotes with other text")
	}
	return word, after, nil
}

// plain reports whether each shell reads the character as itself wherever it stands in a later word.
func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_@%+=:,./-", c) >= 0
}
