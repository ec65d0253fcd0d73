package limits_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"drawbridge/relay/agents/limits"
)

// spelling is a text as an agent wrote it. Sources with # are issues and pull requests of public repositories; "run" is what the agent wrote
// when it was run against a scripted model.
type spelling struct {
	source, text string
	// now is when it is read, noon of 22 November 2026 in UTC if not set; the zone of times without one is New York's.
	now string
	// until is the time in RFC 3339, or a first wait such as 15m0s for a text without a time.
	until string
}

const noon = "2026-11-22T12:00:00Z" // a Sunday, 7 in the morning in New York

var spellings = []spelling{
	// Claude Code
	{"anthropics/claude-code #11429", "Claude AI usage limit reached|1762952400", "2025-11-12T12:00:00Z", "2025-11-12T13:00:00Z"},
	{"anthropics/claude-code #15064", "Claude usage limit reached. Your limit will reset at 9am (America/Chicago).", "", "2026-11-22T15:00:00Z"},
	{"anthropics/claude-code #2087", "Claude usage limit reached. Your limit will reset at 1pm (Etc/GMT+5).", "", "2026-11-22T18:00:00Z"},
	{"aniketkarne/CCAutoRenew #3", "Claude usage limit reached. Your limit will reset at 12am.", "", "2026-11-23T05:00:00Z"},
	{"anthropics/claude-code #77978", "You've hit your session limit · resets 2:30pm (Pacific/Auckland)", "2026-07-15T23:30:00Z", "2026-07-16T02:30:00Z"},
	{"anthropics/claude-code #79136", "You've hit your session limit · resets 10:30pm (Europe/Berlin)\n/login to switch to an API usage-billed account.", "2026-07-19T16:00:00Z", "2026-07-19T20:30:00Z"},
	{"anthropics/claude-code #87400", "You've hit your session limit · resets 1:10am (Europe/Moscow)", "2026-08-17T20:00:00Z", "2026-08-17T22:10:00Z"},
	{"anthropics/claude-code #21562", "You've hit your limit · resets Jan 30, 11:30am (Asia/Calcutta)", "2026-01-28T10:00:00Z", "2026-01-30T06:00:00Z"},
	{"anthropics/claude-code #25583", "⎿  You've hit your limit · resets Feb 16, 11am (Europe/Berlin)", "2026-02-13T10:00:00Z", "2026-02-16T10:00:00Z"},
	{"anthropics/claude-code #52334", "You've hit your limit · resets 10pm ", "", "2026-11-23T03:00:00Z"},
	{"anthropics/claude-code #12308", "5-hour limit reached · resets 2pm (Pacific/Auckland) · /upgrade to Max 20x or turn on /extra-usage", "2025-11-23T22:00:00Z", "2025-11-24T01:00:00Z"},
	{"anthropics/claude-code #10333", "Opus weekly limit reached ∙ resets Oct 31, 9am", "2025-10-25T10:00:00Z", "2025-10-31T13:00:00Z"},
	{"anthropics/claude-code #10333", "Opus weekly limit reached ∙ resets Oct 24", "2025-10-20T10:00:00Z", "2025-10-24T04:00:00Z"},
	{"anthropics/claude-code #8958", "Claude usage limit reached: resets at 6am tomorrow", "", "2026-11-23T11:00:00Z"},
	{"public test of a loop for Claude Code", "You've hit your weekly limit · resets Sunday 12:00am", "", "2026-11-29T05:00:00Z"},
	{"public transcript of Claude Code", "You've hit your weekly limit · resets Sep 21, 10am (America/Los_Angeles)", "2026-09-19T10:00:00Z", "2026-09-21T17:00:00Z"},
	{"public transcript of Claude Code", "You've hit your weekly limit · resets Aug 16 at 1am (Asia/Tokyo)", "2026-08-14T10:00:00Z", "2026-08-15T16:00:00Z"},
	{"public transcript of Claude Code", "You're out of extra usage · resets 4pm.", "", "2026-11-22T21:00:00Z"},
	{"paperclipai/paperclip PR #5776", `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1778565600,"rateLimitType":"five_hour"}}`, "2026-05-12T04:00:00Z", "2026-05-12T06:00:00Z"},
	{"run: Claude Code 2.1.330", "API Error: Request rejected (429) · This request would exceed your account's rate limit. Please try again later.", "", "1m0s"},
	{"anthropics/claude-code #11429", `Error: 429 {"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your account's rate limit. Please try again later."}}`, "", "1m0s"},
	{"Anthropic's API", `API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, "", "1m0s"},
	{"Claude Code", "Credit balance is too low", "", "1h0m0s"},
	{"Anthropic's API, headers", "429 Too Many Requests\nanthropic-ratelimit-unified-reset: 1795359600\nretry-after: 3600", "", "2026-11-22T15:00:00Z"},

	// Codex
	{"openai/codex #3899", "■ You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in 5 days 22 hours 11\nminutes.", "", "2026-11-28T10:11:00Z"},
	{"openai/codex #3257", "You've hit your usage limit. Try again in 4 days 20 hours 9 minutes.", "", "2026-11-27T08:09:00Z"},
	{"openai/codex #21047", "You've hit your usage limit. Upgrade to Plus to continue using Codex (https://chatgpt.com/explore/plus), or try again at May 11th, 2026 1:36 PM.", "2026-05-04T10:00:00Z", "2026-05-11T17:36:00Z"},
	{"openai/codex #26668", "You've hit your usage limit. Upgrade to Plus to continue using Codex (https://chatgpt.com/explore/plus), or try again at Jul 5th, 2026 8:19 PM.", "2026-06-05T10:00:00Z", "2026-06-13T10:00:00Z"},
	{"openai/codex #28089", "You've hit your usage limit. Upgrade your plan to continue, or try again at 10 de jul. de 2026, 11:52.", "2026-07-09T10:00:00Z", "2026-07-10T15:52:00Z"},
	{"openai/codex #41689", "You have reached the usage limit. Upgrade or add credits to continue, or try again after September 6, 2026, 11:15.", "2026-09-01T10:00:00Z", "2026-09-06T15:15:00Z"},
	{"run: codex-cli 0.169.0", "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit https://chatgpt.com/settings/usage to purchase more credits or try again at 6:53 PM.", "", "2026-11-22T23:53:00Z"},
	{"run: codex-cli 0.169.0", "You’ve hit your usage limit. Visit https://chatgpt.com/settings/usage to purchase more credits or try again at 6:53 AM.", "", "2026-11-22T12:01:00Z"},
	{"run: codex-cli 0.169.0", "exceeded retry limit, last status: 429 Too Many Requests", "", "1m0s"},
	{"openai/codex #2669", "🖐 You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing), or wait for limits to reset (every 5h and every week.).", "", "15m0s"},
	{"earendil-works/pi #4172", `Error: Codex error: {"type":"error","error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_at":1777936568,"eligible_promo":null,"resets_in_seconds":13872},"status_code":429,"headers":{"X-Codex-Primary-Reset-After-Seconds":"13873","X-Codex-Secondary-Reset-At":"1778239400"}}`, "2026-05-04T18:00:00Z", "2026-05-04T23:16:08Z"},
	{"NousResearch/hermes-agent #26889", `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_in_seconds":756}}`, "", "2026-11-22T12:12:36Z"},
	{"anomalyco/opencode #1712", "Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Used 14582, Requested 21045. Please try again in 11.254s. Visit https://platform.openai.com/account/rate-limits to learn more.", "", "2026-11-22T12:01:00Z"},
	{"OpenAI's API", "You exceeded your current quota, please check your plan and billing details.", "", "1h0m0s"},
	{"OpenAI's API, headers", "429 Too Many Requests x-ratelimit-reset-tokens: 6m0s", "", "2026-11-22T12:06:00Z"},

	// Gemini
	{"google-gemini/gemini-cli #25103", "[Backend Error] You have exhausted your capacity on this model. Your quota will reset after 4h28m20s. (HTTP 429)", "", "2026-11-22T16:28:20Z"},
	{"google-gemini/gemini-cli #22107", "Attempt 1 failed: You have exhausted your capacity on this model. Your quota will reset after 5s.. Retrying after 6173ms...", "", "2026-11-22T12:01:00Z"},
	{"google-gemini/gemini-cli #10925", `✕ [API Error: [{ "error": { "code": 429, "message": "Quota exceeded for quota metric 'Gemini 2.5 Pro Requests' and limit 'Gemini 2.5 Pro Requests per day per user per tier'", "status": "RESOURCE_EXHAUSTED" } }]`, "", "15m0s"},
	{"google-gemini/gemini-cli #1848", `[API Error: Resource has been exhausted (e.g. check quota).]`, "", "15m0s"},
	{"Gemini's API", `{"error":{"code":429,"message":"{\n \"error\": {\n \"status\": \"RESOURCE_EXHAUSTED\", \"details\": [{\"@type\": \"type.googleapis.com/google.rpc.RetryInfo\", \"retryDelay\": \"334.07s\"}]}}"}}`, "", "2026-11-22T12:05:34.07Z"},
	{"public test of Gemini CLI's banner", "Usage limit reached for all Pro models. Access resets at 11:00 AM GMT+2.", "2026-11-22T05:00:00Z", "2026-11-22T09:00:00Z"},
	{"Gemini CLI's banner", "Usage limit reached for gemini-2.5-pro. Access resets at 3:45 PM PST. /stats model for usage details", "", "2026-11-22T23:45:00Z"},

	// Cursor
	{"cursor/cursor #3703", "Error: You've hit your usage limit\n  Get Cursor Pro for more Agent usage, unlimited Tab, and more.\n  fallbackModel: \n  spendLimitHit: false\n  chatMessage: *You've hit your free requests limit. [Upgrade to \n  Pro](https://www.cursor.com/api/auth/checkoutDeepControl?tier=pro) for more usage. Your usage limits will reset when your monthly cycle ends on 11/27/2026.*\n  spendLimits: [50,100,200]", "", "2026-11-27T05:00:00Z"},
	{"saaranshM/unsnooze PR #19", "chatMessage: *You've hit your free requests limit. … Your usage limits will\nreset when your monthly cycle ends on 10/2/2026.*", "2026-09-02T10:00:00Z", "2026-09-10T10:00:00Z"},

	// OpenCode and those behind it
	{"anomalyco/opencode #22015", "Usage limit reached for 5 hour. Your limit will reset at 2026-04-11 20:30:24 [retrying in 2m 22s #8]", "2026-04-11T20:00:00Z", "2026-04-12T00:30:24Z"},
	{"anomalyco/opencode #43324", "5 hour usage limit reached. It will reset in 3 hours 20 minutes.", "", "2026-11-22T15:20:00Z"},
	{"OpenCode's status line", "Rate Limited [retrying in 2h 5m attempt #4]", "", "2026-11-22T14:05:00Z"},
	{"anomalyco/opencode #42452", "Error from provider (Console): Rate limit exceeded. Please try again later.", "", "1m0s"},
	{"anomalyco/opencode #21465", "Too many requests, the rate limit is 8000000 tokens per minute.", "", "1m0s"},
	{"anomalyco/opencode #16994", "You have exceeded the request rate limit. Please wait a short period before retrying your request", "", "1m0s"},
	{"z.ai", `{"error":{"code":"1310","message":"Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-11-24 12:05:49"}}`, "", "2026-11-24T17:05:49Z"},

	// Copilot, Kimi, Kiro, Qwen
	{"github/copilot-cli #2336", "Sorry, you've hit a rate limit that restricts the number of Copilot model requests you can make within a specific time period. Please try again in 2 hours. Please review our Terms of Service", "", "2026-11-22T14:00:00Z"},
	{"github/copilot-cli #2754", "Sorry, you've hit a rate limit. Please try again in 15 hours 23 minutes.", "", "2026-11-23T03:23:00Z"},
	{"github/copilot-cli #2740", "Sorry, you have been rate-limited. Please wait 2 minutes before trying again or consider switching to Auto.", "", "2026-11-22T12:02:00Z"},
	{"github/copilot-cli #2828", "You've reached your weekly rate limit. Please wait for your limit to reset on April 20, 2026 at 2:00 AM or switch to auto model to continue.", "2026-04-18T10:00:00Z", "2026-04-20T06:00:00Z"},
	{"microsoft/vscode-copilot-release #6479", "Sorry, your request was rate-limited. Please wait 587 hours 33 minutes before trying again.", "", "2026-11-30T12:00:00Z"},
	{"MoonshotAI/kimi-cli #907", `Error code: 429 - {'error': {'message': "We're receiving too many requests at the moment. Please wait a moment and try again.", 'type': 'rate_limit_reached_error'}}`, "", "1m0s"},
	{"openclaw/openclaw PR #142656", "You've reached your weekly (7-day) usage limit. Your quota will reset when the current 7-day window ends.", "", "15m0s"},
	{"public test of Kiro", "You've reached your Kiro usage limit. Credits reset on 2026-11-25.", "", "2026-11-25T05:00:00Z"},
	{"Qwen Code", "Allocated quota exceeded, please increase your quota limit.", "", "15m0s"},

	// HTTP, and the spellings of the promise
	{"RFC 9110", "status 429, Retry-After: 120", "", "2026-11-22T12:02:00Z"},
	{"RFC 9110", "HTTP 429\nRetry-After: Sun, 22 Nov 2026 13:00:00 GMT", "", "2026-11-22T13:00:00Z"},
	{"our own promise", "usage limit; resets at 9pm", "", "2026-11-23T02:00:00Z"},
	{"our own promise", "usage limit; resets 3am (Europe/Berlin)", "", "2026-11-23T02:00:00Z"},
	{"our own promise", "usage limit; try again in 2 h 5 m", "", "2026-11-22T14:05:00Z"},
	{"our own promise", "quota exceeded, try again in an hour", "", "2026-11-22T13:00:00Z"},
	{"our own promise", "rate limit, resets at 2026-11-22T15:30:00+02:00", "", "2026-11-22T13:30:00Z"},
	{"our own promise", "rate limit, resets 21:29 on 23 Nov", "", "2026-11-24T02:29:00Z"},
	{"our own promise", "usage limit reached, resets at midnight PT", "", "2026-11-23T08:00:00Z"},
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		text = noon
	}
	got, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func newYork(t testing.TB) *time.Location {
	loc, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestSpellings(t *testing.T) {
	t.Parallel()
	for _, s := range spellings {
		now := at(t, s.now)
		got, limited := limits.Read(s.text, now, newYork(t))
		wait, err := time.ParseDuration(s.until)
		switch {
		case !limited:
			t.Errorf("%s: %q counts as another error", s.source, s.text)
		case err == nil && (!got.Until.IsZero() || got.Wait != wait):
			t.Errorf("%s: %q: until %v, wait %v; want no time, wait %v", s.source, s.text, got.Until.UTC(), got.Wait, wait)
		case err != nil && !got.Until.Equal(at(t, s.until)):
			t.Errorf("%s: %q: until %v; want %s", s.source, s.text, got.Until.UTC().Format(time.RFC3339Nano), s.until)
		}
	}
	if len(spellings) < 40 {
		t.Errorf("only %d spellings", len(spellings))
	}
}

// Errors that no time lifts, and those that only speak of limits.
func TestOtherErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"",
		"write /home/me/x: disk quota exceeded",
		"Disk quota exceeded (os error 122)",
		"prompt is too long: 210000 tokens > 200000 maximum",
		"Context limit reached · /compact or /clear to continue",
		"context window limit exceeded",
		"maximum turns limit reached (20)",
		"Reached max turns (20)",
		"recursion limit of 128 reached",
		"Tool limit reached: the agent takes at most 40 tools",
		"output token limit reached",
		"memory limit exceeded, the process was killed",
		"open file limit reached",
		"Invalid API key · Fix external API key",
		"Not logged in · Please run /login",
		"No conversation found with session ID: 429d56b3-0000-4000-8000-000000000529",
		"unexpected status 401 Unauthorized: invalid x-api-key, url: http://127.0.0.1:18765/v1/responses",
		"API Error: 500 Internal server error. This is a server-side issue, usually temporary — try again in a moment.",
		"400 Bad Request, see https://ai.google.dev/gemini-api/docs/rate-limits",
		`500 Internal Server Error {"x-ratelimit-remaining-requests":"99","anthropic-ratelimit-requests-reset":"2026-11-22T13:00:00Z"}`,
		"line 429: unexpected token",
		"error on line 429 of main.go",
		"the port 4290 is in use, try again in 5 minutes",
		"listen tcp 127.0.0.1:8429: address already in use",
	} {
		if got, limited := limits.Read(text, at(t, ""), nil); limited {
			t.Errorf("%q counts as a limit: %+v", text, got)
		}
	}
}

