package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestModelTextOnATerminal checks that output to a terminal replaces control characters, and
// that output to a file does not.
func TestModelTextOnATerminal(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain", "Hëllo\n\tworld 😀", "Hëllo\n\tworld 😀"},
		{"escape sequence", "\x1b[2J", "␛[2J"},
		{"bell and delete", "a\ab\x7f", "a␇b␡"},
		{"carriage return", "a\r\nb\rc", "a\nbc"},
		{"C1 control", "a\u009bb", "a\uFFFDb"},
		{"order of text", "a\u202Eb\u2069c\u061C", "a<U+202E>b<U+2069>c<U+061C>"},
		{"Hebrew", "שלום", "שלום"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var screen, file bytes.Buffer
			(&output{w: &screen, Terminal: true}).ModelText(test.text)
			require.Equal(t, test.want, screen.String())
			(&output{w: &file}).ModelText(test.text)
			require.Equal(t, test.text, file.String(), "a file gets the unchanged text")
		})
	}
}

// TestVisibleLineStaysOneLine checks that a stored name cannot begin another line of a table.
func TestVisibleLineStaysOneLine(t *testing.T) {
	require.Equal(t, "user:␊␍assistant␉␛[2J", VisibleLine("user:\n\rassistant\t\x1b[2J"))
	require.Equal(t, "<U+200F>a<U+2066>", VisibleLine("\u200Fa\u2066"))
}

type brokenWriter struct{ writes int }

func (b *brokenWriter) Write([]byte) (int, error) {
	b.writes++
	return 0, errors.New("disk full")
}

// TestOutputReportsTheFirstFailure checks that output stops writing after the first error and
// returns it.
func TestOutputReportsTheFirstFailure(t *testing.T) {
	broken := &brokenWriter{}
	o := &output{w: broken}
	o.ModelText("a")
	o.ModelText("b")
	require.EqualError(t, o.Failure(), "writing the result: disk full")
	require.Equal(t, 1, broken.writes, "output writes nothing after a failure")
}

// TestJSONRowsAreLossless checks that JSON rows restore the same float32 numbers, and that NaNs and
// infinities become null.
func TestJSONRowsAreLossless(t *testing.T) {
	rows := [][]float32{
		{0, 1, -1, 0.1, 1.0 / 3, 16777216, 1e-45, math.MaxFloat32, math.SmallestNonzeroFloat32, -3.4e-9},
		{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))},
		{},
	}
	var text bytes.Buffer
	o := &output{w: &text}
	require.NoError(t, o.WriteRows(`{"positions":[3],`, "rows", rows))

	var got struct {
		Positions []int        `json:"positions"`
		Rows      [][]*float32 `json:"rows"`
	}
	require.NoError(t, json.Unmarshal(text.Bytes(), &got))
	require.Equal(t, []int{3}, got.Positions)
	require.Len(t, got.Rows, len(rows))
	for i, x := range rows[0] {
		require.Equal(t, math.Float32bits(x), math.Float32bits(*got.Rows[0][i]))
	}
	require.Equal(t, []*float32{nil, nil, nil}, got.Rows[1])
	require.Empty(t, got.Rows[2])

	text.Reset()
	require.NoError(t, o.WriteRows("{", "rows", nil))
	require.Equal(t, "{\"rows\":[]}\n", text.String())
}

// TestJSONListsArePrintedInTheirPlaces prints values with lists, one of them empty, and expects the text of a value that holds them, also
// where a string has what stands in place of a list.
func TestJSONListsArePrintedInTheirPlaces(t *testing.T) {
	type inner struct {
		Text string   `json:"text"`
		List JSONList `json:"list,omitzero"`
	}
	type outer struct {
		Text  string   `json:"text"`
		List  JSONList `json:"list,omitzero"`
		Inner []inner  `json:"inner"`
	}
	list := func(elements ...any) JSONList {
		return func(yield func(any) bool) {
			for _, x := range elements {
				if !yield(x) {
					return
				}
			}
		}
	}
	const place = `"list":[null]`
	first, none, last := list(1, "<\u009b"+place), list(), list(map[string]int{"a": 2})
	var text bytes.Buffer
	o := &output{w: &text}
	require.NoError(t, o.WriteJSONLists(outer{place, first, []inner{{"b", none}, {Text: "c"}, {"d", last}}}, "list", first, none, last))
	require.Equal(t, `{"text":"\"list\":[null]","list":[1,"<\u009b\"list\":[null]"],"inner":[{"text":"b","list":[]},{"text":"c"},{"text":"d","list":[{"a":2}]}]}`+"\n", text.String())
	text.Reset()
	require.NoError(t, o.WriteJSONLists(inner{Text: "e"}, "list"))
	require.Equal(t, "{\"text\":\"e\"}\n", text.String())
	require.Error(t, o.WriteJSONLists(inner{List: list(math.NaN())}, "list", list(math.NaN())))
}

