package index

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
)

// generic are the kinds of questions that name nothing of their note, such as "List the decisions.", and absent those
// that no note answers.
var generic = map[string]bool{"decisions": true, "actions": true, "title": true, "date": true, "people": true, "place": true, "absent": true}

// demoQuestion is a question about one of the demo's notes.
type demoQuestion struct{ Kind, Question, File string }

// demoIndex returns an index of the demo's notes, and the questions that name something of their note.
func demoIndex(t *testing.T) (*Index, []demoQuestion, map[string][]byte) {
	t.Helper()
	dir := testutil.Shared(t, "demo", "notes")
	var expected struct {
		Notes []struct {
			File      string
			Questions []demoQuestion
		}
	}
	testutil.ReadJSON(t, filepath.Join(dir, "expected.json"), &expected)
	x, err := Open(vfs.NewMem(), "notes.index", Options{Model: "test"})
	require.NoError(t, err)
	w, err := x.Begin()
	require.NoError(t, err)
	var questions []demoQuestion
	texts := map[string][]byte{}
	for _, n := range expected.Notes {
		text, err := os.ReadFile(filepath.Join(dir, n.File))
		require.NoError(t, err)
		note, err := MakeNote(n.File, text)
		require.NoError(t, err)
		require.NoError(t, w.Put(&note))
		texts[n.File] = text
		for _, q := range n.Questions {
			if q.File = n.File; !generic[q.Kind] {
				questions = append(questions, q)
			}
		}
	}
	require.NoError(t, w.Close())
	require.Greater(t, len(questions), 50)
	return x, questions, texts
}

// rightAmong returns the part of the questions whose note is among the first hits.
func rightAmong(t *testing.T, x *Index, questions []demoQuestion, first int, query func(q *demoQuestion) Query) float64 {
	t.Helper()
	right := 0
	for i := range questions {
		q := query(&questions[i])
		q.Most = first
		hits, err := x.Search(q)
		require.NoError(t, err)
		found := false
		for _, hit := range hits {
			found = found || hit.Path == questions[i].File
		}
		if found {
			right++
		} else {
			t.Logf("not among the first %d: %s (%s)", first, questions[i].Question, questions[i].File)
		}
	}
	return float64(right) / float64(len(questions))
}

// TestWordsFindTheDemosNotes asks the demo's questions.
func TestWordsFindTheDemosNotes(t *testing.T) {
	x, questions, _ := demoIndex(t)
	words := func(q *demoQuestion) Query { return Query{Text: q.Question} }
	one, three := rightAmong(t, x, questions, 1, words), rightAmong(t, x, questions, 3, words)
	t.Logf("%d questions: the right note is the first hit of %.1f %%, among the first three of %.1f %%", len(questions), 100*one, 100*three)
	require.GreaterOrEqual(t, three, 0.9)
}
