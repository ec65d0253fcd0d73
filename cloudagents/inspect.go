package cloudagents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"drawbridge/bridge"
	"drawbridge/internal/strictjson"
)

const (
	// maxArtifactPath bounds a path as it is reported, in bytes.
	maxArtifactPath = 512
	// maxCount bounds sizes and tokens: beyond it a JSON number is not exact.
	maxCount = 1 << 53
	// maxCents bounds a cost: ten million dollars are nobody's agent.
	maxCents       = 1e9
	microsPerCent  = 10_000
	whatInspecting = "inspect agent"
)

// Inspect reads the list of artifacts and, at v1, the usage, whose endpoint is in
// early access: an account without it gets no Usage and no word in Unread. It
// looks at the agent only, so that r.Run may be empty. Characters of a path that
// are not printable come escaped, and a long path is cut.
func (c *Client) Inspect(ctx context.Context, r bridge.RunRef) (bridge.Evidence, error) {
	api, err := c.version(r.API)
	if err == nil {
		err = checkID(whatInspecting, r.Agent)
	}
	if err != nil {
		return bridge.Evidence{}, err
	}
	i := inspection{Client: c, api: api, agent: r.Agent, run: r.Run}
	artifactsErr := i.readArtifacts(ctx)
	if api == bridge.APIv0 || refusesAll(artifactsErr) {
		return i.evidence(), artifactsErr
	}
	usageErr := i.readUsage(ctx)
	if artifactsErr != nil && i.usage == nil {
		return bridge.Evidence{}, artifactsErr
	}
	i.failed("artifacts", artifactsErr)
	i.failed("usage", usageErr)
	return i.evidence(), nil
}

// inspection collects the evidence of one agent.
type inspection struct {
	*Client
	api, agent, run string

	artifacts []bridge.Artifact
	usage     *bridge.Usage
	spent     *bridge.Tokens
	unread    []string
}

func (i *inspection) evidence() bridge.Evidence {
	return bridge.Evidence{Artifacts: i.artifacts, Usage: i.usage, Spent: i.spent, Unread: strings.Join(i.unread, "; ")}
}

func (i *inspection) leftOut(format string, args ...any) {
	i.unread = append(i.unread, fmt.Sprintf(format, args...))
}

func (i *inspection) failed(part string, err error) {
	if err != nil {
		i.leftOut("%s: %s", part, strings.TrimPrefix(bridge.SafeMessage(err), whatInspecting+": "))
	}
}

// refusesAll reports whether a second question would be met in the same way.
func refusesAll(err error) bool {
	switch bridge.KindOf(err) {
	case bridge.RateLimited, bridge.UsageLimited, bridge.Unauthenticated:
		return true
	}
	return false
}

// readArtifacts takes what it can of a list and says what it left out.
func (i *inspection) readArtifacts(ctx context.Context) error {
	k := get(whatInspecting, "/"+i.api+"/agents/"+i.agent+"/artifacts")
	k.strict = true
	var out struct {
		Items     *[]json.RawMessage `json:"items"`
		Artifacts *[]json.RawMessage `json:"artifacts"`
	}
	if err := i.do(ctx, k, &out); err != nil {
		return err
	}
	list := out.Items
	if i.api == bridge.APIv0 {
		list = out.Artifacts
	}
	if list == nil {
		return i.garbled(k, errors.New("the answer holds no list of artifacts"))
	}
	bad := 0
	for _, raw := range (*list)[:min(len(*list), maxListed)] {
		a, ok := artifactOf(raw, i.api)
		if !ok {
			bad++
			continue
		}
		i.artifacts = append(i.artifacts, a)
	}
	if bad > 0 {
		i.leftOut("artifacts: entries of the list without a usable path or size: %d", bad)
	}
	if n := len(*list); n > maxListed {
		i.leftOut("artifacts: the API lists %d, only the first %d were looked at", n, maxListed)
	}
	return nil
}