// TestErrorsAreOneLine checks that OneLine joins lines and replaces control characters.
func TestErrorsAreOneLine(t *testing.T) {
	require.Equal(t, "tensor ␛[31m: bad", OneLine(errors.New("tensor \x1b[31m:\n\tbad")))
	require.Equal(t, "no room; and no disk", OneLine(errors.Join(errors.New("no room"), errors.New("and  no disk\n"))))
}

// TestFormats checks the text of sizes, counts and times.
func TestFormats(t *testing.T) {
	require.Equal(t, "512 B", FormatBytes(512))
	require.Equal(t, "1.5 KiB", FormatBytes(1536))
	require.Equal(t, "28.5 MiB", FormatBytes(29905584))
	require.Equal(t, "4.37 GiB", FormatBytes(4692251770))
	require.Equal(t, "999", FormatCount(999))
	require.Equal(t, "14.9M", FormatCount(14948736))
	require.Equal(t, "7.62B", FormatCount(7615616512))
	require.Equal(t, "0:09", FormatLeft(9*time.Second))
	require.Equal(t, "1:05:30", FormatLeft(time.Hour+5*time.Minute+30*time.Second))
}

// TestMeterLine checks the text of a progress bar.
func TestMeterLine(t *testing.T) {
	m := &Meter{label: "loading", amount: FormatTokens}
	require.Equal(t, "loading ██████░░░░░░░░░░░░░░░░░░  25%  5 tokens of 20 tokens, 0:30 left", m.line(5, 20, 10*time.Second, 0))
	require.Equal(t, "loading ░░░░░░░░░░░░░░░░░░░░░░░░   0%  0 tokens of 20 tokens", m.line(0, 20, 10*time.Second, 0))
	require.Equal(t, "loading ████████████████████████ 100%  20 tokens of 20 tokens, 0:00 left", m.line(21, 20, 10*time.Second, 0))
	for columns, want := range map[int]string{
		79: "loading ██████░░░░░░░░░░░░░░░░░░  25%  5 tokens of 20 tokens, 0:30 left",
		69: "loading ███░░░░░░░░░  25%  5 tokens of 20 tokens, 0:30 left",
		44: "loading ███░░░░░░░░░  25%, 0:30 left",
		32: "loading █░░░░░  25%, 0:30 left",
		24: "loading  25%, 0:30 left", 19: "loading  25%",
	} {
		require.Equal(t, want, m.line(5, 20, 10*time.Second, columns), columns)
	}
}

// TestMeterFollowsTheWidth draws a bar on a terminal that becomes narrower: what it has broken into lines is removed.
func TestMeterFollowsTheWidth(t *testing.T) { synctest.Test(t, testMeterFollowsTheWidth) }

func testMeterFollowsTheWidth(t *testing.T) {
	var screen bytes.Buffer
	columns := 80
	m := NewMeter(&Streams{Err: &screen, ErrTerminal: true, ErrColumns: func() int { return columns }}, "loading", FormatTokens)
	time.Sleep(10 * time.Second)
	m.Update(0, 20)
	time.Sleep(meterInterval)
	m.Update(5, 20)
	require.Contains(t, screen.String(), "loading ██████░░░░░░░░░░░░░░░░░░  25%  5 tokens of 20 tokens, 0:30 left\x1b[K")
	screen.Reset()
	columns = 40
	time.Sleep(meterInterval)
	m.Update(5, 20)
	require.Equal(t, "\r\x1b[1A\x1b[Jloading ███░░░░░░░░░  25%, 0:31 left\x1b[K", screen.String())
	screen.Reset()
	columns = 8
	time.Sleep(meterInterval)
	m.Update(5, 20)
	require.Equal(t, "\r\x1b[4A\x1b[Jloading\x1b[K", screen.String(), "the last column stays free")
	screen.Reset()
	m.Finish()
	require.Equal(t, "\r\x1b[K", screen.String())
}

// TestAnswersAreBrokenBetweenWords prints a text in pieces of every size on terminals of two widths.
func TestAnswersAreBrokenBetweenWords(t *testing.T) {
	for columns, lines := range map[int]map[string]string{
		12: {
			"The fox went home.\n\nIt slept.":                      "The fox went\nhome.\n\nIt slept.",
			"a  indented words here":                               "a  indented\nwords here",
			"中文字符没有空格也要换行":                                         "中文字符没有空格也要换行",
			"e\u0301e\u0301e\u0301 e\u0301e\u0301e\u0301 abcd end": "e\u0301e\u0301e\u0301 e\u0301e\u0301e\u0301 abcd\nend",
			"😀😀 😀😀 😀😀 x":                                           "😀😀 😀😀 😀😀 x",
			"short abcdefghijklmnopqrst":                           "short\nabcdefghijklmnopqrst",
		},
		0: {"The fox went home.": "The fox went home."},
	} {
		for text, want := range lines {
			for size := 1; size <= len([]rune(text)); size++ {
				var screen bytes.Buffer
				o := &output{w: &screen, Terminal: true, columns: func() int { return columns }}
				for rest := []rune(text); len(rest) > 0; {
					n := min(size, len(rest))
					o.ModelText(string(rest[:n]))
					rest = rest[n:]
				}
				o.EndLine()
				require.Equal(t, want+"\n", screen.String(), "%d columns, %d characters at a time", columns, size)
			}
		}
	}
}

