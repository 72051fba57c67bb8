package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

func TestModelTextOnATerminal(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain", "Hëllo\n\tworld 😀", "Hëllo\n\tworld 😀"},
		{"escape sequence", "\x1b[2J", "␛[2J"},
		{"bell and delete", "a\ab\x7f", "a␇b␡"},
		{"carriage return", "a\r\nb\rc", "a\nbc"},
		{"C1 control", "a\u009bb", "a\uFFFDb"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var screen, file bytes.Buffer
			(&output{w: &screen, terminal: true}).modelText(test.text)
			require.Equal(t, test.want, screen.String())
			(&output{w: &file}).modelText(test.text)
			require.Equal(t, test.text, file.String(), "a file gets the text as it is")
		})
	}
}

type brokenWriter struct{ writes int }

func (b *brokenWriter) Write([]byte) (int, error) {
	b.writes++
	return 0, errors.New("disk full")
}

func TestOutputRemembersTheFirstFailure(t *testing.T) {
	broken := &brokenWriter{}
	o := &output{w: broken}
	o.modelText("a")
	o.modelText("b")
	require.EqualError(t, o.failure(), "writing the result: disk full")
	require.Equal(t, 1, broken.writes, "nothing is written after a failure")
}

// Numbers come back from JSON as the same float32; what JSON lacks is null.
func TestJSONRowsKeepEveryBit(t *testing.T) {
	rows := [][]float32{
		{0, 1, -1, 0.1, 1.0 / 3, 16777216, 1e-45, math.MaxFloat32, math.SmallestNonzeroFloat32, -3.4e-9},
		{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))},
		{},
	}
	var text bytes.Buffer
	o := &output{w: &text}
	require.NoError(t, o.writeRows(`{"positions":[3],`, "rows", rows))

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
	require.NoError(t, o.writeRows("{", "rows", nil))
	require.Equal(t, "{\"rows\":[]}\n", text.String())
}

func TestErrorsAreOneLine(t *testing.T) {
	require.Equal(t, "tensor ␛[31m: bad", oneLine(errors.New("tensor \x1b[31m:\n\tbad")))
	require.Equal(t, "no room; and no disk", oneLine(errors.Join(errors.New("no room"), errors.New("and  no disk\n"))))
}

func TestFormats(t *testing.T) {
	require.Equal(t, "512 B", formatBytes(512))
	require.Equal(t, "1.5 KiB", formatBytes(1536))
	require.Equal(t, "28.5 MiB", formatBytes(29905584))
	require.Equal(t, "4.37 GiB", formatBytes(4692251770))
	require.Equal(t, "999", formatCount(999))
	require.Equal(t, "14.9M", formatCount(14948736))
	require.Equal(t, "7.62B", formatCount(7615616512))
	require.Equal(t, "0:09", formatLeft(9*time.Second))
	require.Equal(t, "1:05:30", formatLeft(time.Hour+5*time.Minute+30*time.Second))
}

func TestMeterLine(t *testing.T) {
	m := &meter{label: "loading", amount: formatTokens}
	require.Equal(t, "loading ██████░░░░░░░░░░░░░░░░░░  25%  5 tokens of 20 tokens, 0:30 left", m.line(5, 20, 10*time.Second))
	require.Equal(t, "loading ░░░░░░░░░░░░░░░░░░░░░░░░   0%  0 tokens of 20 tokens", m.line(0, 20, 10*time.Second))
	require.Equal(t, "loading ████████████████████████ 100%  20 tokens of 20 tokens, 0:00 left", m.line(21, 20, 10*time.Second))
}

func TestStatsLine(t *testing.T) {
	seed := uint64(7)
	stats := llmrun.Stats{
		PromptTokens: 21, ReusedTokens: 1, GeneratedTokens: 11, StopReason: "eos",
		Prefill: 10 * time.Millisecond, FirstToken: 12 * time.Millisecond, Decode: 50 * time.Millisecond,
	}
	require.Equal(t, "prompt 21 tokens (1 reused), 2000 tok/s; first token after 12ms; answer 11 tokens, 200.0 tok/s; the model ended it; seed 7",
		statsLine(stats, &seed))
	stats.RecalledTokens, stats.Slides, stats.ForgottenTokens = 1, 2, 30
	require.Contains(t, statsLine(stats, &seed), "(1 reused, 1 of them from flash)")
	require.Contains(t, statsLine(stats, &seed), "; 30 tokens forgotten in 2 slides; seed 7")
	require.Equal(t, "prompt 9975 tokens; no answer; interrupted",
		statsLine(llmrun.Stats{PromptTokens: 9975, StopReason: "cancelled"}, &seed))
}

// What is quick shows no bar, and what nobody watches shows none ever.
func TestMeterWaits(t *testing.T) {
	var screen bytes.Buffer
	m := newMeter(&streams{err: &screen, errTerminal: true}, "loading", formatBytes)
	m.update(1, 2)
	m.finish()
	require.Empty(t, screen.String())

	m.started = time.Now().Add(-time.Second)
	m.update(1, 2)
	m.update(2, 2) // too soon after the first
	require.Contains(t, screen.String(), " 50%")
	require.NotContains(t, screen.String(), "100%")
	m.finish()
	require.True(t, bytes.HasSuffix(screen.Bytes(), []byte("\r\x1b[K")), "the bar is taken away")

	unwatched := newMeter(&streams{err: &screen}, "loading", formatBytes)
	require.Nil(t, unwatched)
	unwatched.update(1, 2)
	unwatched.finish()
}

func TestNearest(t *testing.T) {
	require.Equal(t, "inspect", nearest("inspcet", commandNames()))
	require.Equal(t, "tokenize", nearest("tokenise", commandNames()))
	require.Equal(t, "", nearest("frobnicate", commandNames()))
}

func TestWrap(t *testing.T) {
	require.Equal(t, "one two\nthree\n\n  as it stands here", wrap("one two three\n\n  as it stands here", 8))
}
