package notes

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAskGivesPassagesThatFit asks with a room for fewer passages than there are.
func TestAskGivesPassagesThatFit(t *testing.T) {
	v := openVault(t, writeVault(t, map[string]string{"a.md": "The red fox.", "b.md": "A fox in the garden.", "c.md": "A hen."}), Options{})
	update(t, v)
	q, err := v.Ask(context.Background(), "Which fox is red?", AskOptions{})
	require.NoError(t, err)
	require.Equal(t, "a.md:\nThe red fox.\n\nb.md:\nA fox in the garden.\n\nWhich fox is red?", q.Prompt())
	words := func(text string) (int, error) { return len(strings.Fields(text)), nil }
	require.NoError(t, q.Fit(14, words))
	require.Len(t, q.Passages, 2)
	require.NoError(t, q.Fit(13, words))
	require.Len(t, q.Passages, 1)
	broken := errors.New("broken")
	require.ErrorIs(t, q.Fit(13, func(string) (int, error) { return 0, broken }), broken)
	require.NoError(t, q.Fit(0, words))
	require.Equal(t, "Which fox is red?", q.Prompt())
	require.Empty(t, q.Sources("The fox is red."))
}

// TestSourcesAreThoseOfTheAnswer expects the files whose words the answer has, whatever their rank was.
func TestSourcesAreThoseOfTheAnswer(t *testing.T) {
	q := &Question{Text: "When is the report due?", Passages: []Hit{
		{File: "a.md", Text: "The report is long. The report was late."},
		{File: "b.md", Text: "The report is due on Friday, says Uma."},
		{File: "a.md", Text: "Report."},
		{File: "c.md", Text: "Uma likes pears, and Friday."},
	}}
	require.Equal(t, []string{"b.md"}, q.Sources("The report is due by Friday."))
	require.Equal(t, []string{"b.md", "c.md"}, q.Sources("Uma, Friday and pears; the due report."))
	require.Equal(t, []string{"a.md"}, q.Sources("I do not know."))
}
