package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drawbridge/proof/pages"
)

// TestPagesShowCommandsThatParse: the program understands each call that a page or a help shows. A call within a sentence may leave
// arguments out.
func TestPagesShowCommandsThatParse(t *testing.T) {
	t.Parallel()
	program := pages.Program{Name: "drawbridge-relay", Least: 80}
	for _, cmd := range below(newRoot(streams{io.Discard, io.Discard})) {
		program.Examples = append(program.Examples, pages.Examples(cmd.CommandPath()+" --help", cmd.Example, program.Name)...)
	}
	program.Check(t, "../..", parses)
}

// parses reads a call as far as a run of its command would begin.
func parses(c pages.Command) error {
	root := newRoot(streams{io.Discard, io.Discard})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(c.Words)
	if err != nil {
		return err
	}
	err = cmd.ParseFlags(rest)
	if !c.Whole && err != nil && strings.HasPrefix(err.Error(), "flag needs an argument") || errors.Is(err, pflag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if !c.Whole && cmd.Flags().NArg() == 0 {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// below returns a command and all commands under it.
func below(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		all = append(all, below(c)...)
	}
	return all
}

//go:generate go test . -run TestReference -update

// TestReference keeps docs/reference/drawbridge-relay.md and the program the same.
func TestReference(t *testing.T) {
	t.Parallel()
	pages.Same(t, "../../docs/reference/drawbridge-relay.md", referencePage(newRoot(streams{io.Discard, io.Discard})))
}

func referencePage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# drawbridge-relay\n\nMade from the program by `go generate ./cmd/drawbridge-relay`; a test keeps both the same. `drawbridge-relay help COMMAND` explains\n" +
		"each flag, with examples. `drawbridge-relay completion bash` (or `zsh`, `fish`, `powershell`) prints what makes your shell complete commands\n" +
		"and flags.\n\nMost commands read `relay.yaml` in this folder, or `--config FILE`. `--identity FILE` names another file with the relay's key,\n" +
		"`--state DIR` the relay's state for when `relay.yaml` cannot be read.\n\n" +
		"| exit code | means |\n|---|---|\n| 0 | all is well |\n| 1 | something is wrong, and standard error says what |\n| 2 | the command line is wrong |\n\n" +
		"| command | does |\n|---|---|\n")
	for _, cmd := range below(root)[1:] {
		if cmd.Hidden || !cmd.Runnable() || cmd.Name() == "audit" {
			continue
		}
		words := []string{strings.TrimPrefix(cmd.CommandPath(), "drawbridge-relay ") + strings.TrimPrefix(cmd.Use, cmd.Name())}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains([]string{"config", "identity", "state", "help"}, f.Name) || strings.Contains(cmd.Use, "--"+f.Name) {
				return
			}
			kind, _ := pflag.UnquoteUsage(f)
			words = append(words, "["+strings.TrimSpace("--"+f.Name+" "+kind)+"]")
		})
		fmt.Fprintf(&b, "| `%s` | %s |\n", pages.Cell(strings.Join(words, " ")), cmd.Short)
	}
	return b.String()
}
