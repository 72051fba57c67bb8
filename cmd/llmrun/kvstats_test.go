package main

import (
	"testing"

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
