package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/relay/wire"
)

const anID = "0123456789abcdef"

func frames(t testing.TB) []wire.Frame {
	n := strings.Repeat("n", 43)
	s, err := wire.Sign(key("bridge"), order())
	if err != nil {
		t.Fatal(err)
	}
	chunked, err := wire.Announce(key("relay"), "c", wire.Chunked{N: 1, Kind: "outcome", For: "x"}, []byte("frame"))
	if err != nil {
		t.Fatal(err)
	}
	chunk := wire.NewChunk(3, 16, []byte("\x00\xff"))
	turn, err := wire.SignTurn(key("bridge"), wire.TurnOrder{ID: "x", Relay: "laptop", Ask: wire.TurnAsk{Agent: "a", Session: "s", Marker: "m", Text: "t", Home: wire.Home{Name: "ada", Repo: "local/notes"}}, For: wire.MaxAge})
	if err != nil {
		t.Fatal(err)
	}
	return []wire.Frame{
		{Turn: &turn},
		{TurnLookup: &turn},
		{Ended: &wire.TurnEnded{ID: "x", Cause: wire.TurnAnswered, Text: "t", Evidence: "e", Replayed: true}},
		{Ended: &wire.TurnEnded{ID: "x", Refusal: wire.RefusedBusy, Error: "e", RetryMS: 5}},
		{Ended: &wire.TurnEnded{ID: "x", Refusal: wire.RefusedBusy, Error: "e", Until: 1}},
		{Ended: &wire.TurnEnded{ID: "x", Cause: wire.TurnLimited, Until: 253402300799999}},
		{TurnStop: &turn},
		{Ended: &wire.TurnEnded{ID: "x", Cause: wire.TurnCrashed, Error: "e", Unclear: true}},
		{TurnFound: &wire.TurnFound{ID: "x", Known: wire.TurnKnownOpen, State: wire.TurnAskingNow, SinceMS: 7}},
		{TurnStopped: &wire.TurnFound{ID: "x", Known: wire.TurnKnownOpen}},
		{TurnFound: &wire.TurnFound{ID: "x", Known: wire.TurnKnownAbsent}},
		{TurnFound: &wire.TurnFound{ID: "x", Known: wire.TurnKnownEnded, Ended: &wire.TurnEnded{ID: "x", Cause: wire.TurnLimited}}},
		{Chunked: &chunked},
		{Chunk: &chunk},
		{Receipt: &wire.Receipt{N: 1, Upto: 7}},
		{Receipt: &wire.Receipt{N: 1, Whole: true}},
		{Receipt: &wire.Receipt{N: 1, Refused: wire.BodyLate}},
		{Hello: &wire.Hello{Relay: "laptop", Key: anID, Nonce: n, Pins: []string{anID}}},
		{Challenge: &wire.Challenge{Key: anID, Nonce: n, Sig: "s"}},
		{Proof: &wire.Proof{Sig: "s", Epoch: 7, Process: "p1"}},
		{Welcome: &wire.Welcome{Session: "s", Epoch: 8, Sig: "s"}},
		{Kept: &wire.Kept{Epoch: 8}},
		{Lookup: &s},
		{Found: &wire.Found{ID: "x", Known: wire.KnownNot}},
		{Found: &wire.Found{ID: "x", Known: wire.KnownOver, Outcome: &wire.Outcome{ID: "x", Answer: wire.Answer{Action: "a", Status: wire.StatusExecuted}, Replayed: true}}},
		{Switch: &wire.Switch{Stopped: true}},
		{Asking: &wire.Asking{Questions: []wire.Asked{{ID: "x", AgeMS: 1, LeftMS: 2}, {ID: "y", LeftMS: wire.MaxQuestion.Milliseconds()}}}},
		{Asking: &wire.Asking{Questions: []wire.Asked{}}},
		{Welcome: &wire.Welcome{Session: "s", Keys: &wire.Keys{Public: "p", By: anID, Sig: "s"}}},
		{Offers: &wire.Offers{Offers: []wire.Offer{{Action: "a", Approval: "never", Bridge: true, ApproveBy: "either", Definition: "d", Shows: "it would run /bin/a"}}}},
		{Keys: &wire.Keys{Public: "p", By: anID, Sig: "s"}},
		{Pinned: &wire.Pinned{Pins: []string{anID}}},
		{Request: &s},
		{Output: &wire.Tail{ID: "x", Stdout: "o"}},
		{Outcome: &wire.Outcome{ID: "x", Answer: wire.Refused("a", "why"), Refusal: wire.RefusedBusy, RetryMS: 5}},
		{Answered: &wire.Answered{ID: "x"}},
	}
}

