package answer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWatchFindsArguments reads the answers of all forms, with all tools held, in pieces of several lengths, each of which is tried first: every call of a
// held tool that is read is found where its arguments begin, before a piece is taken that has more of them than the beginning, and what is
// found is the same as what is read. Calls in another form are refused, and become text.
func TestWatchFindsArguments(t *testing.T) {
	held, expectations := 0, 0
	for _, form := range forms {
		for _, n := range []int{1, 3, 8, 1 << 20} {
			tools := testTools()
			tools.Hold("weather")
			f := New(form.marks, nil)
			want := read(f.NewParser("", tools), form.answer, func() int { return n })
			p := f.NewParser("", tools)
			if p == nil {
				continue
			}
			w := p.Watch()
			calls, refused := 0, false
			for answer := form.answer; answer != ""; {
				piece := answer[:min(n, len(answer))]
				answer = answer[len(piece):]
				trial := w.Try(piece)
				if refused = refused || trial.Refused; trial.Name != "" {
					calls++
					require.Equal(t, "weather", trial.Name)
					require.True(t, strings.HasPrefix(trial.Arguments, "{"), trial.Arguments)
					require.Contains(t, piece, trial.Arguments, form.name)
					require.Contains(t, want, "<weather"+trial.Arguments)
				}
				expected, at := w.Expects(), w.Try("{}").Name
				require.True(t, expected == "" || expected == at)
				if expected != "" && strings.Trim(piece, space) != "" {
					require.True(t, trial.Refused || trial.Name == expected, "%s: %q", form.name, piece)
					expectations++
				}
				w.Take(piece)
			}
			w.Close()
			require.Equal(t, strings.Count(want, "<weather"), calls, "%s in pieces of %d", form.name, n)
			if strings.Contains(form.want, "<weather") && calls == 0 && n < 10 { // a piece that has a whole call without an object is not tried
				require.True(t, refused, form.name)
			}
			held += calls
		}
	}
	require.Greater(t, held, 40, "forms are held")
	require.Greater(t, expectations, 10)
}
