package measure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/bench"
)

// TestRecallCellsOfAKilledRun reads results whose last line is cut off.
func TestRecallCellsOfAKilledRun(t *testing.T) {
	const whole = `{"of":"x","kv":"k8v8","document":3,"context":1024,"answers":{"memory":[{"question":0,"right":true}]}}` + "\n"
	cells, cut, err := ReadRecallCells(strings.NewReader(whole + `{"of":"x","kv":"k8`))
	require.NoError(t, err)
	require.Equal(t, 18, cut)
	require.Len(t, cells, 1)
	require.Equal(t, 3, cells[0].Document)
	require.True(t, cells[0].Answers[recallMemory][0].Right)
	_, _, err = ReadRecallCells(strings.NewReader(whole + "{\n"))
	require.ErrorIs(t, err, bench.ErrBench)
	require.ErrorContains(t, err, "line 2")
}

// TestRecallReportJudges gives selection answers that lose too much in one kind, in a context that
// counts, and in one that does not count.
func TestRecallReportJudges(t *testing.T) {
	cell := func(context, exact, lost, won int) RecallCell {
		c := RecallCell{KV: "k8v8", Context: context, Answers: map[string][]RecallAnswer{}}
		for q := range 100 {
			c.Kinds = append(c.Kinds, passkeyKind)
			right := q < exact
			selected := right && q >= lost || !right && q < exact+won
			c.Answers[recallMemory] = append(c.Answers[recallMemory], RecallAnswer{Question: q, Right: right})
			c.Answers[recallSelected] = append(c.Answers[recallSelected], RecallAnswer{Question: q, Right: selected, Read: 5, Cold: 100})
		}
		return c
	}
	o := RecallOptions{Documents: 1, Formats: []string{"k8v8"}, Contexts: []int{4096, 16384}}
	r := newRecallReport(&o, "m", []RecallCell{cell(4096, 80, 4, 2), cell(16384, 59, 50, 0)})
	v := r.Verdicts[0]
	require.Equal(t, RecallPairs{Asked: 100, Exact: 80, Select: 78, Lost: 4, Won: 2}, v.RecallPairs)
	require.InDelta(t, 2.0, v.Points, 1e-9)
	require.InDelta(t, 5.07, v.Margin, 0.01) // of (a+b-(a-b)²/n)½/n with a = 4.5, b = 2.5, n = 102
	require.Empty(t, r.Failures)
	r = newRecallReport(&o, "m", []RecallCell{cell(4096, 80, 5, 2)})
	require.Len(t, r.Failures, 1, "the interval of one kind includes 2 points")
	require.Contains(t, r.Failures[0], "k8v8, all: selection lost 3.0 ± 5.4 points")
	r = newRecallReport(&o, "m", []RecallCell{cell(4096, 80, 12, 0)})
	require.Len(t, r.Failures, 2)
	require.Contains(t, r.Failures[0], "k8v8, passkeys: selection lost 12.0")
}

// TestRecallDocument reads a document back: it has the length that it promises, its parts are its
// beginnings, and every fact stands in it once, at the place of its kind.
func TestRecallDocument(t *testing.T) {
	encode := func(text string) (ids []int32) {
		for _, r := range text {
			ids = append(ids, r)
		}
		return ids
	}
	contexts := []int{16384, 65536}
	d, err := newRecallDocument(encode, "A line of text.\nAnother one, longer.\n", 3, contexts, 64, 18)
	require.NoError(t, err)
	require.Len(t, d.ids, 65536-recallMargin)
	for i, part := range d.parts {
		require.Equal(t, (contexts[i]-recallMargin)/64*64, part.tokens)
		require.Len(t, part.facts, 12*(i+1)+6)
		text := string(d.ids[:part.tokens])
		for _, f := range part.facts {
			at := strings.Index(text, f.statement+"\n")
			require.GreaterOrEqual(t, at, 0)
			require.Equal(t, at, strings.LastIndex(text, f.statement+"\n"))
			if f.kind == noteKind {
				require.Less(t, at, len(text)-recallTail)
				require.Greater(t, at, len(text)-recallTail-recallReach-2000)
			}
		}
	}
}
