package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
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
	require.Equal(t, "loading ██████░░░░░░░░░░░░░░░░░░  25%  5 tokens of 20 tokens, 0:30 left", m.line(5, 20, 10*time.Second))
	require.Equal(t, "loading ░░░░░░░░░░░░░░░░░░░░░░░░   0%  0 tokens of 20 tokens", m.line(0, 20, 10*time.Second))
	require.Equal(t, "loading ████████████████████████ 100%  20 tokens of 20 tokens, 0:00 left", m.line(21, 20, 10*time.Second))
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
