package answer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// allMarks is a template that has the marks of all families, so that their readers meet each other's syntax.
func allMarks() *Format {
	var b strings.Builder
	for _, list := range [][]pair{knownThoughts, knownAnswers} {
		for _, p := range list {
			b.WriteString(p.open + p.end)
		}
	}
	for i := range knownCalls {
		b.WriteString(knownCalls[i].open)
	}
	b.WriteString("tool_name>>>allfunctools[" + strings.Join(knownIgnored, ""))
	return New(b.String(), nil)
}

// vocabulary are pieces of syntax from which random answers are made.
func vocabulary() []string {
	all := []string{
		" ", "\n", "é", "a", "{", "}", "[", "]", "(", ")", "\"", "'", "\\", ",", ":", "=", ";", "1", "true", "weather", "stop", "city", "days",
		`"name": "weather"`, `"arguments": {"city": "A"}`, `{"name": "stop"}`, "<parameter=", "</parameter>", "</function>", "<arg_key>", "</arg_key>",
		"<arg_value>", "</arg_value>", "<invoke name=\"", "\">", "[ARGS]", "[CALL_ID]", "call:", "```", "<escape>", `<|"|>`, "function<｜tool▁sep｜>", "<|tool_call_argument_begin|>",
	}
	for _, list := range [][]pair{knownThoughts, knownAnswers} {
		for _, p := range list {
			all = append(all, p.open, p.end)
		}
	}
	for i := range knownCalls {
		w := &knownCalls[i]
		all = append(all, w.open, w.end, w.item.open, w.item.end, w.open[:len(w.open)/2+1])
	}
	return all
}

// TestCutsChangeNothing reads random answers whole and in random pieces, with each family's own marks and with all of them.
func TestCutsChangeNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	words := vocabulary()
	formats := []*Format{allMarks(), New("", nil), New("<tool_call><think>", nil), New("<|python_tag|>", nil), New("[TOOL_CALLS][THINK]", nil), New("<think>", nil)}
	calls := 0
	for range 1500 {
		form := forms[random.IntN(len(forms))]
		answer, f := "", formats[random.IntN(len(formats))]
		if random.IntN(3) > 0 { // an answer with something more, or less
			answer, f = form.answer, New(form.marks, nil)
			from := random.IntN(len(answer))
			answer = answer[:from] + answer[min(len(answer), from+random.IntN(4)):]
		}
		for range random.IntN(8) {
			at := random.IntN(len(answer) + 1)
			answer = answer[:at] + words[random.IntN(len(words))] + answer[at:]
		}
		end := ""
		if random.IntN(4) == 0 {
			_, end = f.Thoughts()
		}
		whole := read(newParser(f, end), answer, func() int { return 1 << 30 })
		require.Equal(t, whole, read(newParser(f, end), answer, func() int { return 1 }), "%q", answer)
		require.Equal(t, whole, read(newParser(f, end), answer, func() int { return 1 + random.IntN(7) }), "%q", answer)
		calls += strings.Count(whole, "<weather") + strings.Count(whole, "<stop")
	}
	require.Greater(t, calls, 100, "answers have calls")
}

// newParser returns a parser with the tools of the tests.
func newParser(f *Format, end string) *Parser { return f.NewParser(end, testTools()) }

// FuzzCuts is TestCutsChangeNothing for any text. Without calls and thoughts the text is returned as it is, and pieces of whole
// characters become parts of whole characters.
func FuzzCuts(f *testing.F) {
	for _, form := range forms {
		f.Add(form.answer, uint8(3))
	}
	f.Fuzz(func(t *testing.T, answer string, n uint8) {
		format := allMarks()
		whole := Join(nil, nil)
		p := newParser(format, "")
		whole = Join(Join(whole, p.Push(answer)), p.Finish())
		require.Equal(t, show(whole), read(newParser(format, ""), answer, func() int { return 1 + int(n) }))
		plain := New("<think>", nil)
		if !strings.Contains(answer, "<think>") {
			require.Equal(t, answer, read(plain.NewParser("", nil), answer, func() int { return 1 + int(n) }))
		}
		if !utf8.ValidString(answer) {
			return
		}
		p = newParser(format, "")
		check := func(parts []Part) {
			for _, part := range parts {
				require.True(t, utf8.ValidString(part.Text), "%q", part.Text)
			}
		}
		for _, r := range answer {
			check(p.Push(string(r)))
		}
		check(p.Finish())
	})
}

// TestBoundsOfCalls exceeds each bound: what is too much is text, or ends the call.
func TestBoundsOfCalls(t *testing.T) {
	f := New("<tool_call>", nil)
	readIn := func(answer string, n int) (calls, ended int, text string, longest int) {
		p := f.NewParser("", testTools())
		var parts []Part
		for len(answer) > 0 {
			k := min(n, len(answer))
			parts = Join(parts, p.Push(answer[:k]))
			answer = answer[k:]
		}
		for _, part := range Join(parts, p.Finish()) {
			switch {
			case part.Kind == Text:
				text += part.Text
			default:
				calls++
				longest = max(longest, len(part.Text))
				if part.Ends {
					ended++
				}
			}
		}
		return calls, ended, text, longest
	}
	for _, n := range []int{1 << 30, 99991} {
		calls, ended, text, _ := readIn(strings.Repeat(`<tool_call>{"name": "stop"}</tool_call>`, maxCalls+2), n)
		require.Equal(t, []int{maxCalls, maxCalls}, []int{calls, ended})
		require.Equal(t, 2, strings.Count(text, `{"name": "stop"}`))

		call := `<tool_call>{"name": "weather", "arguments": {"city": "` + strings.Repeat("x", maxArguments+10) + `"}}</tool_call>`
		calls, ended, _, longest := readIn(call, n)
		require.Equal(t, []int{1, 0}, []int{calls, ended})
		require.LessOrEqual(t, longest, maxArguments)

		deep := func(levels int) string {
			return `<tool_call>{"name": "weather", "arguments": {"a": ` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + `}}</tool_call>`
		}
		calls, ended, _, _ = readIn(deep(maxNesting-1), n)
		require.Equal(t, []int{1, 1}, []int{calls, ended})
		calls, ended, _, _ = readIn(deep(maxNesting), n)
		require.Equal(t, []int{1, 0}, []int{calls, ended})

		unknown := `<tool_call>{"name": "` + strings.Repeat("n", maxName+1) + `"}</tool_call>`
		calls, _, text, _ = readIn(unknown, n)
		require.Zero(t, calls)
		require.Equal(t, unknown, text)

		held := `<tool_call>{"id": "` + strings.Repeat("x", maxHeld+10)
		calls, _, text, _ = readIn(held, n)
		require.Zero(t, calls)
		require.Equal(t, held, text)
	}
}

// TestPlainAnswersAllocateNothing reads text without marks, as most tokens are.
func TestPlainAnswersAllocateNothing(t *testing.T) {
	for _, f := range []*Format{New("<tool_call><think>", nil), New("<|python_tag|>", nil)} {
		p := f.NewParser("", testTools())
		p.Push("Once upon")
		tokens := []string{" a", " time", " there", " was", " 1 < 2", " fox."}
		require.Zero(t, testutil.AllocsPerRun(100, 0, func() {
			for _, token := range tokens {
				if parts := p.Push(token); len(parts) != 1 || parts[0].Text != token {
					t.Fatalf("%q: %v", token, parts)
				}
			}
		}))
	}
	require.Nil(t, New("", nil).NewParser("", nil), "answers without marks need no parser")
}
