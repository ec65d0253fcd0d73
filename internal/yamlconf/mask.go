package yamlconf

import (
	"bytes"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// In { } and [ ] YAML reads the braces of ${VAR} as its own, so that the unquoted
// form that everybody writes would be a syntax error there. References are
// therefore spelt with two private-use characters while the library parses, which
// changes no line and no valid document, and spelt back in every scalar after it.
const (
	maskOpen  = "\ue000"
	maskClose = "\ue001"
)

var (
	reference = regexp.MustCompile(`\$\{([^{}"'\r\n]*)\}`)
	unmasker  = strings.NewReplacer(maskOpen, "${", maskClose, "}")
)

// mask returns data with its references spelt for the parser. Data that holds the
// private characters itself is left alone: nothing could tell them apart later.
func mask(data []byte) (masked []byte, done bool) {
	if bytes.Contains(data, []byte(maskOpen)) || bytes.Contains(data, []byte(maskClose)) {
		return data, false
	}
	return reference.ReplaceAll(data, []byte(maskOpen+"$1"+maskClose)), true
}

// unmask spells the references in a node and below it back. It does not follow
// aliases: what they point to is below some other node.
func unmask(n *yaml.Node) {
	n.Value = unmasker.Replace(n.Value)
	for _, child := range n.Content {
		unmask(child)
	}
}
