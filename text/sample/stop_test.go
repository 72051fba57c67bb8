package sample

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

func newMatcher(t testing.TB, stops ...string) *StopMatcher {
	m, err := NewStopMatcher(stops)
	require.NoError(t, err)
	return m
}

func TestStopMatcher(t *testing.T) {
	for name, c := range map[string]struct {
		stops   []string
		pieces  []string
		emits   []string
		matched string
		rest    string // expected result of Flush
	}{
		"no stops":                   {nil, []string{"a", "b"}, []string{"a", "b"}, "", ""},
		"within a piece":             {[]string{"END"}, []string{"say END now"}, []string{"say "}, "END", ""},
		"across pieces":              {[]string{"END"}, []string{"say E", "N", "D!"}, []string{"say ", "", ""}, "END", ""},
		"retained, then emitted":     {[]string{"END"}, []string{"E", "N", "T"}, []string{"", "", "ENT"}, "", ""},
		"retained at the end":        {[]string{"END"}, []string{"say EN"}, []string{"say "}, "", "EN"},
		"restart inside a match":     {[]string{"aab"}, []string{"aa", "a", "b"}, []string{"", "a", ""}, "aab", ""},
		"periodic":                   {[]string{"ababc"}, []string{"abab", "abc"}, []string{"", "ab"}, "ababc", ""},
		"first end wins":             {[]string{"abcd", "bc"}, []string{"abc", "d"}, []string{"a", ""}, "bc", ""},
		"longer at same end":         {[]string{"d", "abcd"}, []string{"abc", "d"}, []string{"", ""}, "abcd", ""},
		"longest prefix is retained": {[]string{"xyz", "zz"}, []string{"axy", "b"}, []string{"a", "xyb"}, "", ""},
		"runes stay complete":        {[]string{"é!"}, []string{"ê", "é", "è"}, []string{"ê", "", "éè"}, "", ""},
		"no text after the stop":     {[]string{"."}, []string{"a.b", "c"}, []string{"a", ""}, ".", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMatcher(t, c.stops...)
			stopped := false
			for i, piece := range c.pieces {
				emit, now := m.Push(piece)
				require.Equal(t, c.emits[i], emit, "piece %d", i)
				stopped = now
			}
			require.Equal(t, c.matched != "", stopped)
			require.Equal(t, c.matched, m.Matched())
			require.Equal(t, c.rest, m.Flush())
			emit, _ := m.Push("~")
			require.Equal(t, "~", emit, "Flush resets the matcher")
		})
	}
}

func TestInvalidStops(t *testing.T) {
	for _, stops := range [][]string{{""}, {"a", "\xff"}, {strings.Repeat("x", MaxStopLength+1)}, make([]string, 1_000_000)} {
		_, err := NewStopMatcher(stops)
		var refused *ParamError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "stop", refused.Field)
	}
}

// TestStopMatcherOnRandomPieces splits random texts at random positions. The
// output must be the text before the first complete stop string, and the matcher must
// retain no more text than necessary.
func TestStopMatcherOnRandomPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	random := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte("ab"[rng.IntN(2)])
		}
		return b.String()
	}
	for range 3000 {
		var stops []string
		for range 1 + rng.IntN(4) {
			stops = append(stops, random(1+rng.IntN(6)))
		}
		text := random(rng.IntN(30))
		want, found := referenceStop(text, stops)

		m := newMatcher(t, stops...)
		got, stopped := "", false
		for rest := text; rest != "" && !stopped; {
			n := 1 + rng.IntN(len(rest))
			var emit string
			emit, stopped = m.Push(rest[:n])
			got += emit
			rest = rest[n:]
			if !stopped {
				seen := text[:len(text)-len(rest)]
				require.Equal(t, len(seen)-longestHold(seen, stops), len(got), "%q %q", seen, stops)
			}
		}
		got += m.Flush()
		require.Equal(t, want, got, "%q %q", text, stops)
		require.Equal(t, found, stopped)
	}
}

func referenceStop(text string, stops []string) (before string, found bool) {
	for end := range len(text) + 1 {
		cut := -1
		for _, s := range stops {
			if strings.HasSuffix(text[:end], s) && (cut < 0 || end-len(s) < cut) {
				cut = end - len(s)
			}
		}
		if cut >= 0 {
			return text[:cut], true
		}
	}
	return text, false
}

func longestHold(seen string, stops []string) int {
	hold := 0
	for _, s := range stops {
		for n := range len(s) {
			if strings.HasSuffix(seen, s[:n]) {
				hold = max(hold, n)
			}
		}
	}
	return hold
}

// worstStops returns the maximum number of stop strings of about the given length, which
// the text "aaa…" always matches almost to their ends.
func worstStops(length int) (stops []string) {
	for i := range MaxStops {
		stops = append(stops, strings.Repeat("a", length-1-i)+"b")
	}
	return stops
}

// pushAll pushes 32 KiB in pieces and returns how many bytes are shown.
func pushAll(t *testing.T, m *StopMatcher) (shown int) {
	piece := strings.Repeat("a", 64)
	for range 1 << 15 / len(piece) {
		emit, stopped := m.Push(piece)
		require.False(t, stopped)
		shown += len(emit)
	}
	return shown
}

func TestStopMatcherWithTheWorstText(t *testing.T) {
	require.Equal(t, 1<<15-(MaxStopLength-1), pushAll(t, newMatcher(t, worstStops(MaxStopLength)...)))
}

// TestMeasuredStopMatcherIsNearLinear runs the worst text with short and long stop strings.
// An algorithm whose time grows with the length of the stop strings takes far longer for
// the long ones.
func TestMeasuredStopMatcherIsNearLinear(t *testing.T) {
	testutil.Measured(t)
	push := func(length int) func() {
		m := newMatcher(t, worstStops(length)...)
		return func() { pushAll(t, m) }
	}
	testutil.NearlyProportional(t, "long stop strings", 1, push(MaxStops+1), push(MaxStopLength))
}
