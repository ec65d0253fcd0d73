package yamlconf

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"drawbridge/internal/trust"
)

// decoder walks the nodes of one file beside the value that they fill.
type decoder struct {
	src      Source
	file     *File
	problems []Problem
	more     int
	// lines are the file's own.
	lines []string
	// inAlias is how many aliases the walk stands in, aliased what they cost so far.
	inAlias, aliased int
}

var (
	secretType   = reflect.TypeFor[Secret]()
	durationType = reflect.TypeFor[time.Duration]()
)

func (d *decoder) problem(p Problem) {
	if len(d.problems) == maxProblems {
		d.more++
		return
	}
	d.problems = append(d.problems, p)
}

func (d *decoder) report() []Problem {
	if d.more == 0 {
		return d.problems
	}
	rest := Problem{At: d.src.Name, Reason: fmt.Sprintf("has more problems than these: %d", d.more), Remedy: "fix these first"}
	return append(d.problems, rest)
}

// wrong reports a node that cannot be read, with its value where that is a scalar.
func (d *decoder) wrong(n *yaml.Node, path, reason, remedy string) {
	p := Problem{At: at(d.src.Name, n.Line), Key: path, Reason: reason, Remedy: remedy}
	if n.Kind == yaml.ScalarNode {
		p.Value = n.Value
	}
	d.problem(p)
}

func (d *decoder) value(n *yaml.Node, path string, v reflect.Value) {
	line := n.Line
	if n.Kind == yaml.AliasNode {
		d.inAlias++
		defer func() { d.inAlias-- }()
		n = n.Alias
	}
	if d.exhausted(n) {
		return
	}
	d.file.lines[path] = line
	if next := runsOn(n, d.lines); next > 0 {
		d.wrong(n, path, fmt.Sprintf("goes on at line %d, because that line is indented more", next), "indent both lines alike, or put one value on one line")
		return
	}
	switch {
	case v.Type() == secretType:
		d.secret(n, path, v)
	case v.Type() == durationType:
		d.duration(n, path, v)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, path, v.Elem())
	case v.Kind() == reflect.Struct:
		d.structure(n, path, v)
	case v.Kind() == reflect.Slice:
		d.list(n, path, v)
	case v.Kind() == reflect.Map:
		d.mapping(n, path, v)
	default:
		d.scalar(n, path, v)
	}
}

// exhausted reports whether the aliases of the file stand for too much.
func (d *decoder) exhausted(n *yaml.Node) bool {
	if d.inAlias == 0 {
		return false
	}
	d.aliased++
	if d.aliased == maxAliased {
		d.wrong(n, "", "uses aliases that expand to too many values", "write the values out")
	}
	return d.aliased >= maxAliased
}

func (d *decoder) structure(n *yaml.Node, path string, v reflect.Value) {
	fields := fieldsOf(v)
	if fields.at.IsValid() {
		fields.at.SetString(at(d.src.Name, n.Line))
	}
	if isNull(n) {
		return
	}
	if n.Kind == yaml.ScalarNode && fields.short.IsValid() {
		d.scalar(n, path, fields.short)
		return
	}
	d.pairs(n, path, func(key, value *yaml.Node, below string) {
		field, ok := fields.byName[key.Value]
		if !ok {
			d.unknown(key, below, fields.names)
			return
		}
		before := len(d.problems)
		d.value(value, below, field)
		if words := fields.words[key.Value]; len(words) > 0 && len(d.problems) == before {
			d.oneOf(value, below, field, words)
		}
	})
}

// oneOf reports a text that is none of the words that its field knows.
func (d *decoder) oneOf(n *yaml.Node, path string, v reflect.Value, words []string) {
	if v = reflect.Indirect(v); !slices.Contains(words, v.String()) {
		d.wrong(n, path, "is not known", "use "+Or(words))
	}
}

// Or lists words for a sentence: a, b or c.
func Or(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

func (d *decoder) mapping(n *yaml.Node, path string, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	if isNull(n) {
		return
	}
	d.pairs(n, path, func(key, value *yaml.Node, below string) {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(value, below, elem)
		v.SetMapIndex(reflect.ValueOf(key.Value).Convert(v.Type().Key()), elem)
	})
}

// pairs calls each for every key that is new and is text.
func (d *decoder) pairs(n *yaml.Node, path string, each func(key, value *yaml.Node, path string)) {
	if n.Kind != yaml.MappingNode {
		d.noMapping(n, path)
		return
	}
	first := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || isNull(key) {
			d.wrong(key, path, "is not a usable key", "write a plain word before the colon")
			continue
		}
		below := join(path, keyText(key.Value))
		if line, twice := first[key.Value]; twice {
			d.problem(Problem{At: at(d.src.Name, key.Line), Key: below, Reason: fmt.Sprintf("is given twice, first on line %d", line), Remedy: "keep one of the two"})
			continue
		}
		first[key.Value] = key.Line
		each(key, value, below)
		// The key's own line is what a person looks for, not that of a block below it.
		if d.file.Has(below) {
			d.file.lines[below] = key.Line
		}
	}
}

