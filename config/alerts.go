package config

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"

	"drawbridge/internal/httpx"
)

// Alerts are webhooks that tell a program of yours what waits for a person.
type Alerts struct {
	// URL takes the webhooks; "" sends none. It may come by reference, because such an address often holds a secret.
	URL string `yaml:"url"`
	// Secret signs, in the form of Standard Webhooks: whsec_ and base64. OldSecret signs, too, while a receiver changes over.
	Secret    Secret `yaml:"secret"`
	OldSecret Secret `yaml:"old_secret"`
	// Private lets URL lead to an address that is not public.
	Private bool `yaml:"private"`
	// Contents sends the words of agents, too.
	Contents bool `yaml:"contents"`
}

// Keys are the bytes of the secrets, the newest first.
func (a Alerts) Keys() (keys [][]byte) {
	for _, s := range []Secret{a.Secret, a.OldSecret} {
		if key, err := alertKey(s); err == nil && len(key) > 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

func alertKey(s Secret) ([]byte, error) {
	text, ok := strings.CutPrefix(s.Reveal(), "whsec_")
	if !ok {
		return nil, errors.New("no prefix")
	}
	return base64.StdEncoding.DecodeString(text)
}

// The bounds of a signing secret, in bytes, as Standard Webhooks has them.
const (
	minAlertKey = 24
	maxAlertKey = 64
)

const alertRemedy = `make one with: echo "whsec_$(openssl rand -base64 32)"`

func (c *checker) alerts(a Alerts) {
	if a.URL == "" {
		for _, key := range []string{"url", "secret", "old_secret", "private", "contents"} {
			if c.file.Has("alerts." + key) {
				c.problem("alerts.url", "", "is required", "write the https address that takes the alerts, or remove alerts")
				return
			}
		}
		return
	}
	u, err := url.Parse(a.URL)
	switch { // the value is not shown: it may hold a secret
	case err != nil, u.Host == "", u.Hostname() == "", u.Fragment != "", !visible.MatchString(a.URL):
		c.problem("alerts.url", "", "is not a web address", "write https://host/path")
	case u.User != nil:
		c.problem("alerts.url", "", "holds a user name or password", "remove everything before the @")
	case u.Scheme != "https" && (u.Scheme != "http" || !httpx.Loopback(u.Hostname())):
		c.problem("alerts.url", "", "is not an https address", "write https://host/path, or http:// for this machine only")
	case !a.Private && httpx.Loopback(u.Hostname()):
		c.problem("alerts.url", "", "leads to this machine", "to allow that, write private: true below alerts")
	}
	c.alertSecret("alerts.secret", a.Secret, true)
	c.alertSecret("alerts.old_secret", a.OldSecret, false)
}

func (c *checker) alertSecret(at string, s Secret, required bool) {
	if s.Len() == 0 {
		switch {
		case required:
			c.problem(at, "", "is required", alertRemedy)
		case c.file.Has(at):
			c.problem(at, "", "is empty", "write the earlier secret, or remove the key")
		}
		return
	}
	key, err := alertKey(s)
	switch {
	case err != nil:
		c.problem(at, "", "is not whsec_ followed by base64", alertRemedy)
	case len(key) < minAlertKey || len(key) > maxAlertKey:
		c.problem(at, "", "does not have 24 to 64 bytes", alertRemedy)
	}
}