func artifactOf(raw json.RawMessage, api string) (bridge.Artifact, bool) {
	var in struct {
		Path     string `json:"path"`
		Absolute string `json:"absolutePath"`
		Size     *int64 `json:"sizeBytes"`
	}
	if strictjson.Decode(raw, &in) != nil || in.Size == nil || !isCount(*in.Size) {
		return bridge.Artifact{}, false
	}
	path := in.Path
	if api == bridge.APIv0 {
		path = in.Absolute
	}
	return bridge.Artifact{Path: clip(path, maxArtifactPath), Size: *in.Size}, path != ""
}

func isCount(n int64) bool { return 0 <= n && n <= maxCount }

// readUsage leaves Usage nil where the account has no access to it, which is no error.
func (i *inspection) readUsage(ctx context.Context) error {
	k := get(whatInspecting, "/v1/agents/"+i.agent+"/usage")
	k.strict = true
	var out struct {
		Total *tokensV1       `json:"totalUsage"`
		Cost  json.RawMessage `json:"cost"`
		Runs  json.RawMessage `json:"runs"`
	}
	err := i.do(ctx, k, &out)
	if bridge.KindOf(err) == bridge.Denied && hasCode(err, codeNoFeature) {
		return nil
	}
	if err != nil {
		return err
	}
	tokens, ok := out.Total.sum()
	if !ok {
		return i.garbled(k, errors.New("the answer holds no usable sum of tokens"))
	}
	i.usage, i.spent = &bridge.Usage{Tokens: tokens}, spentBy(i.run, out.Runs)
	if len(out.Cost) == 0 || string(out.Cost) == "null" {
		return nil // it may come later, or never
	}
	if i.usage.CostMicros, i.usage.CostKnown = costOf(out.Cost); !i.usage.CostKnown {
		i.leftOut("cost: the API's answer is not an amount")
	}
	return nil
}

// spentBy finds one run in the API's list. A run without usage yet shows zeros (facts: 4.5). No
// budget hangs on it, so a list that cannot be read counts as one without the run.
func spentBy(run string, list json.RawMessage) *bridge.Tokens {
	var runs []struct {
		ID    string    `json:"id"`
		Usage *tokensV1 `json:"usage"`
	}
	if run == "" || strictjson.Decode(list, &runs) != nil {
		return nil
	}
	for _, r := range runs {
		if n, ok := r.Usage.sum(); r.ID == run && ok && n > 0 {
			return &bridge.Tokens{Input: *r.Usage.Input, Output: *r.Usage.Output, CacheWrite: *r.Usage.CacheWrite, CacheRead: *r.Usage.CacheRead}
		}
	}
	return nil
}

type tokensV1 struct {
	Input      *int64 `json:"inputTokens"`
	Output     *int64 `json:"outputTokens"`
	CacheWrite *int64 `json:"cacheWriteTokens"`
	CacheRead  *int64 `json:"cacheReadTokens"`
	Total      *int64 `json:"totalTokens"`
}

// sum is the total as told, or the sum of its parts should that be more: a budget
// must not be undercut by an answer that contradicts itself.
func (t *tokensV1) sum() (int64, bool) {
	if t == nil {
		return 0, false
	}
	parts := int64(0)
	for _, n := range []*int64{t.Input, t.Output, t.CacheWrite, t.CacheRead, t.Total} {
		if n == nil || !isCount(*n) {
			return 0, false
		}
		parts += *n // five times 2^53 at most
	}
	return max(*t.Total, parts-*t.Total), true
}

// costOf reads what was charged. It is in no public document, only in the SDK's
// types and in live answers (facts: 4.5).
func costOf(raw json.RawMessage) (micros int64, known bool) {
	var in struct {
		Charged *float64 `json:"chargedCents"`
	}
	if strictjson.Decode(raw, &in) != nil || in.Charged == nil || !(*in.Charged >= 0 && *in.Charged <= maxCents) {
		return 0, false
	}
	return int64(math.Round(*in.Charged * microsPerCent)), true
}
