package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestSearchReportIsBounded reports steps of a search: each continuation with its own text and the one that it continues.
// Steps for which there is no room are counted.
func TestSearchReportIsBounded(t *testing.T) {
	var r searchReport
	a := &llmrun.Candidate{IDs: []int32{1}, Text: "one.", Score: 1}
	b := &llmrun.Candidate{IDs: []int32{2}, Text: "two.", Score: 2}
	r.add([]*llmrun.Candidate{a, b}, []*llmrun.Candidate{b})
	c := &llmrun.Candidate{IDs: []int32{2, 3}, Text: "two. Three.", Score: 3}
	r.add([]*llmrun.Candidate{c}, []*llmrun.Candidate{c})
	require.Equal(t, []stepReport{
		{[]continuation{{-1, "one.", 1, false}, {-1, "two.", 2, true}}}, {[]continuation{{1, " Three.", 3, true}}},
	}, r.rounds)

	long := *c
	for range 400 {
		next := long
		next.IDs, next.Text = append(next.IDs, 4), next.Text+strings.Repeat("x", 1<<10)
		r.add([]*llmrun.Candidate{&next}, []*llmrun.Candidate{&next})
		long = next
	}
	require.Len(t, r.rounds[2].Continuations[0].Text, 1<<10, "the text of the step")
	require.Equal(t, 402, len(r.rounds)+r.leftOut)
	require.Greater(t, len(r.rounds), 200)
	require.LessOrEqual(t, r.bytes, mostReported)
	require.Positive(t, r.leftOut)
}
