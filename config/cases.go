package config

import (
	"fmt"
	"slices"
	"strings"

	"drawbridge/internal/yamlconf"
	"drawbridge/policy"
)

// Case is a test of an allowlist: what an agent says, and what the gate must answer.
type Case struct {
	// Name is for people; "" for none.
	Name string
	// Agent is the name of the agent that says it; "" goes by the general lists alone.
	Agent string
	Says  string
	// Want has an answer for each command of Says, in order.
	Want []Answer
	// At is where the case stands, as file:line.
	At string
}

// Answer is what the gate must say to a command. Code is "" where any will do.
type Answer struct {
	Decision policy.Decision
	Code     policy.Code
}

// String is the answer as written, such as held needs_approval.
func (a Answer) String() string {
	return strings.TrimSuffix(string(a.Decision)+" "+string(a.Code), " ")
}

// cases is a file of test cases as written.
type cases struct {
	Tests []caseEntry `yaml:"tests"`
}

type caseEntry struct {
	Name  string   `yaml:"name"`
	Agent string   `yaml:"agent"`
	Says  *string  `yaml:"says"`
	Want  []string `yaml:"want"`
	At    string   `yaml:",at"`
}

// LoadCases reads test cases of an allowlist, and reports every problem. Others may change the file. ${ is plain text in it.
func LoadCases(path string) ([]Case, []Problem) {
	src, problem := openAny(path)
	if problem != nil {
		problem.Remedy = "name a file of test cases, or write one: see `drawbridge policy test --help`"
		return nil, []Problem{*problem}
	}
	src.Plain = true // a prompt may well hold a ${
	var read cases
	file, problems := yamlconf.Read(src, &read)
	if unreadable(file, problems) {
		return nil, problems
	}
	c := checker{file: file, reported: keysOf(problems)}
	if len(read.Tests) == 0 && len(problems) == 0 {
		c.problem("tests", "", "has no test", "write at least one case below tests, with says and want")
	}
	var all []Case
	for i, e := range read.Tests {
		key := fmt.Sprintf("tests[%d]", i)
		if e.Says == nil && !c.reported[key+".says"] {
			c.problem(key+".says", "", "is missing", "write what the agent says")
		}
		if e.Want == nil && !c.reported[key+".want"] {
			c.problem(key+".want", "", "is missing", "write the answer to each command, as in [granted]; [] means that nothing is a command")
		}
		one := Case{Name: e.Name, Agent: e.Agent, Says: orEmpty(e.Says), At: e.At}
		for n, want := range e.Want {
			word, code, _ := strings.Cut(want, " ")
			answer := Answer{policy.Decision(word), policy.Code(code)}
			if !slices.Contains([]policy.Decision{policy.Granted, policy.Held, policy.Refused, policy.Noted}, answer.Decision) || answer.String() != want || strings.ContainsAny(code, " \r\n") {
				c.problem(fmt.Sprintf("%s.want[%d]", key, n), want, "is not an answer", "write granted, held, refused or noted; a code may follow, as in: held needs_approval")
			}
			one.Want = append(one.Want, answer)
		}
		all = append(all, one)
	}
	if problems = append(problems, c.problems...); len(problems) > 0 {
		return nil, problems
	}
	return all, nil
}

// EditedAllowlist reads a text of an allowlist that somebody sent. ${ is plain text in it.
func EditedAllowlist(text string) (policy.Rules, []Problem) {
	return ParseAllowlist(Source{Name: "edited allowlist", Data: []byte(text), Plain: true})
}
