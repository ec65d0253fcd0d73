package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Help shows an example.
func (completionCmd) Help() string {
	return "Examples:\n  source <(drawbridge completion bash)     # in ~/.bashrc\n  source <(drawbridge completion zsh)      # in ~/.zshrc, behind compinit\n" +
		"  drawbridge completion fish > ~/.config/fish/completions/drawbridge.fish"
}

// completionScripts make a shell call drawbridge with the line typed so far in COMP_LINE, as bash does for complete -C.
var completionScripts = map[string]string{
	"bash": "complete -o default -C drawbridge drawbridge\n",
	"zsh":  "autoload -U +X bashcompinit && bashcompinit\ncomplete -o default -C drawbridge drawbridge\n",
	"fish": "complete -c drawbridge -a '(env COMP_LINE=(commandline -cp) drawbridge)'\n",
}

// Run prints the script.
func (c completionCmd) Run(a app) error {
	_, err := fmt.Fprint(a.stdout, completionScripts[c.Shell])
	return err
}

// completions returns what may stand in the place of the last word of a line: commands, flags or the values of a flag. It is empty where any
// text may stand, so that the shell offers files.
func completions(root *kong.Node, line string) (all []string) {
	words := strings.Split(line, " ")
	if len(words) < 2 { // the shell completes the program's own name
		return nil
	}
	last := words[len(words)-1]
	node, flag := nodeOf(root, words[1:len(words)-1])
	flags := slices.Concat(node.AllFlags(true)...)
	if at := slices.IndexFunc(flags, func(f *kong.Flag) bool { return "--"+f.Name == flag }); at >= 0 && !flags[at].IsBool() {
		all = flags[at].EnumSlice()
	} else if strings.HasPrefix(last, "-") {
		for _, f := range flags {
			all = append(all, "--"+f.Name)
		}
	} else {
		for _, child := range node.Children {
			if !child.Hidden {
				all = append(all, child.Name)
			}
		}
		for _, argument := range node.Positional {
			all = append(all, argument.EnumSlice()...)
		}
	}
	return slices.DeleteFunc(all, func(word string) bool { return word == "" || !strings.HasPrefix(word, last) })
}

// nodeOf returns the command that words name, and the last word.
func nodeOf(root *kong.Node, words []string) (node *kong.Node, last string) {
	node = root
	for _, last = range words {
		if at := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == last }); at >= 0 {
			node = node.Children[at]
		}
	}
	return node, last
}