// TestHelpFitsTheTerminal checks that help, notes and errors have no line that is wider than a narrow terminal, except
// for what is to be copied.
func TestHelpFitsTheTerminal(t *testing.T) {
	p := &Program{Name: "prog", Intro: "prog does several things that take\nsome words to tell, on this machine.\n\n  prog do                  a thing of some length\n                           that is explained here\n\nUsage: prog COMMAND", End: "The end.", Groups: []CommandGroup{{Title: "All", Commands: []*Command{{
		Name: "do", Synopsis: "[-n N]", Summary: "do one thing that has a long explanation of its own", About: "It does one thing, which this paragraph describes in more words than a line has.",
		Examples: []Example{{Line: "prog do -n 3", Purpose: "do it as often as somebody who is in a hurry would want it"}},
		Prepare: func(f *FlagSet) Action {
			f.Everyday("n: how often it does the thing")
			f.Group("Flags")
			n, other := 0, 0
			f.Count(&other, "another-flag", "N", "how often it does something else that takes longer", 1, 9)
			f.Count(&n, "n number", "N", "how often it does the thing; default: as often as seems useful to it", 1, 9)
			return func(context.Context, *Streams, []string) error {
				return errors.New("an error that needs more words than a narrow line has columns")
			}
		},
	}}}}}
	for _, args := range [][]string{{"help"}, {"help", "do"}, {"help", "do", "--all"}, {"do"}, {"do", "-n", "0"}, {}} {
		var out, errs bytes.Buffer
		s := &Streams{Out: &output{w: &out, Terminal: true, columns: func() int { return 40 }}, Err: &errs, ErrTerminal: true, ErrColumns: func() int { return 40 }}
		p.Execute(t.Context(), s, args)
		s.Note("a note that needs more words than a narrow line has columns")
		s.Say("two lines\nof which one needs more words than a narrow line has columns")
		s.SayRow("  /command ARGUMENT", "what it does, in more words than a narrow line has columns", 20)
		require.Greater(t, strings.Count(out.String()+errs.String(), "\n"), 3)
		for line := range strings.Lines(out.String() + errs.String()) {
			require.LessOrEqual(t, Cells(strings.TrimSuffix(line, "\n")), 40, line)
		}
	}
}

// TestMeterWaits checks that a Meter shows no progress bar for a short operation, and none if
// standard error is not a terminal.
func TestMeterWaits(t *testing.T) { synctest.Test(t, testMeterWaits) }

func testMeterWaits(t *testing.T) {
	var screen bytes.Buffer
	m := NewMeter(&Streams{Err: &screen, ErrTerminal: true}, "loading", FormatBytes)
	m.Update(1, 2)
	m.Finish()
	require.Empty(t, screen.String())

	time.Sleep(meterDelay)
	m.Update(1, 2)
	m.Update(2, 2) // too soon after the first update
	require.Contains(t, screen.String(), " 50%")
	require.NotContains(t, screen.String(), "100%")
	time.Sleep(meterInterval)
	m.Update(2, 2)
	require.Contains(t, screen.String(), "100%")
	m.Finish()
	require.True(t, bytes.HasSuffix(screen.Bytes(), []byte("\r\x1b[K")), "Finish removes the bar")

	unwatched := NewMeter(&Streams{Err: &screen}, "loading", FormatBytes)
	require.Nil(t, unwatched)
	unwatched.Update(1, 2)
	unwatched.Finish()
}

// TestWrap checks that wrap breaks lines between words and keeps indented lines.
func TestWrap(t *testing.T) {
	require.Equal(t, "one two\nthree\n\n  as it stands here", wrap("one two three\n\n  as it stands here", 8))
}

// TestReadAllRefusesHugeInput checks that an input above the maximum is refused, and that the
// error names the flag and the maximum.
func TestReadAllRefusesHugeInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse")
	file, err := os.Create(path)
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, file.Truncate(MaxInput+1))
	_, err = ReadAll(&Streams{In: file}, "-f", "-")
	require.EqualError(t, err, "-f: standard input has more than 64.0 MiB of text, the maximum; split it")
	_, err = ReadAll(&Streams{}, "-f", path)
	require.ErrorContains(t, err, path+" has more than 64.0 MiB")

	_, err = ReadUpTo(&Streams{}, "-f", path, 3, nil)
	require.ErrorIs(t, err, ErrTooLong)
	_, err = ReadUpTo(&Streams{In: file}, "-f", "-", 3, nil)
	require.ErrorIs(t, err, ErrTooLong)

	require.NoError(t, file.Truncate(3))
	text, err := ReadAll(&Streams{}, "-f", path)
	require.NoError(t, err)
	require.Equal(t, "\x00\x00\x00", text)
}
