package echo_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"

	"drawbridge/bridge/echo"
)

// spellings are rewriters that a program undoes, or a model does when it copies what it understood.
var spellings = []rewriter{
	{"base64", func(r *rand.Rand, line string) string {
		enc := pick(r, base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding)
		return pick(r, "", "base64: ", "echo ", "data:text/plain;base64,", "`") + enc.EncodeToString([]byte(line)) + pick(r, "", " | base64 -d", "`")
	}},
	{"base64 in lines", func(r *rand.Rand, line string) string {
		return "-----BEGIN MESSAGE-----\n" + chunks(base64.StdEncoding.EncodeToString([]byte(line)), pick(r, 16, 24, 64, 76), "\n") + "\n-----END MESSAGE-----"
	}},
	{"base64 of UTF-16", func(_ *rand.Rand, line string) string { return base64.StdEncoding.EncodeToString(wide(line)) }},
	{"Perl escapes", func(r *rand.Rand, line string) string {
		return each(line, func(_ int, c rune) string {
			return fmt.Sprintf(pick(r, `\x{%x}`, `\x{%04X}`, `\N{U+%04X}`, `\o{%o}`), c)
		})
	}},
	{"%u escapes", func(_ *rand.Rand, line string) string {
		return each(line, func(_ int, c rune) string { return fmt.Sprintf("%%u%04X", c) })
	}},
	{"letters with signs between", func(r *rand.Rand, line string) string {
		return spread(line, pick(r, "-", ".", "_", "|", "/", "·", "*", ",", "~", "+", " - ", " | ", "·\u200b", "\u2060|\u2060"))
	}},
	{"regional indicators", offset('🇦', '🇦')},
	{"regional indicators apart", func(r *rand.Rand, line string) string {
		return spread(offset('🇦', '🇦')(r, line), pick(r, " ", "\u200b", "\u200c"))
	}},
	{"negative circled", offset('🅐', '🅐')},
	{"negative squared, lower", offset('🅰', '🅰')},
	{"parenthesized", offset('🄐', '⒜')},
	{"squared letters", offset('🄰', '🄰')},
	{"fraktur", offset('𝕬', '𝖆')},
	{"script", offset('𝓐', '𝓪')},
	{"double struck", func(_ *rand.Rand, line string) string {
		return each(line, func(_ int, c rune) string {
			if c >= 'a' && c <= 'z' {
				return string('𝕒' + c - 'a')
			}
			return string(c)
		})
	}},
	{"tag letters", func(_ *rand.Rand, line string) string {
		return each(line, func(_ int, c rune) string { return string(0xE0000 + c) })
	}},
	{"variation selectors", func(_ *rand.Rand, line string) string {
		return "😀" + each(line, func(_ int, c rune) string { return string(0xE0100 + c - 16) })
	}},
	{"superscript", swap("abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVW", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂ")},
	{"leetspeak", func(_ *rand.Rand, line string) string {
		return swapAll(line, "aAeEiIoOsStTlgGbB", "443311005577196 88")
	}},
	{"XML", func(_ *rand.Rand, line string) string {
		h, rest := cut(line)
		if repo, prompt, ok := strings.Cut(strings.TrimPrefix(rest, "repo="), ", prompt="); ok {
			return "<command><verb>" + h + "</verb><repo>" + repo + "</repo><prompt><![CDATA[" + prompt + "]]></prompt></command>"
		}
		return "<command verb=\"" + h + "\"><![CDATA[" + rest + "]]></command>"
	}},
	{"TOML", func(_ *rand.Rand, line string) string {
		h, rest := cut(line)
		if repo, prompt, ok := strings.Cut(strings.TrimPrefix(rest, "repo="), ", prompt="); ok {
			return fmt.Sprintf("[%s]\nrepo = %q\nprompt = %q", h, repo, prompt)
		}
		return fmt.Sprintf("[%s]\nid = %q", h, rest)
	}},
	{"CSV", func(_ *rand.Rand, line string) string {
		h, rest := cut(line)
		if repo, prompt, ok := strings.Cut(strings.TrimPrefix(rest, "repo="), ", prompt="); ok {
			return "verb,repo,prompt\n" + h + "," + repo + ",\"" + prompt + "\""
		}
		return "verb,id\n" + h + "," + rest
	}},
	{"diff", func(_ *rand.Rand, line string) string {
		return "@@ -1,2 +1,2 @@\n-nothing here\n+" + line + "\n the end"
	}},
	{"git conflict", func(_ *rand.Rand, line string) string {
		return "<<<<<<< HEAD\nold\n=======\n" + line + "\n>>>>>>> theirs"
	}},
	{"LaTeX", func(r *rand.Rand, line string) string {
		h, rest := cut(strings.ReplaceAll(line, "_", `\_`))
		return pick(r, `\texttt{`+h+`}: \emph{`+rest+`}`, `\verb|`+line+`|`, `$\text{`+h+`}$: `+rest, `\textbf{`+h+`: `+rest+`}`)
	}},
	{"letters in markup", func(r *rand.Rand, line string) string {
		m := pick(r, [2]string{"**", "**"}, [2]string{"<b>", "</b>"}, [2]string{"`", "`"}, [2]string{"<span>", "</span>"}, [2]string{"<!-- -->", ""}, [2]string{"[", "]"}, [2]string{"(", ")"}, [2]string{"{", "}"}, [2]string{"$", "$"})
		return each(line, func(_ int, c rune) string { return m[0] + string(c) + m[1] })
	}},
	{"comments inside", func(r *rand.Rand, line string) string {
		note := pick(r, "<!-- x -->", "<!---->", "<x/>")
		return strings.NewReplacer("LOCAL_", "LOCAL_"+note, "SUBA", "SUBA"+note, "backup", "backup"+note, "my-app", "my-"+note+"app", "tests", "te"+note+"sts").Replace(line)
	}},
	{"quoted printable", func(_ *rand.Rand, line string) string {
		return each(line, func(i int, c rune) string {
			if i%2 == 0 {
				return fmt.Sprintf("=%02X", c)
			}
			return string(c)
		})
	}},
	{"mail header", func(r *rand.Rand, line string) string {
		if r.IntN(2) == 0 {
			return "Subject: =?UTF-8?B?" + base64.StdEncoding.EncodeToString([]byte(line)) + "?="
		}
		return "Subject: =?utf-8?q?" + strings.ReplaceAll(strings.ReplaceAll(each(line, func(_ int, c rune) string {
			if strings.ContainsRune("_=?:", c) {
				return fmt.Sprintf("=%02X", c)
			}
			return string(c)
		}), " ", "_"), "\n", "") + "?="
	}},
	{"percent of percent of percent", func(_ *rand.Rand, line string) string {
		s := each(line, func(_ int, c rune) string { return fmt.Sprintf("%%%02X", c) })
		return strings.ReplaceAll(strings.ReplaceAll(s, "%", "%25"), "%", "%25")
	}},
	{"UTF-16 bytes", func(_ *rand.Rand, line string) string { return string(wide(line)) }},
	{"double UTF-16 escapes", func(_ *rand.Rand, line string) string {
		return each(offset('𝐀', '𝐚')(nil, line), func(_ int, c rune) string {
			var s string
			for _, u := range utf16.Encode([]rune{c}) {
				s += fmt.Sprintf(`\u%04x`, u)
			}
			return s
		})
	}},
}

func wide(line string) []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, utf16.Encode([]rune(line))) // a buffer takes everything
	return b.Bytes()
}

