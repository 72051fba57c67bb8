package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/kv"
)

// TestSelectionRule walks through the ranges of tokens that attend alike.
func TestSelectionRule(t *testing.T) {
	type span struct {
		to      int
		selects bool
	}
	for name, c := range map[string]struct {
		exact              int // leading tokens that attended exactly
		first, end, prompt int
		want               []span
	}{
		"a short input selects":                   {0, 1000, 1064, 0, []span{{1064, true}}},
		"a long one does not":                     {0, 1000, 1065, 0, []span{{1065, false}}},
		"the end of a prompt in the prefix cache": {0, 1000, 1010, 1010, []span{{1010, false}}},
		"an answer again, and a question":         {0, 1000, 1020, 10, []span{{1020, true}}},
		"both are more than select together":      {0, 1000, 1100, 60, []span{{1040, true}, {1100, true}}},
		"an answer again, and a long input":       {0, 1000, 1100, 80, []span{{1020, true}, {1100, false}}},
		"a document again, and a question":        {1000, 1000, 1040, 10, []span{{1030, false}, {1040, true}}},
		"a document again, and a long input":      {1000, 1000, 1200, 170, []span{{1200, false}}},
		"all of a session again":                  {0, 0, 2000, 10, []span{{1990, false}, {2000, true}}},
	} {
		s := &Sequence{summaries: &kv.Summaries{}, exactTokens: c.exact, ids: make([]int32, c.first)}
		r := s.selectionRule(c.first, c.end, c.prompt)
		var got []span
		for at := c.first; at < c.end; {
			end, selects := r.spanAt(at)
			require.Greater(t, end, at, name)
			if selects {
				require.LessOrEqual(t, end-at, selectRows, name)
			}
			got, at = append(got, span{end, selects}), end
		}
		require.Equal(t, c.want, got, name)
		s.summaries = nil
		r = s.selectionRule(c.first, c.end, c.prompt)
		end, selects := r.spanAt(c.first)
		require.Equal(t, span{c.end, false}, span{end, selects}, "%s: a model that attends exactly needs one range", name)
	}
}
