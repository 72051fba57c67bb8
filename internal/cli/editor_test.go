package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// A glass is the screen of a terminal. Some terminals draw an emoji of several characters in two columns, others each
// character of it beside the other.
type glass struct {
	t               *testing.T
	joined          bool
	columns, height int
	rows            [][]string // of cells; that behind a wide one is empty
	x, y            int
	scrolled        bool
	escape          string // a sequence that has begun
}

func newGlass(t *testing.T, joined bool, columns, height int) *glass {
	return &glass{t: t, joined: joined, columns: columns, height: height, rows: make([][]string, 1)}
}

func (g *glass) Write(p []byte) (int, error) {
	for _, r := range string(p) {
		g.put(r)
	}
	return len(p), nil
}

func (g *glass) put(r rune) {
	switch {
	case g.escape != "" || r == '\x1b':
		g.escape += string(r)
		if len(g.escape) > 2 && unicode.IsLetter(r) {
			g.control(g.escape[2:len(g.escape)-1], r)
			g.escape = ""
		}
	case r == '\r':
		g.x = 0
	case r == '\n':
		if g.y++; g.y == g.height {
			g.rows, g.y, g.scrolled = g.rows[1:], g.y-1, true
		}
		for g.y >= len(g.rows) {
			g.rows = append(g.rows, nil)
		}
	default:
		g.print(r)
	}
}

func (g *glass) control(number string, command rune) {
	n, err := strconv.Atoi(number)
	if err != nil {
		n = 1
	}
	switch command {
	case 'A':
		g.y -= n
		require.GreaterOrEqual(g.t, g.y, 0, "above the terminal")
	case 'J':
		g.rows = g.rows[:g.y+1]
		g.rows[g.y] = g.rows[g.y][:min(g.x, len(g.rows[g.y]))]
		if number == "2" {
			g.rows = make([][]string, 1)
		}
	case 'H':
		g.x, g.y = 0, 0
	default:
		g.t.Fatalf("an unknown control sequence: %q", command)
	}
}

// print prints a character. The editor never lets the terminal break a row, and leaves its last column free.
func (g *glass) print(r rune) {
	width := map[bool]int{true: 2, false: 1}[r >= 0x1100 && !isFlagLetter(r) && r != '❤']
	if r == '\u200d' || r == '\ufe0f' || r == '\u0301' {
		width = 0
	}
	row := &g.rows[g.y]
	last := g.x - 1
	for last > 0 && (*row)[last] == "" {
		last--
	}
	if g.joined && g.x > 0 && joins([]rune((*row)[last]+string(r)), len([]rune((*row)[last]))) {
		if width > 0 || r == '\ufe0f' {
			width = max(2-(g.x-last), 0)
		}
	} else if last = g.x; width == 0 && g.x > 0 {
		if last = g.x - 1; (*row)[last] == "" {
			last--
		}
	}
	require.Less(g.t, g.x+width, g.columns, "the last column: %+q", *row)
	for len(*row) < max(last+1, g.x+width) {
		*row = append(*row, "")
	}
	if last == g.x {
		(*row)[last] = ""
	}
	(*row)[last] += string(r)
	for i := max(g.x, last+1); i < g.x+width; i++ {
		(*row)[i] = ""
	}
	g.x += width
}

// text returns what stands before the cursor and behind it.
func (g *glass) text() (before, after string) {
	var text [2]strings.Builder
	for y, row := range g.rows {
		behind := 0
		for x, cell := range row {
			if y > g.y || y == g.y && x >= g.x {
				behind = 1
			}
			text[behind].WriteString(cell)
		}
	}
	return text[0].String(), text[1].String()
}

func (g *glass) lines() (lines []string) {
	for _, row := range g.rows {
		lines = append(lines, strings.Join(row, ""))
	}
	return lines
}

// lines are a history.
type pastLines []string

func (p *pastLines) Add(line string) { *p = append(*p, line) }
func (p *pastLines) Len() int        { return len(*p) }
func (p *pastLines) At(i int) string { return (*p)[len(*p)-1-i] }

