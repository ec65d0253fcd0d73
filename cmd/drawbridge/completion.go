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
	if len(words) > 2 && words[1] == "help" { // a command stands behind it
		words = words[1:]
	}
	if len(words) < 2 { // the shell completes the program's own name
		return nil
	}
	last, at := words[len(words)-1], walk(root, words[1:len(words)-1])
	switch {
	case at.flag != nil:
		all = at.flag.EnumSlice()
	case strings.HasPrefix(last, "-"):
		for _, f := range at.flags() {
			all = append(all, "--"+f.Name)
		}
	default:
		for _, child := range at.node.Children {
			if !child.Hidden {
				all = append(all, child.Name)
			}
		}
		if at.given < len(at.node.Positional) {
			all = append(all, at.node.Positional[at.given].EnumSlice()...)
		}
	}
	return slices.DeleteFunc(all, func(word string) bool { return word == "" || !strings.HasPrefix(word, last) })
}

// spot is how far words lead: a command, how many of its arguments are given, and the flag whose value comes next, or nil.
type spot struct {
	node  *kong.Node
	given int
	flag  *kong.Flag
}

func (s spot) flags() []*kong.Flag { return slices.Concat(s.node.AllFlags(true)...) }

func walk(root *kong.Node, words []string) spot {
	s := spot{node: root}
	for _, word := range words {
		child := slices.IndexFunc(s.node.Children, func(n *kong.Node) bool { return n.Name == word })
		switch {
		case word == "":
		case s.flag != nil:
			s.flag = nil
		case strings.HasPrefix(word, "-"):
			if at := slices.IndexFunc(s.flags(), func(f *kong.Flag) bool { return "--"+f.Name == word && !f.IsBool() }); at >= 0 {
				s.flag = s.flags()[at]
			}
		case child >= 0:
			s.node = s.node.Children[child]
		default:
			s.given++
		}
	}
	return s
}
