package parser_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
)

const transcriptSize = 32 << 20

// transcript is 32 MiB of what agents write: prose with lines of 20 to 400
// bytes, fenced code, diffs, JSON lines, lists, text beyond ASCII, and now and
// then a command or a near miss. The same bytes on every machine.
var transcript = sync.OnceValue(func() []byte {
	return writeTranscript(rand.New(rand.NewPCG(20, 26)), transcriptSize, true)
})

// prose is the same mixture without commands and near misses.
var prose = sync.OnceValue(func() []byte {
	return writeTranscript(rand.New(rand.NewPCG(20, 26)), 4<<20, false)
})

func writeTranscript(r *rand.Rand, size int, commands bool) []byte {
	var b bytes.Buffer
	b.Grow(size + 64<<10)
	for b.Len() < size {
		switch n := r.IntN(100); {
		case n < 45:
			writeParagraph(&b, r, english)
		case n < 57:
			writeParagraph(&b, r, nonLatin[r.IntN(len(nonLatin))])
		case n < 69:
			writeCode(&b, r)
		case n < 77:
			writeDiff(&b, r)
		case n < 85:
			writeJSONLines(&b, r)
		case n < 98:
			writeList(&b, r)
		case commands:
			writeCommands(&b, r)
		}
	}
	return b.Bytes()[:size]
}

var (
	english = strings.Fields(`the build now passes and I moved handler tests into their own package because
		request parsing was shared by three callers; retries are bounded, see docs for what remains. Local state
		survives a restart? Results: 14 of 15 checks are green, so we should look at websocket timeouts next`)
	labels   = strings.Fields("Tests Docs Configuration Timeouts Next Result Action Local Risk Agents Reminder")
	nonLatin = [][]string{
		strings.Fields("сборка прошла успешно тесты перенесены в отдельный пакет осталось проверить повтор запросов"),
		strings.Fields("ビルドは成功しました。 次に タイムアウトを 調べます。 テストを追加 設定ファイル"),
		strings.Fields("构建已通过 测试移到单独的包中 接下来检查超时 — 重试次数有限"),
		strings.Fields("naïve café — “quoted” façade … über größer 👩‍💻 ✅ done"),
	}
)

func writeParagraph(b *bytes.Buffer, r *rand.Rand, words []string) {
	for range 1 + r.IntN(6) {
		start, want := b.Len(), 20+r.IntN(1+r.IntN(380))
		for b.Len()-start < want {
			b.WriteString(words[r.IntN(len(words))])
			b.WriteByte(' ')
		}
		if r.IntN(400) == 0 {
			b.WriteString("as the `LOCAL_ACTION: backup_script` line says; ")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

func writeCode(b *bytes.Buffer, r *rand.Rand) {
	b.WriteString("```go\n")
	for range 5 + r.IntN(40) {
		b.WriteString(strings.Repeat("\t", r.IntN(4)))
		switch r.IntN(6) {
		case 0:
			b.WriteString("}\n")
		case 1:
			b.WriteString("\n")
		case 2:
			b.WriteString("return nil\n")
		default:
			fmt.Fprintf(b, "if err := s.store.put(ctx, key%d, value); err != nil { return fmt.Errorf(\"put: %%w\", err) }\n", r.IntN(1000))
		}
	}
	b.WriteString("```\n\n")
}

func writeDiff(b *bytes.Buffer, r *rand.Rand) {
	fmt.Fprintf(b, "```diff\n--- a/store/row%d.go\n+++ b/store/row.go\n@@ -%d,7 +12,9 @@ func (s *Store) Put(\n", r.IntN(9), r.IntN(900))
	for range 6 + r.IntN(20) {
		b.WriteByte(" +-"[r.IntN(3)])
		fmt.Fprintf(b, "\trows, err := s.db.QueryContext(ctx, selectRow, id, %d)\n", r.IntN(100))
	}
	b.WriteString("```\n\n")
}

func writeJSONLines(b *bytes.Buffer, r *rand.Rand) {
	for range 1 + r.IntN(12) {
		fmt.Fprintf(b, `{"level":"info","agent":"bc-%08x","status":"FINISHED","took_ms":%d,"message":"%s"}`+"\n",
			r.Uint32(), r.IntN(90000), strings.Repeat("turn delivered ", 1+r.IntN(12)))
	}
	b.WriteString("\n")
}

func writeList(b *bytes.Buffer, r *rand.Rand) {
	for i := range 2 + r.IntN(8) {
		marker := "- "
		if r.IntN(3) == 0 {
			marker = fmt.Sprintf("%d. ", i+1)
		}
		fmt.Fprintf(b, "%s**%s**: %s\n", marker, labels[r.IntN(len(labels))], strings.Join(english[r.IntN(20):25+r.IntN(10)], " "))
	}
	b.WriteString("\n")
}

func writeCommands(b *bytes.Buffer, r *rand.Rand) {
	switch r.IntN(5) {
	case 0, 1:
		fmt.Fprintf(b, "SUBAGENT: repo=github.com/me/my-app, prompt=Fix issue %d, %s\n\n", r.IntN(1000), strings.Join(english[:20+r.IntN(20)], " "))
	case 2:
		b.WriteString("LOCAL_ACTION: backup_script\n\n")
	case 3:
		b.WriteString("- LOCAL_ACTION: lock_screen\n\n")
	case 4:
		b.WriteString("```\nSUBAGENT: repo=github.com/me/my-app, prompt=An example\n```\n\n")
	}
}