// pressed gives one key at a time. It calls look when everything before it has been drawn.
type pressed struct {
	keys []string
	look func()
}

func (p *pressed) Read(b []byte) (int, error) {
	p.look()
	if len(p.keys) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.keys[0])
	p.keys = p.keys[1:]
	return n, nil
}

const (
	up, down, right, left = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"
	home, end, del, back  = "\x1b[H", "\x1b[F", "\x1b[3~", "\x7f"
	family                = "👩\u200d👩\u200d👧"
	heart                 = "❤\ufe0f"
	flags                 = "🇩🇪🇫🇷"
)

// TestLineEditorHasWideCharacters checks where the cursor is, what is deleted and where lines break, on both kinds of
// terminals.
func TestLineEditorHasWideCharacters(t *testing.T) {
	long := strings.Repeat("語", 18)
	for _, test := range []struct {
		name, keys string
		want       string // the line
		rows       []string
		x, y       int // of the cursor
	}{
		{"Chinese", "漢字x" + left, "漢字x", []string{"> 漢字x"}, 6, 0},
		{"two wide ones back", "漢字" + left + left, "漢字", []string{"> 漢字"}, 2, 0},
		{"a wide one deleted", "a漢字b" + left + back, "a漢b", []string{"> a漢b"}, 5, 0},
		{"an accent with its letter", "e\u0301x" + left + back, "x", []string{"> x"}, 2, 0},
		{"over an accent", "ae\u0301x" + left + left + "b", "abe\u0301x", []string{"> abe\u0301x"}, 4, 0},
		{"an accent behind", "e\u0301", "e\u0301", []string{"> e\u0301"}, 3, 0},
		{"a family", "a" + family + back, "a", []string{"> a"}, 3, 0},
		{"a family from its beginning", family + "a" + home + del, "a", []string{"> a"}, 2, 0},
		{"a heart", heart + heart + back + "a" + home, heart + "a", []string{"> " + heart + "a"}, 2, 0},
		{"the second flag", flags + back, "🇩🇪", []string{"> 🇩🇪"}, 4, 0},
		{"a colour of skin", "👍🏽a" + left + left, "👍🏽a", []string{"> 👍🏽a"}, 2, 0},
		{"exchanged", "漢e\u0301\x14", "e\u0301漢", []string{"> e\u0301漢"}, 5, 0},
		{"a full row", long, long, []string{"> " + long}, 38, 0},
		{"a wide one more", long + "x語", long + "x語", []string{"> " + long + "x", "語"}, 2, 1},
		{"no half of a wide one", long + "語", long + "語", []string{"> " + long, "語"}, 2, 1},
		{"up to the second row", long + "語", long + "語", []string{"> " + long, "語"}, 2, 1},
		{"back to the first row", long + "語" + left + left, long + "語", []string{"> " + long, "語"}, 36, 0},
		{"deleted into the first row", long + "語" + back + back, long[3:], []string{"> " + long[3:]}, 36, 0},
		{"inserted at the beginning", long + home + "ab", "ab" + long, []string{"> ab" + long[3:], "語"}, 4, 0},
		{"home and end of other terminals", "ab\x1b[1~c\x1b[4~d\x1bOHe\x1bOFf", "ecabdf", []string{"> ecabdf"}, 8, 0},
		{"words", "one two  three\x17x\x1b[1;5D\x1b[1;3D\x1bby\x1bfz", "yone ztwo  x", []string{"> yone ztwo  x"}, 8, 0},
		{"the beginning and the rest", "abc def" + left + left + "\x15" + right + "\x0b", "e", []string{"> e"}, 3, 0},
		{"a screen that is cleared", long + "語" + home + "\x0c", long + "語", []string{"> " + long, "語"}, 2, 0},
		{"control characters of a pasted text", PasteBegin + "a\tb\x01" + PasteEnd, "a\tb\x01", []string{"> a b?"}, 6, 0},
		{"unknown keys", "a\x1b[15~\x1b[1;2P\x1bz\x00b", "ab", []string{"> ab"}, 4, 0},
		{"the history", up + "c" + up + down + down + "d", "d", []string{"> d"}, 3, 0},
	} {
		for _, joined := range []bool{false, true} {
			for _, slow := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s joined=%v slow=%v", test.name, joined, slow), func(t *testing.T) {
					screen := newGlass(t, joined, 40, 24)
					var keys io.Reader = strings.NewReader(test.keys)
					if slow {
						keys = iotest.OneByteReader(keys)
					}
					e := NewLineEditor(nil, screen, &pastLines{"a", "b"})
					require.NoError(t, e.SetSize(40, 24))
					looked := false
					look := &pressed{look: func() {
						looked = true
						require.Equal(t, test.rows, screen.lines())
						before, after := screen.text()
						if screen.y == test.y && !strings.ContainsAny(before, "🇩❤👍") { // which terminals measure as they like
							require.Equal(t, test.x, screen.x)
						}
						require.Equal(t, strings.Join(test.rows, ""), before+after)
						require.Equal(t, test.y, screen.y)
						require.Equal(t, test.want, string(e.line))
					}}
					e.in = io.MultiReader(keys, look, strings.NewReader(""))
					_, _, err := e.ReadLine("> ")
					require.ErrorIs(t, err, io.EOF)
					require.True(t, looked)
				})
			}
		}
	}
}