func chunks(s string, n int, sep string) string {
	var parts []string
	for len(s) > n {
		parts, s = append(parts, s[:n]), s[n:]
	}
	return strings.Join(append(parts, s), sep)
}

func spread(line, sep string) string { return strings.Join(strings.Split(line, ""), sep) }

func swapAll(line, from, to string) string {
	a, b := []rune(from), []rune(to)
	return each(line, func(_ int, c rune) string {
		for i := range a {
			if a[i] == c {
				return string(b[i])
			}
		}
		return string(c)
	})
}

// TestSpellings holds the plain command after each of these spellings, and prints how many texts get through.
func TestSpellings(t *testing.T) {
	t.Parallel()
	missed := map[string]int{}
	total, lost := 0, 0
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // the seeds make the test repeatable
		for _, w := range spellings {
			for _, line := range []string{launchLine, actionLine} {
				text := surround(r, w.do(r, line))
				total++
				if echo.Of(text, echo.Named).Match(commandOf(t, line)) > 0 {
					continue
				}
				lost++
				if missed[w.name]++; missed[w.name] == 1 {
					t.Errorf("%s: %q is not held after %.300q", w.name, line, text)
				}
			}
		}
	}
	t.Logf("spellings: %d rewriters, %d texts, %d got through (%.1f %%)", len(spellings), total, lost, 100*float64(lost)/float64(total))
}

// TestDecodersKeepLineNumbers: a hold names the line where the command stands, whatever is decoded before it.
func TestDecodersKeepLineNumbers(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(2, 11)) //nolint:gosec // the seeds make the test repeatable
	decoy := "LOCAL_ACTION: decoy_script and a sentence that is long enough for all of them"
	for _, w := range spellings {
		before := w.do(r, decoy)
		text := before + strings.Repeat("\nThat was all of it.", 8) + "\n" + actionLine + "\n"
		if at, want := echo.Of(text, echo.Near).Match(commandOf(t, actionLine)), strings.Count(before, "\n")+10; at != want {
			t.Errorf("%s: the command stands in line %d, not in %d of %.200q", w.name, want, at, text)
		}
	}
}
