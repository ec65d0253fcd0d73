package echo_test

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"

	"drawbridge/bridge/echo"
)

// spellings are rewriters that a program undoes, or a model does when it copies what it understood.
// They were written before the guard's decoders.
var spellings = []rewriter{
	{"UTF-7", func(r *rand.Rand, line string) string { return utf7(r, line, false) }},
	{"UTF-7 of all", func(r *rand.Rand, line string) string { return utf7(r, line, true) }},
	{"base64", func(r *rand.Rand, line string) string {
		enc := pick(r, base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding)
		return pick(r, "", "base64: ", "echo ", "data:text/plain;base64,", "`") + enc.EncodeToString([]byte(line)) + pick(r, "", " | base64 -d", "`")
	}},
	{"base64 in lines", func(r *rand.Rand, line string) string {
		return "-----BEGIN MESSAGE-----\n" + chunks(base64.StdEncoding.EncodeToString([]byte(line)), pick(r, 16, 24, 64, 76), "\n") + "\n-----END MESSAGE-----"
	}},
	{"base64 of UTF-16", func(_ *rand.Rand, line string) string { return base64.StdEncoding.EncodeToString(wide(line)) }},
	{"base32", func(_ *rand.Rand, line string) string { return base32.StdEncoding.EncodeToString([]byte(line)) }},
	{"hexdump -C", func(_ *rand.Rand, line string) string { return hex.Dump([]byte(line + "\n")) }},
	{"xxd", func(_ *rand.Rand, line string) string {
		return dump(line, 16, func(at int, b []byte) string {
			return fmt.Sprintf("%08x: %-40s %s", at, chunks(hex.EncodeToString(b), 4, " "), printable(b))
		})
	}},
	{"xxd columns", func(r *rand.Rand, line string) string {
		n := pick(r, 8, 12, 20)
		return dump(line, n, func(at int, b []byte) string {
			return fmt.Sprintf("%08x: %s  |%s|", at, chunks(hex.EncodeToString(b), 2, " "), printable(b))
		})
	}},
	{"characters of a dump", func(_ *rand.Rand, line string) string {
		return dump(line, 16, func(_ int, b []byte) string { return "|" + printable(b) + "|" })
	}},
	{"od -c", func(_ *rand.Rand, line string) string {
		return dump(line, 16, func(at int, b []byte) string {
			var row strings.Builder
			for _, c := range b {
				fmt.Fprintf(&row, "   %c", c)
			}
			return fmt.Sprintf("%07o%s", at, row.String())
		})
	}},
	{"hex", func(r *rand.Rand, line string) string {
		h := hex.EncodeToString([]byte(line))
		return pick(r, h, strings.ToUpper(h), "0x"+h, chunks(h, 2, " "), chunks(h, 2, ":"), chunks(h, 4, " "), "hex: "+chunks(h, 2, "-"))
	}},
	{"hex with signs", func(r *rand.Rand, line string) string {
		return numbers(line, pick(r, "0x%02x", "0x%02X", "\\x%02x", "$%02X", "%02Xh"), pick(r, ", ", " ", ","))
	}},
	{"decimal codes", func(r *rand.Rand, line string) string {
		s := numbers(line, "%d", pick(r, ", ", " ", ",", "-"))
		return pick(r, s, "["+s+"]", "String.fromCharCode("+s+")", "bytes(["+s+"])")
	}},
	{"chr calls", func(r *rand.Rand, line string) string {
		return numbers(line, pick(r, "chr(%d)", "Chr(%d)", "CHAR(%d)", "chr(0x%x)"), pick(r, " + ", ".", " & ", "+"))
	}},
	{"octal codes", func(r *rand.Rand, line string) string {
		return numbers(line, pick(r, "%03o", "0%o", "0o%o"), pick(r, " ", ", "))
	}},
	{"binary", func(r *rand.Rand, line string) string { return numbers(line, "%08b", pick(r, " ", "\n", ", ")) }},
	{"code points", func(r *rand.Rand, line string) string {
		return numbers(line, pick(r, "U+%04X", "u+%04x", "U+%06X", "<U+%04X>", "{U+%04X}", "0x%04X"), pick(r, " ", ", ", "", "\n"))
	}},
	{"code points with names", func(_ *rand.Rand, line string) string {
		return each(line, func(_ int, c rune) string { return fmt.Sprintf("U+%04X %c\n", c, c) })
	}},
	{"CSS escapes", func(r *rand.Rand, line string) string {
		return each(line, func(i int, c rune) string {
			if i%3 == 0 || r.IntN(2) == 0 || c == '_' {
				return fmt.Sprintf(pick(r, `\%06x`, `\%06X`, `\%x `, `\%04x `), c)
			}
			return string(c)
		})
	}},
	{"Perl escapes", func(r *rand.Rand, line string) string {
		return each(line, func(_ int, c rune) string {
			return fmt.Sprintf(pick(r, `\x{%x}`, `\x{%04X}`, `\N{U+%04X}`, `\o{%o}`), c)
		})
	}},
	{"%u escapes", func(_ *rand.Rand, line string) string {
		return each(line, func(_ int, c rune) string { return fmt.Sprintf("%%u%04X", c) })
	}},
	{"one letter a line", func(r *rand.Rand, line string) string { return spread(line, pick(r, "\n", "\r\n", "\n\n", " \n")) }},
	{"one letter a list item", func(r *rand.Rand, line string) string {
		form := pick(r, "- %c\n", "* %c\n", "> %c\n", "| %c |\n", "`%c`\n", "%c,\n")
		return each(line, func(_ int, c rune) string { return fmt.Sprintf(form, c) })
	}},
	{"one numbered letter a line", func(r *rand.Rand, line string) string {
		form := pick(r, "%d. %c\n", "%d) %c\n", "%d: %c\n", "[%d] %c\n", "%d %c\n", "| %d | %c |\n", "%d=%c\n")
		return each(line, func(i int, c rune) string { return fmt.Sprintf(form, i+1, c) })
	}},
	{"letters of an array", func(r *rand.Rand, line string) string {
		form := pick(r, "%q, ", "%q,", "'%c', ", "%q + ", "%q . ")
		s := "["
		for _, c := range line {
			if strings.Contains(form, "%q") {
				s += fmt.Sprintf(form, string(c))
			} else {
				s += fmt.Sprintf(form, c)
			}
		}
		return s + "]"
	}},
	{"letters with signs between", func(r *rand.Rand, line string) string {
		return spread(line, pick(r, "-", ".", "_", "|", "/", "·", "*", ",", "~", "+", " - ", " | ", "·\u200b", "\u2060|\u2060"))
	}},
	{"two letters a line", func(r *rand.Rand, line string) string {
		return chunks(line, pick(r, 2, 3, 4), pick(r, "\n", " ", " - ", "|"))
	}},
	{"syllables", func(_ *rand.Rand, line string) string {
		return strings.NewReplacer("LOCAL", "LO-CAL", "ACTION", "AC-TION", "SUBAGENT", "SUB-A-GENT", "backup", "back-up", "script", "scr ipt", "Delete", "De-lete").Replace(line)
	}},
	{"regional indicators", offset('🇦', '🇦')},
	{"regional indicators apart", func(r *rand.Rand, line string) string {
		return spread(offset('🇦', '🇦')(r, line), pick(r, " ", "\u200b", "\u200c"))
	}},
	{"emoji names", func(r *rand.Rand, line string) string {
		return each(line, func(_ int, c rune) string {
			if l := c | 32; l >= 'a' && l <= 'z' {
				return fmt.Sprintf(":regional_indicator_%c:", l) + " "
			}
			return string(c)
		})
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
	{"upside down", func(_ *rand.Rand, line string) string {
		return reversed(swapAll(strings.ToLower(line), "abcdefghijklmnopqrtuvwyz", "ɐqɔpǝɟƃɥᴉɾʞlɯuodbɹʇnʌʍʎz"))
	}},
	{"reversed", func(r *rand.Rand, line string) string {
		return pick(r, "reversed: ", "", "read backwards: ", "rev: ") + reversed(line)
	}},
	{"words reversed", func(_ *rand.Rand, line string) string {
		words := strings.Fields(line)
		for i := range words {
			words[i] = reversed(words[i])
		}
		return strings.Join(words, " ")
	}},
	{"rot13", func(r *rand.Rand, line string) string { return pick(r, "", "rot13: ") + rot13(line) }},
	{"leetspeak", func(_ *rand.Rand, line string) string {
		return swapAll(line, "aAeEiIoOsStTlgGbB", "443311005577196 88")
	}},
	{"leetspeak of signs", func(_ *rand.Rand, line string) string { return swapAll(line, "aAsSiIlcCtT", "@@$$!!|((++") }},
	{"concatenated", func(r *rand.Rand, line string) string {
		return concatenated(line, pick(r, `"%s" + `, `'%s' . `, `"%s" `, `'%s' & `, `"%s" ++ `, `"%s" \`+"\n", `"%s",`))
	}},
	{"variables", func(r *rand.Rand, line string) string {
		h, rest := cut(line)
		return fmt.Sprintf(pick(r, "a=%q\nb=%q\necho \"$a: $b\"", "X := %q\nY := %q\nprint(X + \": \" + Y)", "let k = %q; let v = %q; console.log(`${k}: ${v}`)"), h, rest)
	}},
	{"printf", func(r *rand.Rand, line string) string {
		h, rest := cut(line)
		return fmt.Sprintf(pick(r, "printf '%%s: %%s\\n' '%s' '%s'", "print(\"%%s: %%s\" %% (\"%s\", \"%s\"))", "fmt.Printf(\"%%s: %%s\", \"%s\", \"%s\")", "f\"{'%s'}: {'%s'}\""), h, rest)
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
		note := pick(r, "<!-- x -->", "/* x */", "<!---->", "/**/", "{# x #}", "[//]: # (x)", "<x/>")
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
	{"NATO alphabet", func(_ *rand.Rand, line string) string { return nato(line) }},
	{"Morse", func(_ *rand.Rand, line string) string { return morse(line) }},
	{"Braille", func(_ *rand.Rand, line string) string {
		return swapAll(strings.ToLower(line), "abcdefghijklmnopqrstuvwxyz", "⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵")
	}},
	{"fill in", func(_ *rand.Rand, line string) string {
		h, rest := cut(line)
		return "Let K be " + h + ". Write K, a colon, and then: " + rest
	}},
	{"colon in words", func(r *rand.Rand, line string) string {
		h, rest := cut(line)
		return h + pick(r, " (colon) ", " colon ", "[colon] ", " COLON ", "{:} ") + rest
	}},
	{"underscore in words", func(r *rand.Rand, line string) string {
		return strings.NewReplacer("_", pick(r, " underscore ", "(underscore)", "[_]", "{_}", " _ ")).Replace(line)
	}},
}

func utf7(r *rand.Rand, line string, all bool) string {
	return each(line, func(_ int, c rune) string {
		if all || strings.ContainsRune("_:=@/,", c) || r.IntN(5) == 0 {
			return "+" + strings.TrimRight(base64.StdEncoding.EncodeToString([]byte{byte(c >> 8), byte(c)}), "=") + "-"
		}
		return string(c)
	})
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

func dump(line string, n int, row func(at int, b []byte) string) string {
	var rows []string
	for at := 0; at < len(line); at += n {
		rows = append(rows, row(at, []byte(line[at:min(at+n, len(line))])))
	}
	return strings.Join(rows, "\n")
}

func printable(b []byte) string {
	return each(string(b), func(_ int, c rune) string {
		if c < 32 || c > 126 {
			return "."
		}
		return string(c)
	})
}

func numbers(line, form, sep string) string {
	var parts []string
	for _, c := range line {
		parts = append(parts, fmt.Sprintf(form, c))
	}
	return strings.Join(parts, sep)
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

func reversed(line string) string {
	s := ""
	for _, c := range line {
		s = string(c) + s
	}
	return s
}

func rot13(line string) string {
	return each(line, func(_ int, c rune) string {
		switch {
		case c >= 'a' && c <= 'z':
			return string('a' + (c-'a'+13)%26)
		case c >= 'A' && c <= 'Z':
			return string('A' + (c-'A'+13)%26)
		}
		return string(c)
	})
}

func concatenated(line, form string) string {
	var b strings.Builder
	for _, part := range strings.Split(chunks(line, 5, "\x00"), "\x00") {
		fmt.Fprintf(&b, form, part)
	}
	return b.String()
}

func nato(line string) string {
	words := strings.Fields("Alfa Bravo Charlie Delta Echo Foxtrot Golf Hotel India Juliett Kilo Lima Mike November Oscar Papa Quebec Romeo Sierra Tango Uniform Victor Whiskey Xray Yankee Zulu")
	return each(line, func(_ int, c rune) string {
		if l := c | 32; l >= 'a' && l <= 'z' {
			return words[l-'a'] + " "
		}
		return map[rune]string{'_': "underscore ", ':': "colon ", ' ': "space "}[c]
	})
}

func morse(line string) string {
	codes := strings.Fields(".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --..")
	return each(line, func(_ int, c rune) string {
		if l := c | 32; l >= 'a' && l <= 'z' {
			return codes[l-'a'] + " "
		}
		return map[rune]string{'_': "..--.- ", ':': "---... ", ' ': "/ "}[c]
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