// TestLineEditorLeavesNoResidue presses random keys on terminals of many sizes. After each, the screen has the line and
// nothing else, with the cursor at its place.
func TestLineEditorLeavesNoResidue(t *testing.T) {
	r := testutil.Random(t)
	keys := []string{"a", "b", " ", "語", "字", "e\u0301", "\u0301", "👩", family, "👍", "🏽", heart, "\u200d", "🇩", "🇪", flags, left, left, right, home, end, del, back, up, down, "\x17", "\x0b", "\x14", "\x1b[1;5D", "\x1b[1;5C"}
	for n := range testutil.Effort(30, 2000) {
		screen := newGlass(t, n%2 == 0, 9+r.IntN(32), 3+r.IntN(20))
		var e *LineEditor
		in := &pressed{look: func() {
			before, after := screen.text()
			line, pos := slices.Clone(e.line), e.pos
			if len(line) > 0 && cellsOf(line[0]) == 0 {
				line[0] = '?' // an accent without a letter
			}
			if screen.scrolled || e.top > 0 || len(e.rows) > screen.height {
				require.True(t, strings.HasSuffix("> "+string(line[:pos]), before), "%q before the cursor, of %q", before, string(line[:pos]))
				require.True(t, strings.HasPrefix(string(line[pos:]), after), "%q behind the cursor, of %q", after, string(line[pos:]))
				return
			}
			require.Equal(t, "> "+string(line[:pos]), before)
			require.Equal(t, string(line[pos:]), after)
			require.True(t, pos == len(line) || !joins(e.line, pos), "the cursor is within a cluster")
		}}
		for range 40 {
			in.keys = append(in.keys, strings.Repeat(keys[r.IntN(len(keys))], 1+r.IntN(3)))
		}
		e = NewLineEditor(in, screen, &pastLines{strings.Repeat("語a", 30), "short"})
		require.NoError(t, e.SetSize(screen.columns, screen.height))
		_, _, err := e.ReadLine("> ")
		require.ErrorIs(t, err, io.EOF)
		if t.Failed() {
			return
		}
	}
}

// resize changes the width of the screen, as terminals do that break rows which have become too long.
func (g *glass) resize(columns int) {
	var rows [][]string
	x, y := g.x, g.y
	for i, row := range g.rows {
		if i == y {
			x, g.y = g.x%columns, len(rows)+g.x/columns
		}
		for len(row) > columns {
			rows, row = append(rows, row[:columns]), row[columns:]
		}
		rows = append(rows, slices.Clone(row))
	}
	g.rows, g.x, g.columns = rows, x, columns
	for g.y >= len(g.rows) {
		g.rows = append(g.rows, nil)
	}
}

