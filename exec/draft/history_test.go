package draft

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHistoryPredicts counts passes by hand: half of them have guesses, of which 3 of 4 are right.
func TestHistoryPredicts(t *testing.T) {
	var h History
	for i := range 12 {
		require.Equal(t, i >= 6, h.Enough())
		h.Add(0, 0)
		h.Add(4, 3)
		h.Add(0, 0)
		h.Add(2, 2) // none is wrong
	}
	require.Equal(t, History{Asked: 48, Guessed: 24, Right: 60, Wrong: 12}, h)
	require.True(t, h.Enough())
	require.True(t, h.Valid())
	free := func(int) float64 { return 2 }
	e := h.Expect(free, 0, 2, false)
	right := 60.0 / 72
	require.Equal(t, 2, e.Guesses)
	require.InDelta(t, 0.5*(1+right+right*right)+0.5, e.TokensPerPass, 1e-9)
	require.InDelta(t, 2/e.TokensPerPass, e.Seconds, 1e-9)

	dear := func(tokens int) float64 { return float64(tokens) }
	e = h.Expect(dear, 0.1, 2, false)
	require.Equal(t, Expected{Guesses: 0, TokensPerPass: 1, Seconds: 1}, e, "guesses do not pay")
	e = h.Expect(dear, 0.1, 2, true)
	require.Equal(t, 2, e.Guesses)
	require.InDelta(t, (0.5*3.2+0.5)/e.TokensPerPass, e.Seconds, 1e-9, "they are made all the same")

	later := h.After(History{Asked: 10, Guessed: 10, Right: 90, Wrong: 1})
	require.Equal(t, History{Asked: 34, Guessed: 22, Right: 120, Wrong: 7}, later)
	require.False(t, (&History{Asked: 1, Guessed: 2}).Valid())
	require.False(t, (&History{Asked: 100, Guessed: 50, Right: math.MaxInt, Wrong: 1}).Valid())
	require.False(t, (&History{Asked: math.MaxInt, Guessed: 50, Right: 50}).Valid())
	for _, name := range []string{LookupName, NestedName, ModelName} {
		h := Assumed(name)
		require.True(t, h.Valid() && h.Enough(), name)
	}
	nested := Assumed(NestedName)
	require.InDelta(t, 8.33, nested.Expect(free, 0, 16, true).TokensPerPass, 0.01, "as the replay with 0.90")
}