// A stated time is never before now and never more than eight days ahead, and no text of any size takes long or fails.
func TestReadBounds(t *testing.T) {
	t.Parallel()
	now := at(t, "")
	for _, text := range []string{
		"usage limit reached|1000000001", "usage limit reached|9999999999", "usage limit, resets in 99999999999999999999 hours", "usage limit, resets in 999999999 weeks 999999999 days",
		"usage limit, resets at 25:70", "usage limit, resets at 13pm", "usage limit, resets Feb 31, 2026", "usage limit, resets 13/45/2026", "usage limit resets 2026-99-99T99:99:99Z",
		"usage limit, Retry-After: -5", "usage limit, retry-after: 1e300", "usage limit, resets_at: 99999999999999999999", "usage limit, resets 3am (../../etc/passwd)", "usage limit, resets 3am (Mars/Olympus)",
		"usage limit " + strings.Repeat("resets ", 1<<20), strings.Repeat("(", 1<<20) + "rate limit" + strings.Repeat("\xff", 1<<20), "usage limit reset \x00 9pm",
	} {
		wantBounded(t, text, now)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var words []string
	for _, s := range spellings {
		words = append(words, strings.Fields(s.text)...)
	}
	for range 2_000 {
		var mixed []string
		for range 1 + random.IntN(20) {
			mixed = append(mixed, words[random.IntN(len(words))])
		}
		wantBounded(t, "usage limit "+strings.Join(mixed, " "), now)
	}
}

func wantBounded(t *testing.T, text string, now time.Time) {
	t.Helper()
	got, limited := limits.Read(text, now, time.UTC)
	if limited && !got.Until.IsZero() && (got.Until.Before(now) || got.Until.After(now.Add(limits.Most))) {
		t.Errorf("%.200q: %v", text, got.Until)
	}
	if limited && got.Wait <= 0 {
		t.Errorf("%.200q: a wait of %v", text, got.Wait)
	}
}

// A time of day is read in the named zone across a change of its clocks.
func TestClocksChange(t *testing.T) {
	t.Parallel()
	got, _ := limits.Read("usage limit, resets 9am (Europe/Berlin)", at(t, "2026-10-24T20:00:00Z"), nil)
	if want := at(t, "2026-10-25T08:00:00Z"); !got.Until.Equal(want) {
		t.Errorf("%v, want %v", got.Until.UTC(), want)
	}
}

// Limits without a time wait longer each time in a row, to an hour, and an answer begins the row again.
func TestPace(t *testing.T) {
	t.Parallel()
	now := at(t, "")
	var p limits.Pace
	rate, _ := limits.Read("429 Too Many Requests", now, nil)
	var waits []time.Duration
	for range 8 {
		waits = append(waits, p.Until(rate, now).Sub(now))
	}
	want := []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour}
	for i := range want {
		if waits[i] != want[i] {
			t.Errorf("waits %v, want %v", waits, want)
			break
		}
	}
	stated, _ := limits.Read("429, Retry-After: 120", now, nil)
	if got := p.Until(stated, now).Sub(now); got != 2*time.Minute {
		t.Errorf("a stated time became %v", got)
	}
	p.Answered()
	if got := p.Until(rate, now).Sub(now); got != time.Minute {
		t.Errorf("after an answer the wait is %v", got)
	}
	if got := limits.At(now.Add(-time.Hour), now).Until; !got.Equal(now.Add(limits.Soon)) {
		t.Errorf("a time that has passed became %v", got)
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range spellings {
		f.Add(s.text)
	}
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) { wantBounded(t, text, now) })
}