// TestLineEditorFollowsTheWidth makes a terminal narrower and wider while a line is edited: what stands above the line
// stays, and the line is there once.
func TestLineEditorFollowsTheWidth(t *testing.T) {
	screen := newGlass(t, false, 80, 24)
	fmt.Fprint(screen, "an answer\r\n")
	line := strings.Repeat("ab語 ", 24)
	columns := []int{40, 21, 60, 33, 100}
	in := &pressed{keys: []string{line, home, strings.Repeat(right, 50), "x"}}
	var e *LineEditor
	in.look = func() {
		if len(in.keys) > 0 || len(columns) == 0 {
			return
		}
		for _, n := range columns {
			screen.resize(n)
			require.NoError(t, e.SetSize(n, 24))
			before, after := screen.text()
			require.Equal(t, "an answer> "+string(e.line[:e.pos]), before, n)
			require.Equal(t, string(e.line[e.pos:]), after, n)
			require.Equal(t, "an answer", screen.lines()[0])
		}
		columns = nil
		in.keys = []string{"\r"}
	}
	e = NewLineEditor(in, screen, &pastLines{})
	require.NoError(t, e.SetSize(80, 24))
	got, pasted, err := e.ReadLine("> ")
	require.NoError(t, err)
	require.False(t, pasted)
	require.Equal(t, string([]rune(line)[:50])+"x"+string([]rune(line)[50:]), got)
	require.Zero(t, screen.x, "the next output begins a row")
	require.Empty(t, screen.rows[screen.y])
}

// TestLineEditorEndsLines checks what ends a line or the input, and which lines are pasted.
func TestLineEditorEndsLines(t *testing.T) {
	type ended struct {
		line   string
		pasted bool
		err    error
	}
	for keys, want := range map[string][]ended{
		"a\rb\nc\r\nd\r": {{"a", false, nil}, {"b", false, nil}, {"c", false, nil}, {"d", false, nil}},
		PasteBegin + "a\r\x1b[A\x03\r" + PasteEnd + "\r": {{"a", true, nil}, {"\x1b[A\x03", true, nil}, {"", false, nil}},
		"x" + PasteBegin + "a\rb" + PasteEnd + "\r":      {{"xa", false, nil}, {"b", false, nil}},
		"ab\x03":                             {{"", false, ErrInterrupted}},
		"ab\x04\x04" + home + "\x04\x04\x04": {{"", false, io.EOF}},
	} {
		var past pastLines
		e := NewLineEditor(iotest.OneByteReader(strings.NewReader(keys)), newGlass(t, false, 80, 24), &past)
		var lines []string
		for _, want := range want {
			line, pasted, err := e.ReadLine("> ")
			require.ErrorIs(t, err, want.err)
			require.Equal(t, want.line, line, "%q", keys)
			require.Equal(t, want.pasted, pasted, "%q", keys)
			if err == nil {
				lines = append(lines, line)
			}
		}
		require.Equal(t, lines, []string(past))
	}
}

// TestLineEditorIsFastWithLongText pastes a long text, at the end and before the end of a line: what is drawn and laid out for
// each part of it does not grow with the line.
func TestLineEditorIsFastWithLongText(t *testing.T) {
	text := strings.Repeat("a long text ", 1<<17/12)
	for _, before := range []string{"", "end" + home} {
		drawn := &counted{}
		e := NewLineEditor(strings.NewReader(before+PasteBegin+text+PasteEnd+"\r"), drawn, &pastLines{})
		line, _, err := e.ReadLine("> ")
		require.NoError(t, err)
		require.Len(t, line, len(text)+len(strings.TrimSuffix(before, home)))
		require.Less(t, drawn.bytes, 20*len(text))
	}
}

type counted struct{ bytes int }

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return len(p), nil
}
