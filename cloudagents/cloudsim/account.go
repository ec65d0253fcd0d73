package cloudsim

import (
	"strings"
	"time"

	"drawbridge/cloudagents/cloudsim/script"
)

// stamp is the vendor's form of times: RFC 3339 with milliseconds, in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// keyCreated is when every key of the simulator was made; the vendor shows a date and nothing depends on it.
var keyCreated = time.Date(2026, 1, 15, 10, 30, 0, 0, time.UTC)

func (s *Sim) me(c *call) (reply, error) {
	a := s.rules.Account
	out := map[string]any{"apiKeyName": a.KeyName, "createdAt": stamp(keyCreated)}
	if a.Service {
		return ok(out)
	}
	out["userEmail"] = a.Email
	if c.api == script.V1 {
		out["userId"] = a.UserID
		if a.FirstName != "" {
			out["userFirstName"] = a.FirstName
		}
		if a.LastName != "" {
			out["userLastName"] = a.LastName
		}
	}
	return ok(out)
}

func (s *Sim) v0Models(*call) (reply, error) {
	ids := []string{}
	for _, m := range s.models {
		if m.ID != "default" {
			ids = append(ids, m.ID)
		}
	}
	return ok(map[string]any{"models": ids})
}

func (s *Sim) v1Models(*call) (reply, error) { return ok(map[string]any{"items": s.models}) }

func (s *Sim) v0Repositories(c *call) (reply, error) {
	if err := s.limitLists(c.key); err != nil {
		return reply{}, err
	}
	list := []map[string]string{}
	for _, raw := range s.rules.Repositories {
		repo, _ := script.RepoPath(raw)
		parts := strings.Split(repo, "/")
		list = append(list, map[string]string{"owner": parts[1], "name": parts[2], "repository": "https://" + repo})
	}
	return ok(map[string]any{"repositories": list})
}

func (s *Sim) v1Repositories(c *call) (reply, error) {
	if err := s.limitLists(c.key); err != nil {
		return reply{}, err
	}
	list := []map[string]string{}
	for _, raw := range s.rules.Repositories {
		repo, _ := script.RepoPath(raw)
		list = append(list, map[string]string{"url": "https://" + repo})
	}
	return ok(map[string]any{"items": list})
}

// limitLists allows one call of the repository lists a minute and 30 an hour, v0 and v1 counted together. A refused call
// does not count.
func (s *Sim) limitLists(key string) error {
	if s.settings.UnlimitedRepositories {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	calls := s.lists[key]
	for len(calls) > 0 && now.Sub(calls[0]) >= time.Hour {
		calls = calls[1:]
	}
	var free time.Time
	limit := 1
	if n := len(calls); n > 0 {
		free = calls[n-1].Add(time.Minute)
		if hourly := calls[0].Add(time.Hour); n >= 30 && hourly.After(free) {
			free, limit = hourly, 30
		}
	}
	if free.After(now) {
		return tooMany(limit, free, free.Sub(now))
	}
	s.lists[key] = append(calls, now)
	return nil
}
