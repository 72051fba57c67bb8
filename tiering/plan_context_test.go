package tiering

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatedMinimumOfAChosenContext follows the minimum that a refusal states, for keys and values
// that may move to flash and for others: it is enough, whatever context a larger budget would choose.
func TestStatedMinimumOfAChosenContext(t *testing.T) {
	for name, change := range map[string]func(*Shape, *Need){
		"in memory":         func(*Shape, *Need) {},
		"cold":              func(_ *Shape, n *Need) { n.KVCold = true },
		"cold with a limit": func(_ *Shape, n *Need) { n.KVCold, n.KVHot = true, 4*mib },
		"picked pages":      func(s *Shape, n *Need) { n.KVCold, s.KVSummaryPerToken = true, s.KVBytesPerToken/16 },
	} {
		t.Run(name, func(t *testing.T) {
			s := smallShape()
			s.KVUnit = int64(s.KVPageTokens) * s.KVBytesPerToken / int64(len(s.Layers))
			n := Need{Budget: 1, ContextMax: 131072, Code: 10 * mib, Heap: 11 * mib}
			change(&s, &n)
			_, err := MakePlan(s, n, rates)
			var refused *MinimumError
			require.ErrorAs(t, err, &refused)
			least := refused.Minimum
			for _, budget := range []int64{least - 1, least / 2} {
				n.Budget = budget
				_, err = MakePlan(s, n, rates)
				require.ErrorAs(t, err, &refused)
				require.Equal(t, least, refused.Minimum)
			}
			context := 0
			for budget := least; budget < 20*least; budget += least / 4 {
				n.Budget = budget
				p := makePlan(t, s, n)
				require.LessOrEqual(t, p.Total(), budget)
				require.GreaterOrEqual(t, p.Context, context, "a larger budget has no shorter context")
				context = p.Context
			}
			require.Greater(t, context, lowContext)
		})
	}
}