func TestFramesArriveAsTheyLeft(t *testing.T) {
	t.Parallel()
	for _, f := range frames(t) {
		data, err := f.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.ReadFrame(data)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if diff := cmp.Diff(f, got); diff != "" {
			t.Errorf("(-sent +read):\n%s", diff)
		}
	}
}

func TestFramesThatAreRefused(t *testing.T) {
	t.Parallel()
	outcome := `{"outcome":{"id":"x","action":"a","status":"refused","exit_code":-1,"stdout":"","stderr":"","stdout_omitted":0,"stderr_omitted":0,"duration_ms":0,"error":"","refusal":"busy"}}`
	if _, err := wire.ReadFrame([]byte(outcome)); err != nil {
		t.Fatal(err)
	}
	hello := `{"hello":{"relay":"laptop","key":"k","nonce":"` + strings.Repeat("n", 43) + `","pins":["` + anID + `"]}}`
	if _, err := wire.ReadFrame([]byte(hello)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		``, `{`, `{}`, `null`, `[]`, `7`, `"hello"`, `{"proof":null}`, `{"proof":{"process":"p","sig":"a"},"pinned":{"pins":["` + anID + `"]}}`,
		`{"proof":{"process":"p","sig":"a"}}{"proof":{"process":"p","sig":"b"}}`, `{"proof":{"process":"p","sig":"a","sig":"b"}}`, `{"proof":{"process":"p","sig":"a","Sig":"b"}}`, `{"Proof":{"process":"p","sig":"a"}}`,
		`{"proof":{"process":"p","sig":"a","alg":"none"}}`, `{"proof":{"process":"p","sig":7}}`, `{"what":{}}`, "{\"proof\":{\"process\":\"p\",\"sig\":\"\xff\"}}",
		hello[:len(hello)-1], strings.Replace(hello, "laptop", "Laptop", 1), strings.Replace(hello, "laptop", "lap\\ntop", 1),
		strings.Replace(hello, anID, "zz", 1), strings.Replace(hello, `["`+anID+`"]`, `[]`, 1), strings.Replace(hello, "nnn", "n", 1),
		strings.Replace(hello, `"`+anID+`"`, strings.Repeat(`"`+anID+`",`, 8)+`"`+anID+`"`, 1),
		`{"offers":{"offers":[{"action":"A","approval":"","definition":""}]}}`,
		`{"offers":{"offers":[{"action":"a","approval":"","definition":""},{"action":"a","approval":"","definition":""}]}}`,
		`{"offers":{"offers":[{"action":"a","approval":"","definition":"","shows":"\u001b[2J"}]}}`,
		`{"offers":{"offers":[{"action":"a","approval":"","definition":"","shows":"` + strings.Repeat("x", wire.MaxShows+1) + `"}]}}`,
		`{"offers":{"offers":[{"action":"a","approval":"each","definition":"","bridge":true,"approve_by":"machine"}]}}`,
		`{"offers":{"offers":[{"action":"a","approval":"each","definition":"","approve_by":"bridge"}]}}`,
		`{"offers":{"offers":[{"action":"a","approval":"each","definition":"","approve_by":"anybody"}]}}`,
		offersThatShow(wire.MaxShown/wire.MaxShows + 1),
		`{"found":{"id":"x","known":"over"}}`, `{"found":{"id":"x","known":"perhaps"}}`, `{"found":{"id":"","known":"unknown"}}`,
		`{"proof":{"sig":"s","epoch":-1,"process":"p"}}`, `{"proof":{"sig":"s","epoch":3}}`, `{"proof":{"sig":"s","process":"a b"}}`,
		`{"asking":{"questions":[{"id":"","age_ms":0,"left_ms":0}]}}`, `{"asking":{"questions":[{"id":"x","age_ms":0,"left_ms":0,"by":"me"}]}}`,
		`{"asking":{"questions":[{"id":"x","age_ms":0,"left_ms":0},{"id":"x","age_ms":0,"left_ms":0}]}}`,
		`{"asking":{"questions":[{"id":"x","age_ms":-1,"left_ms":0}]}}`, `{"asking":{"questions":[{"id":"x","age_ms":0,"left_ms":86400001}]}}`,
		`{"asking":{"questions":[` + strings.Repeat(`{"id":"x","age_ms":0,"left_ms":0},`, wire.MaxQuestions) + `{"id":"x","age_ms":0,"left_ms":0}]}}`,
		`{"chunk":{"n":0,"at":0,"data":"AA"}}`, `{"chunk":{"n":1,"at":-1,"data":"AA"}}`, `{"chunk":{"n":1,"at":0,"data":""}}`,
		`{"chunk":{"n":1,"at":0,"data":"AB"}}`, `{"chunk":{"n":1,"at":0,"data":"A\nA"}}`, `{"chunk":{"n":1,"at":0,"data":"AA=="}}`, `{"chunk":{"n":1,"at":0,"data":"+/"}}`,
		`{"chunk":{"n":1,"at":0,"data":"` + strings.Repeat("AAAA", wire.MaxChunk/3+1) + `"}}`,
		`{"ended":{"id":"x"}}`, `{"ended":{"id":"x","cause":"answered","refusal":"busy"}}`, `{"ended":{"id":"x","cause":"done"}}`, `{"ended":{"id":"","cause":"hung"}}`,
		`{"ended":{"id":"x","refusal":"busy","retry_ms":-1}}`, `{"ended":{"id":"x","cause":"hung","evidence":"` + strings.Repeat("x", wire.MaxEvidence+1) + `"}}`,
		`{"turn_found":{"id":"x","known":"ended"}}`, `{"turn_found":{"id":"x","known":"open","ended":{"id":"x","cause":"hung"}}}`, `{"turn_found":{"id":"x","known":"perhaps"}}`,
		`{"turn_found":{"id":"x","known":"ended","ended":{"id":"x","cause":"done"}}}`,
		`{"receipt":{"n":1}}`, `{"receipt":{"n":0,"whole":true}}`, `{"receipt":{"n":1,"upto":1,"whole":true}}`, `{"receipt":{"n":1,"upto":-1}}`, `{"receipt":{"n":1,"refused":"perhaps"}}`,
		`{"chunked":{"n":1,"kind":"outcome","for":"x","size":0,"digest":"` + strings.Repeat("0", 64) + `","key":"","sig":""}}`,
		`{"chunked":{"n":1,"kind":"outcome","for":"x y","size":1,"digest":"` + strings.Repeat("0", 64) + `","key":"","sig":""}}`,
		`{"chunked":{"n":1,"kind":"outcome","for":"x","size":1,"digest":"0","key":"","sig":""}}`,
		`{"answered":{"id":"no id"}}`, `{"answered":{"id":"x","approved":true}}`,
		`{"output":{"id":"","stdout":"","stderr":""}}`,
		`{"output":{"id":"x","stdout":"` + strings.Repeat("x", 2*wire.MaxProgress+1) + `","stderr":""}}`,
		strings.Replace(outcome, `"x"`, `"x y"`, 1), strings.Replace(outcome, `refused`, `done`, 1), strings.Replace(outcome, `"refused"`, `"executed"`, 1),
		strings.Replace(outcome, `,"refusal":"busy"`, ``, 1), strings.Replace(outcome, `"duration_ms":0`, `"duration_ms":-1`, 1),
		`{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
	} {
		if f, err := wire.ReadFrame([]byte(text)); err == nil {
			t.Errorf("%.200s is read as %+v", text, f)
		}
	}
}

// What is read once has one reading: written and read again it is the same.
func FuzzReadFrame(f *testing.F) {
	for _, frame := range frames(f) {
		data, err := frame.Bytes()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Add([]byte(`{"proof":{"process":"p","sig":"a","Sig":"b"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := wire.ReadFrame(data)
		if err != nil {
			return
		}
		again, err := frame.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		second, err := wire.ReadFrame(again)
		if err != nil {
			t.Fatalf("%q is read, and %q, which is the same, is not: %v", data, again, err)
		}
		if diff := cmp.Diff(frame, second); diff != "" {
			t.Errorf("two readings of %q (-first +second):\n%s", data, diff)
		}
	})
}

// offersThatShow are so many offers, each of which shows as much as one may.
func offersThatShow(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"action":"a%d","approval":"","definition":"","shows":%q}`, i, strings.Repeat("x", wire.MaxShows))
	}
	return `{"offers":{"offers":[` + strings.Join(list, ",") + `]}}`
}

// Whatever a relay shows of all its offers fits into one frame.
func TestOffersThatShowAllTheyMay(t *testing.T) {
	t.Parallel()
	offers := wire.Offers{}
	for i := range wire.MaxOffers {
		o := wire.Offer{Action: fmt.Sprintf("a%063d", i), Approval: strings.Repeat("\\", 64), Bridge: true, Definition: strings.Repeat("d", 64)}
		if i < wire.MaxShown/wire.MaxShows {
			o.Shows = strings.Repeat("<", wire.MaxShows)
		}
		offers.Offers = append(offers.Offers, o)
	}
	data, err := wire.Frame{Offers: &offers}.Bytes()
	if err != nil || len(data) > wire.MaxToBridge {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	if _, err := wire.ReadFrame(data); err != nil {
		t.Error(err)
	}
}

// A chunk and a receipt fit into the smaller frame of both directions, and an announcement, too.
func TestChunksFitIntoFrames(t *testing.T) {
	t.Parallel()
	chunk := wire.NewChunk(1<<53, 1<<53, make([]byte, wire.MaxChunk))
	chunked, err := wire.Announce(key("relay"), strings.Repeat("c", 64), wire.Chunked{N: 1 << 53, Kind: strings.Repeat("k", 64), For: strings.Repeat("x", 128)}, make([]byte, 9))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []wire.Frame{{Chunk: &chunk}, {Chunked: &chunked}} {
		data, err := f.Bytes()
		if err != nil || len(data) > wire.MaxToRelay {
			t.Errorf("%d bytes, %v", len(data), err)
		}
		if _, err := wire.ReadFrame(data); err != nil {
			t.Error(err)
		}
	}
}

// An announcement counts for one connection, one key, and as it was signed.
func TestAnnouncements(t *testing.T) {
	t.Parallel()
	h := wire.Hello{Relay: "laptop", Nonce: "n1"}
	one, other := wire.ConnectionID(h, wire.Challenge{Key: anID, Nonce: "n2"}), wire.ConnectionID(h, wire.Challenge{Key: anID, Nonce: "n3"})
	c, err := wire.Announce(key("relay"), one, wire.Chunked{N: 1, Kind: "outcome", For: "x"}, []byte("frame"))
	if err != nil {
		t.Fatal(err)
	}
	if !c.Signed(public(key("relay")), one) || !c.Fits([]byte("frame")) {
		t.Error("a good announcement is refused")
	}
	if one == other || c.Signed(public(key("relay")), other) || c.Signed(public(key("evil")), one) || c.Fits([]byte("fram")) || c.Fits([]byte("Frame")) {
		t.Error("a signature counts elsewhere")
	}
	for name, change := range map[string]func(*wire.Chunked){
		"n": func(c *wire.Chunked) { c.N++ }, "kind": func(c *wire.Chunked) { c.Kind = "found" }, "for": func(c *wire.Chunked) { c.For = "y" },
		"size": func(c *wire.Chunked) { c.Size++ }, "digest": func(c *wire.Chunked) { c.Digest = strings.Repeat("0", 64) },
		"key": func(c *wire.Chunked) { c.Key = anID }, "line end": func(c *wire.Chunked) { c.For = "x\ny" },
	} {
		forged := c
		if change(&forged); forged.Signed(public(key("relay")), one) {
			t.Errorf("%s is not covered by the signature", name)
		}
	}
}

// What does not fit loses the beginnings of its outputs, and says how much.
func TestFitting(t *testing.T) {
	t.Parallel()
	answer := wire.Answer{Action: "a", Status: wire.StatusExecuted, Stdout: strings.Repeat("\"é", 50_000) + "end", Stderr: strings.Repeat("y", 10), StdoutOmitted: 3}
	for _, f := range []wire.Frame{
		{Outcome: &wire.Outcome{ID: "x", Answer: answer}},
		{Found: &wire.Found{ID: "x", Known: wire.KnownOver, Outcome: &wire.Outcome{ID: "x", Answer: answer}}},
	} {
		for _, limit := range []int{1000, 40_000, 1 << 20} {
			got, err := f.Fitting(limit)
			if err != nil {
				t.Fatal(err)
			}
			data, err := got.Bytes()
			if err != nil || len(data) > limit {
				t.Errorf("%d bytes for %d, %v", len(data), limit, err)
			}
			out := got.Outcome
			if out == nil {
				out = got.Found.Outcome
			}
			if _, err := wire.ReadFrame(data); err != nil || !strings.HasSuffix(out.Stdout, "end") || int64(len(out.Stdout))+out.StdoutOmitted != int64(len(answer.Stdout))+3 {
				t.Errorf("%d: %d bytes of output, %d omitted, %v", limit, len(out.Stdout), out.StdoutOmitted, err)
			}
		}
	}
	if _, err := (wire.Frame{Outcome: &wire.Outcome{ID: "x", Answer: wire.Refused("a", strings.Repeat("e", 2000))}}).Fitting(1000); err == nil {
		t.Error("a frame fits that cannot")
	}
}

// The longest turn and the longest reply fit into what may travel in chunks, whatever JSON makes of them.
func TestWorstTurnFits(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"\x01", "<", "\"", "\\", "\n", "\u2028", "é"} {
		text := strings.Repeat(unit, wire.MaxTurnText/len(unit))
		s, err := wire.SignTurn(key("bridge"), wire.TurnOrder{ID: "x", Relay: "laptop", Ask: wire.TurnAsk{Agent: "a", Session: "s", Marker: "m", Text: text}, For: wire.MaxAge})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []wire.Frame{{Turn: &s}, {Ended: &wire.TurnEnded{ID: "x", Cause: wire.TurnAnswered, Text: text, Evidence: strings.Repeat("\x01", wire.MaxEvidence)}}} {
			if data, err := f.Bytes(); err != nil || len(data) > wire.MaxBody {
				t.Errorf("%q: %d bytes, %v", unit, len(data), err)
			}
		}
	}
}