// noMapping reports a value that should hold keys. A file that is one scalar is
// no configuration but something else, most likely a secret's own file named by
// mistake: its text is not shown.
func (d *decoder) noMapping(n *yaml.Node, path string) {
	shown := *n
	if path == "" {
		shown.Kind = yaml.MappingNode
	}
	d.wrong(&shown, path, "is "+kindName(n)+", not a mapping", "write key: value lines below the key")
}

func (d *decoder) unknown(key *yaml.Node, path string, known []string) {
	remedy := "known here: " + strings.Join(known, ", ")
	if near := nearest(key.Value, known); near != "" {
		remedy = "did you mean " + near + "?"
	}
	d.problem(Problem{At: at(d.src.Name, key.Line), Key: path, Reason: "is not a known key", Remedy: remedy})
}

func (d *decoder) list(n *yaml.Node, path string, v reflect.Value) {
	if isNull(n) {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.wrong(n, path, "is "+kindName(n)+", not a list", "write [a, b], or lines that begin with -")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		d.value(item, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
	}
}

// secret takes exactly one reference. The literal is never repeated: whoever wrote
// a key into the file must not find it in a log as well.
func (d *decoder) secret(n *yaml.Node, path string, v reflect.Value) {
	hidden := func(reason, remedy string) {
		d.problem(Problem{At: at(d.src.Name, n.Line), Key: path, Reason: reason, Remedy: remedy})
	}
	const remedy = "write it to a file and use ${file:path}, or use ${VAR}"
	if n.Kind != yaml.ScalarNode || isNull(n) {
		hidden("is not a reference to a secret", remedy)
		return
	}
	if !wholeReference(n.Value) {
		hidden("holds the secret itself", remedy)
		return
	}
	d.file.written[path] = ""
	text, err := d.src.Interpolate(n.Value, nil)
	if err != nil {
		d.badReference(n, path, err)
		return
	}
	v.Set(reflect.ValueOf(NewSecret(text)))
}

func (d *decoder) duration(n *yaml.Node, path string, v reflect.Value) {
	text, ok := d.text(n, path)
	if !ok {
		return
	}
	span, err := time.ParseDuration(text)
	if err != nil {
		d.wrong(n, path, "is not a duration", "write a number with its unit, such as 500ms, 10s, 5m or 2h")
		return
	}
	v.SetInt(int64(span))
}

func (d *decoder) scalar(n *yaml.Node, path string, v reflect.Value) {
	text, ok := d.text(n, path)
	if !ok {
		return
	}
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			d.wrong(n, path, "is neither true nor false", "write true or false")
			return
		}
		v.SetBool(text == "true")
	case v.CanInt():
		number, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			d.wrong(n, path, "is not a whole number in range", "write digits only")
			return
		}
		v.SetInt(number)
	default:
		d.wrong(n, path, "cannot be configured", "remove it")
	}
}

// text returns a scalar's text with its references replaced.
func (d *decoder) text(n *yaml.Node, path string) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode:
		d.wrong(n, path, "is "+kindName(n)+", not a single value", "write one value")
		return "", false
	case isNull(n):
		d.wrong(n, path, "has no value", `write a value, "" for an empty text, or remove the key`)
		return "", false
	case n.Style&yaml.TaggedStyle != 0:
		d.wrong(n, path, "has a YAML tag", "remove the tag that begins with !")
		return "", false
	}
	text, err := d.src.Interpolate(n.Value, nil)
	if err != nil {
		d.badReference(n, path, err)
		return "", false
	}
	if text != n.Value {
		d.file.written[path] = n.Value
	}
	return text, true
}

func (d *decoder) badReference(n *yaml.Node, path string, err error) {
	p := Problem{At: at(d.src.Name, n.Line), Key: path, Reason: err.Error()}
	var why *trust.Problem
	if errors.As(err, &why) {
		p.Reason, p.Remedy = why.Reason, why.Remedy
	}
	d.problem(p)
}

// structFields are the settable fields of one struct by what their tags say.
type structFields struct {
	byName map[string]reflect.Value
	// words are what a text may be, for fields whose tag says it.
	words     map[string][]string
	names     []string
	short, at reflect.Value
}

func fieldsOf(v reflect.Value) structFields {
	f := structFields{byName: make(map[string]reflect.Value, v.NumField()), words: map[string][]string{}}
	for i := range v.NumField() {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		switch option {
		case "at":
			f.at = v.Field(i)
		case "short":
			f.short = v.Field(i)
		}
		if name != "" && name != "-" {
			f.byName[name] = v.Field(i)
			f.words[name] = strings.Fields(v.Type().Field(i).Tag.Get("oneof"))
			f.names = append(f.names, name)
		}
	}
	slices.Sort(f.names)
	return f
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
