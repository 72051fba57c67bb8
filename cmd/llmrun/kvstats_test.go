package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestKVStatsPerToken checks that statistics per token divide by the number of decode passes, which
// includes the pass of the end-of-text token.
func TestKVStatsPerToken(t *testing.T) {
	stats := llmrun.Stats{GeneratedTokens: 4, StopReason: llmrun.StopLength, DecodeKV: llmrun.KVUse{Read: 300}}
	require.EqualValues(t, 100, newKVStats(stats).ReadPerToken)
	stats.StopReason, stats.DecodeKV.Read = llmrun.StopEOS, 400
	require.EqualValues(t, 100, newKVStats(stats).ReadPerToken)
	stats.GeneratedTokens, stats.DecodeKV.Read = 1, 100
	require.EqualValues(t, 100, newKVStats(stats).ReadPerToken)
	stats.GeneratedTokens = 0
	require.Zero(t, newKVStats(stats).ReadPerToken)
}

// TestSpillsAreReported adds up the writes and waits of both phases.
func TestSpillsAreReported(t *testing.T) {
	k := newKVStats(llmrun.Stats{
		GeneratedTokens: 5, StopReason: llmrun.StopLength,
		PrefillKV: llmrun.KVUse{Written: 700, SpillStalled: time.Millisecond, SpillStalls: 1},
		DecodeKV:  llmrun.KVUse{Written: 80, SpillStalled: 2 * time.Millisecond, SpillStalls: 3, AheadPages: 4},
	})
	require.EqualValues(t, 780, k.Written)
	require.EqualValues(t, 20, k.WrittenPerToken)
	require.InDelta(t, 3, k.SpillStallMS, 1e-9)
	require.Equal(t, 4, k.SpillStalls)
	require.Equal(t, 4, k.AheadPages)
}

// TestColdReadFraction checks that the fraction counts decoding alone and is 0 if nothing is on
// flash.
func TestColdReadFraction(t *testing.T) {
	stats := llmrun.Stats{
		GeneratedTokens: 5, StopReason: llmrun.StopLength,
		PrefillKV: llmrun.KVUse{Read: 700, Cold: 900}, DecodeKV: llmrun.KVUse{Read: 80, Cold: 1000},
	}
	require.InDelta(t, 0.08, newKVStats(stats).ColdReadFraction, 1e-12)
	stats.DecodeKV = llmrun.KVUse{}
	require.Zero(t, newKVStats(stats).ColdReadFraction)
}

// TestClassesAreReported adds up the transfers of both phases.
func TestClassesAreReported(t *testing.T) {
	var a, b llmrun.TransferClasses
	a.Awaited = llmrun.ClassUse{Transfers: 1, Bytes: 10, Waits: 2, Waited: time.Millisecond, MovedUp: 3}
	b.Awaited = llmrun.ClassUse{Transfers: 10, Bytes: 100, Waits: 20, Waited: 2 * time.Millisecond, MovedUp: 30}
	b.Written = llmrun.ClassUse{Transfers: 1, Bytes: 1000}
	s := newClassStats(a, b)
	require.Equal(t, classUse{11, 110, 22, 3, 33}, s.Awaited)
	require.Zero(t, s.Guessed)
	var text strings.Builder
	s.print(&text)
	require.Equal(t, "transfers: awaited 110 B (waited 3 ms in 22), written 1000 B (waited 0 ms in 0)\n", text.String())
}
